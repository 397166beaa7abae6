/**
 * Many small keys, 25 bytes with values of 32: what the region spends on a key, and `peek` over so many that no thread's own map
 * holds them. The figure is all that is in use, index included, divided by the keys held.
 */
import { smallKey, smallValue } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import { Keylane } from "keylane";
import type { CacheContestant } from "./contestant.js";
import { LIFE_MS, optionsFor } from "./keylane-open.js";

/** Region planned for entries of 192 bytes: the smaller ones of this row leave some of it unused, which is not counted. */
const REGION_BYTES_A_KEY = 256;
const LEAST_REGION = 16 << 20;

export const contestant: CacheContestant = {
  name: "keylane peek, small keys in turn",
  role: "keylane",
  async open({ server, small }) {
    const { profiles, ...rest } = optionsFor(server).domains;
    const lanes = await Keylane.open({
      ...optionsFor(server),
      domains: { ...rest, small: { ...profiles, codec: "utf8", value: {}, cache: { mode: "all", ttlMs: LIFE_MS } } },
      cacheBytes: Math.max(LEAST_REGION, small * REGION_BYTES_A_KEY),
    });
    const keys = Array.from({ length: small }, (_, i) => smallKey(i));
    const values = Array.from({ length: small }, (_, i) => smallValue(i));
    const warm = await lanes.warm(keys);
    const { entries, bytesUsed } = lanes.stats().cache!;
    if (warm !== small || entries !== small)
      throw new Error(`${warm} of ${small} keys were stored, ${entries} are held`);
    const bytesPerEntry = bytesUsed / entries;
    const pass = (): number => {
      let wrong = 0;
      for (let i = 0; i < keys.length; i += 1) if (lanes.peek(keys[i]) !== values[i]) wrong += 1;
      return wrong;
    };
    return {
      play: async (maxMs) => ({ ...(await playPasses("small keys", pass, small, maxMs)), bytesPerEntry }),
      close: async () => {
        await lanes.close();
      },
    };
  },
};
