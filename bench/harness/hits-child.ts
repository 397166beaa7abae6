/**
 * The process of one contestant that counts hits: a counter by itself, over seconds of hits; or `peek` of cached profiles, with
 * keylane counting and not counting in turns, where the difference is what counting costs a hit.
 */
import { setImmediate, setTimeout } from "node:timers/promises";
import { Keylane } from "keylane";
import { optionsFor } from "../baselines/cache/keylane-open.js";
import { median } from "../report/stats.js";
import { profilePass, profiles } from "./cache-keys.js";
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
import { playPasses, playTimed, ranks } from "./passes.js";
import { type Contestant, serve } from "./serve.js";

/** Which contestant, and what it works on. */
export type HitsEntry =
  | { readonly counter: CounterName; readonly stream: StreamSpec }
  | { readonly countedFirst: boolean; readonly server: string; readonly count: number };

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

/** Slices of one round, of each kind: so long that an instance which is used half of the time counts nearly as one that always is. */
const SLICES = 2;
/** Parts of a slice, between which timers run. */
const PARTS = 10;
/** After a slice all that its hits leave to be done on timers is done within so many milliseconds. */
const SETTLE_MS = 75;

/**
 * `peek` through two instances that hold the same profiles, one that counts hits and one that does not, in turns of some
 * milliseconds and in changing order: what they share, the state of compiled code before all, is alike in both. What the thread
 * does on timers during and after the slices that are counted is done for their hits.
 */
async function openPeeks(countedFirst: boolean, server: string, count: number): Promise<Contestant<HitsRound>> {
  const set = profiles(count);
  const open = async (counting: boolean) => {
    const lanes = await Keylane.open({ ...optionsFor(server), ...(counting ? {} : { hotKeys: false }) });
    const warm = await lanes.warm(set.keys);
    if (warm !== set.keys.length) throw new Error(`${warm} of ${set.keys.length} keys are in the cache`);
    return { lanes, pass: profilePass(set, (key) => lanes.peek(key as `up:${string}`)) };
  };
  const [one, other] = [await open(countedFirst), await open(!countedFirst)];
  const [counted, uncounted] = countedFirst ? [one, other] : [other, one];
  /** Nanoseconds of CPU time a hit, and of what runs on timers. */
  const slice = async ({ pass }: typeof one, maxMs: number) => {
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
    return { ns: (micros * 1000) / hits, opsPerSec: (hits / elapsed) * 1000, between: background / hits };
  };
  return {
    name: COUNTED,
    role: "keylane",
    async play({ maxMs }) {
      const [on, off, added, betweens, speeds]: number[][] = [[], [], [], [], []];
      for (let i = 0; i < SLICES; i += 1) {
        const results = new Map<typeof one, Awaited<ReturnType<typeof slice>>>();
        for (const which of i % 2 === 0 ? [counted, uncounted] : [uncounted, counted]) {
          results.set(which, await slice(which, maxMs / SLICES / 2));
        }
        const [with_, without] = [results.get(counted)!, results.get(uncounted)!];
        on.push(with_.ns);
        off.push(without.ns);
        added.push(with_.ns - without.ns);
        betweens.push(with_.between);
        speeds.push(with_.opsPerSec);
      }
      const between = median(betweens);
      return {
        opsPerSec: median(speeds),
        cpuMicrosPerOp: (median(on) + between) / 1000,
        ...ranks(on.map((ns) => ns / 1e6)),
        more: { [UNCOUNTED]: median(off), [ADDED]: median(added) + between, [BETWEEN]: between },
      };
    },
    async close() {
      await counted.lanes.close();
      await uncounted.lanes.close();
    },
  };
}

serve(async (entry: HitsEntry): Promise<Contestant<HitsRound>> =>
  "counter" in entry
    ? openCounter(entry.counter, entry.stream)
    : openPeeks(entry.countedFirst, entry.server, entry.count),
);
