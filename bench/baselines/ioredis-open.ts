/** Opens an ioredis Cluster and waits until it is ready; shared by the two baselines that differ in one option. */
import { once } from "node:events";
import { Cluster } from "ioredis";
import { parseNode } from "../harness/nodes.js";
import type { SinglePeer, Target } from "./baseline.js";

/** A connected cluster client. */
export async function openCluster(target: Target, enableAutoPipelining: boolean): Promise<SinglePeer> {
  const cluster = new Cluster(target.nodes.map(parseNode), { enableAutoPipelining });
  await once(cluster, "ready");
  return {
    get: (key) => cluster.get(key),
    close: async () => {
      await cluster.quit();
    },
  };
}
