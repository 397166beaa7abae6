/** `peek` of keys that this thread has read before: answered by its own map, proven by the region. */
import { profilePass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";
import { openWarm } from "./keylane-open.js";

export const contestant: CacheContestant = {
  name: "keylane peek",
  role: "keylane",
  async open(target) {
    const lanes = await openWarm(target);
    const { set } = target;
    const pass = profilePass(set, (key) => lanes.peek(key as `up:${string}`));
    return {
      async play(maxMs) {
        const before = lanes.stats().cache!.l0Hits;
        const sample = await playPasses("keylane peek", pass, set.keys.length, maxMs);
        if (lanes.stats().cache!.l0Hits - before < set.keys.length)
          throw new Error("the thread's own map did not answer");
        return sample;
      },
      close: async () => {
        await lanes.close();
      },
    };
  },
};
