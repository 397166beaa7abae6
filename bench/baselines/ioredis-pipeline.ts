/**
 * ioredis with explicit pipelines, one connection and one pipeline per primary: the least work ioredis can be made to do.
 * The keys of a batch are sorted by primary before the clock starts, since a pipeline must stay on one node; that sorting
 * would be the caller's work.
 */
import { once } from "node:events";
import { Redis } from "ioredis";
import keySlot from "cluster-key-slot";
import { WrongValue } from "../harness/keys.js";
import { slotMap } from "../harness/nodes.js";
import { type Baseline, cutBatches } from "./baseline.js";

export const baseline: Baseline = {
  name: "ioredis per node, explicit pipeline",
  role: "peer",
  kind: "batch",
  async open({ nodes, set }) {
    const { primaries, owner } = await slotMap(nodes[0]);
    const clients = primaries.map(({ host, port }) => new Redis({ host, port }));
    await Promise.all(clients.map((client) => once(client, "ready")));

    const runOn = async (client: Redis, positions: readonly number[]): Promise<void> => {
      const pipeline = client.pipeline();
      for (const at of positions) pipeline.get(set.keys[at]);
      const replies = (await pipeline.exec()) ?? [];
      for (let i = 0; i < positions.length; i += 1) {
        const [error, value] = replies[i];
        if (error !== null) throw error;
        if (value !== set.values[positions[i]]) {
          throw new WrongValue(set.keys[positions[i]], set.values[positions[i]], value);
        }
      }
    };

    return {
      prepare(size) {
        const batches = cutBatches(set, size).map((positions) => {
          const groups: number[][] = primaries.map(() => []);
          for (const at of positions) groups[owner[keySlot(set.keys[at])]].push(at);
          return groups.map((group, n) => ({ client: clients[n], group })).filter(({ group }) => group.length > 0);
        });
        return {
          count: batches.length,
          async run(i) {
            await Promise.all(batches[i].map(({ client, group }) => runOn(client, group)));
          },
        };
      },
      async close() {
        await Promise.all(clients.map((client) => client.quit()));
      },
    };
  },
};
