/** The loop and the comparison without a cache: their share in every other row. */
import { parsed, profilePass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";

export const contestant: CacheContestant = {
  name: "loop alone (array)",
  role: "overhead",
  open({ set }) {
    const values = set.order.map((user) => parsed(set, user));
    let at = 0;
    const pass = profilePass(set, () => {
      const profile = values[at];
      at = at + 1 === values.length ? 0 : at + 1;
      return profile;
    });
    return Promise.resolve({
      play: (maxMs) => playPasses("loop alone", pass, set.keys.length, maxMs),
      close: () => Promise.resolve(),
    });
  },
};
