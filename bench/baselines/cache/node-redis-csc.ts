/** node-redis on one server with its client-side cache. */
import { createClient } from "redis";
import { CLIENT_SIDE_CACHE, clientSideCached } from "./client-side-cached.js";
import type { CacheContestant } from "./contestant.js";

export const contestant: CacheContestant = {
  name: "node-redis await get, client-side cache",
  role: "peer",
  open: ({ server, set }) => clientSideCached(createClient({ url: `redis://${server}`, ...CLIENT_SIDE_CACHE }), set),
};
