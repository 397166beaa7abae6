/** `await get` of cached keys. */
import { awaitedPass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";
import { openWarm } from "./keylane-open.js";

export const contestant: CacheContestant = {
  name: "keylane await get",
  role: "keylane",
  async open(target) {
    const lanes = await openWarm(target);
    const { set } = target;
    const pass = awaitedPass(set, (key) => lanes.get(key as `up:${string}`));
    return {
      async play(maxMs) {
        const { loads } = lanes.stats().cache!;
        const sample = await playPasses("keylane await get", pass, set.keys.length, maxMs);
        if (lanes.stats().cache!.loads !== loads) throw new Error("a value was asked of the server");
        return sample;
      },
      close: async () => {
        await lanes.close();
      },
    };
  },
};
