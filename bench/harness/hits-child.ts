/**
 * The process of one contestant that counts hits: a counter by itself, over seconds of hits; or hits of a thread's own map that are
 * told to the counters and not told in turns, where the difference is what that costs a hit.
 */
import { setImmediate, setTimeout } from "node:timers/promises";
import { median } from "../report/stats.js";
import { profilePass, profiles } from "./cache-keys.js";
import { CountedMap } from "./counted-map.js";
import {
  accuracy,
  COUNTERS,
  errorAt,
  precisionAt,
  recallAt,
  second,
  streamOf,
  thresholds,
  type CounterName,
  type StreamSpec,
} from "./hits.js";
import { ADDED, BETWEEN, COUNTED, UNCOUNTED } from "./hotkeys-figures.js";
import { type Pass, playPasses, playTimed, ranks } from "./passes.js";
import { type Contestant, serve } from "./serve.js";

/** Which contestant, and what it works on. */
export type HitsEntry =
  | { readonly counter: CounterName; readonly stream: StreamSpec }
  | { readonly toldFirst: boolean; readonly count: number };

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
    const taken = second(stream, counter);
    if (!counter.told(warn).some(([key]) => key === hottest)) throw new Error(`${name} does not tell ${hottest}`);
    return taken;
  };
  return {
    name,
    role: name.startsWith("keylane") ? "keylane" : "peer",
    play({ maxMs }) {
      const sample = playTimed(pass, stream.hits.length, maxMs);
      const [atWarn, atLow] = [warn, low].map((least) => accuracy(stream, counter, least));
      const shown = [recallAt(warn), precisionAt(warn), recallAt(low), errorAt(low)];
      const more = Object.fromEntries(shown.map((what) => [what, { ...atWarn, ...atLow }[what]!]));
      return { ...sample, more };
    },
    close: () => Promise.resolve(),
  };
}

/** Slices of a round: told or not, so that what comes with time is shared by both. */
const ORDER = [true, false, false, true];
/** Most hits of a key that wait to be told. */
const UNTOLD = 31;
/** Parts of a slice, between which timers run. */
const PARTS = 10;
/** After a slice all that its hits leave to be done on timers is done within so many milliseconds. */
const SETTLE_MS = 75;

/** Nanoseconds of CPU time a hit, and of what runs on timers. */
async function slice(pass: Pass, count: number, maxMs: number) {
  let [micros, hits, elapsed, background] = [0, 0, 0, 0];
  for (let part = 0; part < PARTS; part += 1) {
    const started = performance.now();
    const { cpuMicrosPerOp, opsPerSec } = await playPasses(COUNTED, pass, count, maxMs / PARTS);
    const ms = performance.now() - started;
    micros += (cpuMicrosPerOp * opsPerSec * ms) / 1000;
    hits += (opsPerSec * ms) / 1000;
    elapsed += ms;
    const before = process.cpuUsage();
    await (part + 1 < PARTS ? setImmediate() : setTimeout(SETTLE_MS));
    const { user, system } = process.cpuUsage(before);
    background += (user + system) * 1000;
  }
  return { ns: (micros * 1000) / hits, opsPerSec: (hits / elapsed) * 1000, between: background / hits, hits };
}

/**
 * Hits of a map that tells them and one that does not, which is the same map. What the thread does on timers during and after the
 * slices that are told is done for their hits.
 */
function openPeeks(toldFirst: boolean, count: number): Contestant<HitsRound> {
  const set = profiles(count);
  const map = new CountedMap(set);
  const pass = profilePass(set, (key) => map.get(key));
  return {
    name: COUNTED,
    role: "keylane",
    async play({ maxMs }) {
      const [on, off, betweens, speeds]: number[][] = [[], [], [], []];
      const before = map.told();
      let [hits, toldOf] = [0, 0];
      for (const which of ORDER) {
        const told = which === toldFirst;
        map.tell(told);
        const played = await slice(pass, count, maxMs / ORDER.length);
        (told ? on : off).push(played.ns);
        if (!told) continue;
        hits += played.hits;
        toldOf = map.told() - before;
        betweens.push(played.between);
        speeds.push(played.opsPerSec);
      }
      const least = hits - UNTOLD * count;
      if (toldOf < least) throw new Error(`of ${hits} hits ${toldOf} were told`);
      const between = median(betweens);
      return {
        opsPerSec: median(speeds),
        cpuMicrosPerOp: (median(on) + between) / 1000,
        ...ranks(on.map((ns) => ns / 1e6)),
        more: { [UNCOUNTED]: median(off), [ADDED]: median(on) - median(off) + between, [BETWEEN]: between },
      };
    },
    async close() {
      map.close();
    },
  };
}

serve(async (entry: HitsEntry): Promise<Contestant<HitsRound>> =>
  "counter" in entry ? openCounter(entry.counter, entry.stream) : openPeeks(entry.toldFirst, entry.count),
);
