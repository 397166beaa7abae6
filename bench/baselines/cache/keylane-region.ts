/**
 * `peek` answered by the region that all threads share, decoding included: what a thread's first read of a key costs. Keys are
 * given as bytes, which a thread does not keep in its own map.
 */
import { profilePass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";
import { openWarm } from "./keylane-open.js";

export const contestant: CacheContestant = {
  name: "keylane peek, shared region",
  role: "keylane",
  async open(target) {
    const lanes = await openWarm(target);
    const { set } = target;
    const keys = set.order.map((user) => Buffer.from(set.keys[user]));
    let at = 0;
    const pass = profilePass(set, () => {
      const profile = lanes.peek(keys[at]);
      at = at + 1 === keys.length ? 0 : at + 1;
      return profile;
    });
    return {
      async play(maxMs) {
        const before = lanes.stats().cache!.l1Hits;
        const sample = await playPasses("keylane peek, shared region", pass, keys.length, maxMs);
        if (lanes.stats().cache!.l1Hits - before < keys.length) throw new Error("the region did not answer");
        return sample;
      },
      close: async () => {
        await lanes.close();
      },
    };
  },
};
