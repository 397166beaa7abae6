/** node-redis (the `redis` package), cluster client with its defaults; it batches the writes of a turn by itself. */
import { createCluster } from "redis";
import type { Baseline } from "./baseline.js";

export const baseline: Baseline = {
  name: "node-redis cluster",
  role: "peer",
  kind: "single",
  async open({ nodes }) {
    const cluster = createCluster({ rootNodes: nodes.map((node) => ({ url: `redis://${node}` })) });
    cluster.on("error", (error: unknown) => {
      throw error;
    });
    await cluster.connect();
    return {
      get: (key) => cluster.get(key),
      close: async () => {
        await cluster.close();
      },
    };
  },
};
