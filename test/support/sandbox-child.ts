/**
 * A program for the sandbox's tests: starts a small cluster, says so in one line of JSON, and then ends as its argument says,
 * without stopping the cluster: `exit`, `throw`, or `wait` until somebody ends it.
 */
import { startCluster } from "keylane/sandbox";

const cluster = await startCluster({ primaries: 2 });
console.log(JSON.stringify({ pids: cluster.nodes.map((node) => node.pid), seeds: cluster.seeds }));

if (process.argv[2] === "throw") {
  setImmediate(() => {
    throw new Error("on purpose");
  });
}
if (process.argv[2] === "wait") setInterval(() => undefined, 1 << 30);
