/**
 * The storm once with keylane and once with ioredis Cluster, as people configure it: its defaults, and automatic pipelining.
 * Same faults in the same order, same load, a fresh cluster each. Run by hand:
 *
 *     node build/test/chaos/side-by-side.js --seconds 120 --seed 1
 *
 * What the columns say: `errors` failed calls; `of other shards` those on slots that the fault of the moment does not concern;
 * `hung` calls unsettled a second after keylane's deadline (ioredis has none by default, so it is held to the same);
 * `doubled` increments beyond all that were acknowledged or may have run.
 */
import { parseArgs } from "node:util";

import { native } from "#dist/native/index.js";
import { Cluster } from "ioredis";
import { Keylane } from "keylane";

import { ADD_SCRIPT, keylaneClient, type StormClient } from "../support/chaos/client.js";
import { RelayedCluster } from "../support/chaos/relayed.js";
import { HEADINGS, report, summary, table } from "../support/chaos/report.js";
import { makeTags, storm, type StormFigures } from "../support/chaos/storm.js";

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "60" }, seed: { type: "string", default: "1" } },
});
const seconds = Number(values.seconds);
const seed = Number(values.seed);

interface WithScript {
  add(key: string, by: number): Promise<number>;
}

/** ioredis Cluster as a client of storms. */
function ioredisClient({ seeds, natMap }: RelayedCluster): StormClient {
  const cluster = new Cluster([...seeds], { enableAutoPipelining: true, natMap });
  cluster.defineCommand("add", { numberOfKeys: 1, lua: ADD_SCRIPT });
  cluster.on("error", () => {
    // Told by the calls as well.
  });
  return {
    name: "ioredis Cluster",
    get: (key) => cluster.get(key),
    set: (key, value) => cluster.set(key, value),
    incr: (key, by) => cluster.incrby(key, by),
    async getMany(keys) {
      const results = await Promise.allSettled(keys.map((key) => cluster.get(key)));
      return results.map((result) => (result.status === "fulfilled" ? result.value : (result.reason as Error)));
    },
    script: (key, by) => (cluster as unknown as WithScript).add(key, by),
    async multi(counter, register, value) {
      const results = await cluster.multi().incrby(counter, 1).set(register, value).exec();
      const failed = results?.find(([error]) => error !== null);
      if (results === null || failed !== undefined) throw failed?.[0] ?? new Error("EXEC gave null");
      return results[0]![1] as number;
    },
    endingOf: (error) => ((error as Error).name === "ReplyError" ? "rejected" : "unknown"),
    codeOf: (error) => {
      const { name, message } = error as Error;
      return `${name}: ${message.split(" ", name === "ReplyError" ? 1 : 4).join(" ")}`;
    },
    close: async () => cluster.disconnect(),
  };
}

async function keylane({ seeds, natMap }: RelayedCluster): Promise<StormClient> {
  const lanes = await Keylane.open({ domains: { all: { prefixes: [""], nodes: seeds, natMap } } });
  return keylaneClient(lanes);
}

/** One storm on a cluster of its own. */
async function run(open: (rig: RelayedCluster) => Promise<StormClient> | StormClient): Promise<StormFigures> {
  const rig = await RelayedCluster.start({ replicas: 1, config: { "cluster-require-full-coverage": "no" } });
  try {
    const client = await open(rig);
    const tags = makeTags(60, (key) => native.slot(key));
    const figures = await storm({ rig, client, tags, seconds, seed });
    console.log(`${report(figures)}\n`);
    await client.close();
    return figures;
  } finally {
    await rig.stop();
  }
}

const all = [await run(keylane), await run(ioredisClient)];
console.log(table([HEADINGS, ...all.map(summary)]));
// What a client left unsettled must not keep this program.
process.exit(0);
