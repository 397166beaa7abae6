/** node-redis on a cluster with its client-side cache. */
import { createCluster } from "redis";
import { CLIENT_SIDE_CACHE, clientSideCached } from "./client-side-cached.js";
import type { CacheContestant } from "./contestant.js";

export const contestant: CacheContestant = {
  name: "node-redis cluster await get, client-side cache",
  role: "peer",
  open({ cluster, set }) {
    const rootNodes = cluster.map((node) => ({ url: `redis://${node}` }));
    return clientSideCached(createCluster({ rootNodes, ...CLIENT_SIDE_CACHE }), set);
  },
};
