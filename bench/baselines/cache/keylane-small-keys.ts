/**
 * Many small keys, 25 bytes with values of 32: what the region spends on a key, and `peek` over so many that no thread's own map
 * holds them. The figure is all that is in use, index included, divided by the keys held.
 */
import { smallKey, smallValue } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import { Keylane, valueOf } from "keylane";
import type { CacheContestant } from "./contestant.js";
import { LIFE_MS, optionsFor } from "./keylane-open.js";

/** A region is planned for entries of 192 bytes: the smaller ones of this row leave some of it unused, which is not counted. */
const REGION_BYTES_A_KEY = 288;
/** Keys that find no place in their part of the index drive others out: a few in a thousand. */
const LEAST_HELD = 0.98;
/** Keys of a pass, and of a step while filling. */
const AT_ONCE = 10_000;
const LEAST_REGION = 16 << 20;

function smallOptions(server: string, small: number) {
  const cache = { mode: "all", ttlMs: LIFE_MS } as const;
  const { domains, ...rest } = optionsFor(server);
  return {
    ...rest,
    domains: { small: { ...domains.profiles, codec: "utf8", value: valueOf<string>(), cache } },
    cacheBytes: Math.max(LEAST_REGION, small * REGION_BYTES_A_KEY),
  } as const;
}

export const contestant: CacheContestant = {
  name: "keylane peek, small keys in turn",
  role: "keylane",
  async open({ server, small }) {
    const all = Array.from({ length: small }, (_, i) => smallKey(i));
    const valuesOfAll = Array.from({ length: small }, (_, i) => smallValue(i));
    const keys: string[] = [];
    const values: string[] = [];
    const lanes = await Keylane.open(smallOptions(server, small));
    await lanes.warm(all);
    for (const [i, key] of all.entries()) {
      // A thread whose event loop stands still loses what it has loaded.
      if (i % AT_ONCE === 0) await new Promise(setImmediate);
      if (lanes.peek(key as `up:${string}`) === undefined) continue;
      keys.push(key);
      values.push(valuesOfAll[i]);
    }
    const { entries, bytesUsed } = lanes.stats().cache!;
    if (entries !== keys.length || entries < small * LEAST_HELD) {
      throw new Error(`${entries} of ${small} keys are held, ${keys.length} are found`);
    }
    const own = { bytesPerEntry: bytesUsed / entries, more: { "keys held": entries } };
    let next = 0;
    const pass = (): number => {
      let wrong = 0;
      for (let i = 0; i < AT_ONCE; i += 1) {
        if (lanes.peek(keys[next] as `up:${string}`) !== values[next]) wrong += 1;
        next = next + 1 === keys.length ? 0 : next + 1;
      }
      return wrong;
    };
    return {
      play: async (maxMs) => ({ ...(await playPasses("small keys", pass, AT_ONCE, maxMs)), ...own }),
      close: async () => {
        await lanes.close();
      },
    };
  },
};
