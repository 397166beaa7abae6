/**
 * The process of one contestant that counts hits: a counter by itself, over seconds of hits; or `peek` of cached profiles, with
 * keylane counting or not, where the difference is what counting costs a hit.
 */
import { Keylane } from "keylane";
import { optionsFor } from "../baselines/cache/keylane-open.js";
import { profilePass, profiles } from "./cache-keys.js";
import {
  accuracy,
  COUNTERS,
  errorAt,
  precisionAt,
  recallAt,
  streamOf,
  thresholds,
  type CounterName,
  type StreamSpec,
} from "./hits.js";
import { playPasses } from "./passes.js";
import { type Contestant, serve } from "./serve.js";

/** Which contestant, and what it works on. */
export type HitsEntry =
  | { readonly counter: CounterName; readonly stream: StreamSpec }
  | { readonly counting: boolean; readonly server: string; readonly count: number };

/** A round lasts at least so many milliseconds. */
export interface HitsRound {
  readonly maxMs: number;
}

function openCounter(name: CounterName, spec: StreamSpec): Contestant<HitsRound> {
  const stream = streamOf(spec);
  const counter = COUNTERS[name](stream);
  const [warn, low] = thresholds(spec);
  const hottest = [...stream.counts].reduce((one, other) => (other[1] > one[1] ? other : one))[0];
  const pass = (): number => {
    counter.second();
    return counter.told(warn).some(([key]) => key === hottest) ? 0 : 1;
  };
  return {
    name,
    role: name.startsWith("keylane") ? "keylane" : "peer",
    async play({ maxMs }) {
      const sample = await playPasses(name, pass, stream.hits.length, maxMs);
      const [atWarn, atLow] = [warn, low].map((least) => accuracy(stream, counter, least));
      const shown = [recallAt(warn), precisionAt(warn), recallAt(low), errorAt(low)];
      const more = Object.fromEntries(shown.map((what) => [what, { ...atWarn, ...atLow }[what]!]));
      return { ...sample, more };
    },
    close: () => Promise.resolve(),
  };
}

async function openPeek(counting: boolean, server: string, count: number): Promise<Contestant<HitsRound>> {
  const name = `peek, ${counting ? "hits counted" : "hotKeys: false"}`;
  const set = profiles(count);
  const lanes = await Keylane.open({ ...optionsFor(server), ...(counting ? {} : { hotKeys: false }) });
  const warm = await lanes.warm(set.keys);
  if (warm !== set.keys.length) throw new Error(`${warm} of ${set.keys.length} keys are in the cache`);
  const pass = profilePass(set, (key) => lanes.peek(key as `up:${string}`));
  return {
    name,
    role: "keylane",
    play: ({ maxMs }) => playPasses(name, pass, set.keys.length, maxMs),
    async close() {
      await lanes.close();
    },
  };
}

serve(async (entry: HitsEntry): Promise<Contestant<HitsRound>> =>
  "counter" in entry ? openCounter(entry.counter, entry.stream) : openPeek(entry.counting, entry.server, entry.count),
);
