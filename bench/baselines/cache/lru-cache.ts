/** lru-cache with a ttl: a private cache of one thread, of decoded values. */
import type { Profile } from "#dist/cli/demo/ads.js";
import { LRUCache } from "lru-cache";
import { parsed, profilePass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";
import { LIFE_MS } from "./keylane-open.js";

export const contestant: CacheContestant = {
  name: "lru-cache get, ttl",
  role: "peer",
  open({ set }) {
    const cache = new LRUCache<string, Profile>({ max: 2 * set.keys.length, ttl: LIFE_MS });
    for (const [user, key] of set.keys.entries()) cache.set(key, parsed(set, user));
    const pass = profilePass(set, (key) => cache.get(key));
    return Promise.resolve({
      play: (maxMs) => playPasses("lru-cache", pass, set.keys.length, maxMs),
      close: () => Promise.resolve(),
    });
  },
};
