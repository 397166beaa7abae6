/** A plain Map, without bound or expiry: the least a lookup by string costs. */
import { parsed, profilePass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";

export const contestant: CacheContestant = {
  name: "Map.get, no bound and no expiry",
  role: "bound",
  open({ set }) {
    const map = new Map(set.keys.map((key, user) => [key, parsed(set, user)]));
    const pass = profilePass(set, (key) => map.get(key));
    return Promise.resolve({
      play: (maxMs) => playPasses("Map", pass, set.keys.length, maxMs),
      close: () => Promise.resolve(),
    });
  },
};
