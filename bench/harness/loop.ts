/**
 * The closed loop all peers run under. `inFlight` flows each ask, await, check the value and ask again, so exactly that
 * many promises are open until the round ends. The invariant: the code between two calls of the peer is the same for all
 * peers and holds one await, one compare and, on sampled operations only, two clock reads; what it costs is measured by
 * running it over an already resolved promise (baselines/harness.ts).
 */
import { createHistogram, performance } from "node:perf_hooks";
import type { Sample } from "../report/types.js";
import { type KeySet, WrongValue } from "./keys.js";

/** How much to do in a round: whichever of the two bounds is reached first ends it. */
export interface RoundSpec {
  readonly inFlight: number;
  readonly maxOps: number;
  readonly maxMs: number;
}

/** Above this many in flight the latency of every 16th operation is taken, otherwise of all. */
const SAMPLE_ALL_UP_TO = 64;
const SAMPLE_EVERY = 16;

/** Percentiles of latencies in milliseconds, to a microsecond and three significant digits. */
function percentiles(latencies: Float64Array): Pick<Sample, "p50Ms" | "p99Ms"> {
  const histogram = createHistogram({ lowest: 1, highest: 60_000_000, figures: 4 });
  for (const ms of latencies) histogram.record(Math.max(1, Math.round(ms * 1000)));
  return { p50Ms: histogram.percentile(50) / 1000, p99Ms: histogram.percentile(99) / 1000 };
}

/** Figures of a round from its clocks. */
function toSample(ops: number, ms: number, cpu: NodeJS.CpuUsage, latencies: Float64Array): Sample {
  if (ops === 0) throw new Error("the round completed no operation");
  return { opsPerSec: (ops / ms) * 1000, cpuMicrosPerOp: (cpu.user + cpu.system) / ops, ...percentiles(latencies) };
}

/** One promise per GET. Rejects on the first wrong value or error. */
export async function runLoop(
  get: (key: string) => Promise<string | null>,
  set: KeySet,
  cursor: { at: number },
  round: RoundSpec,
): Promise<Sample> {
  const { keys, values, order } = set;
  const mask = round.inFlight > SAMPLE_ALL_UP_TO ? SAMPLE_EVERY - 1 : 0;
  const latencies = new Float64Array(Math.ceil(round.maxOps / (mask + 1)));
  const end = order.length;
  let limit = round.maxOps;
  let issued = 0;
  let taken = 0;
  let next = cursor.at;
  let deadline = 0;

  const flow = async (): Promise<void> => {
    while (issued < limit) {
      const sampled = (issued & mask) === 0;
      issued += 1;
      const which = order[next];
      next += 1;
      if (next === end) next = 0;
      const began = sampled ? performance.now() : 0;
      const value = await get(keys[which]);
      if (value !== values[which]) {
        limit = 0;
        throw new WrongValue(keys[which], values[which], value);
      }
      if (!sampled) continue;
      const ended = performance.now();
      latencies[taken] = ended - began;
      taken += 1;
      if (ended > deadline) limit = 0;
    }
  };

  const started = performance.now();
  const cpuStarted = process.cpuUsage();
  deadline = started + round.maxMs;
  await Promise.all(Array.from({ length: round.inFlight }, flow));
  const cpu = process.cpuUsage(cpuStarted);
  const ms = performance.now() - started;
  cursor.at = next;
  return toSample(issued, ms, cpu, latencies.subarray(0, taken));
}

/** Calls that count by key. */
export interface Counter {
  readonly keys: readonly string[];
  /** Made so far, by all rounds: they take the keys in turn. */
  calls: number;
  ask(key: string): Promise<unknown>;
  /** The count that an answer tells, or what a call was rejected with; NaN when it tells none. */
  countOf(answer: unknown, rejected: boolean): number;
  /** The count that the n-th call of a key must give. */
  expected(nth: number): number;
}

/** As `runLoop`, one promise per call; rejects on the first wrong count. */
export async function runCounter(counter: Counter, round: RoundSpec): Promise<Sample> {
  const { keys } = counter;
  const mask = round.inFlight > SAMPLE_ALL_UP_TO ? SAMPLE_EVERY - 1 : 0;
  const latencies = new Float64Array(Math.ceil(round.maxOps / (mask + 1)));
  const end = keys.length;
  let limit = round.maxOps;
  let issued = 0;
  let taken = 0;
  let nth = Math.floor(counter.calls / end) + 1;
  let next = counter.calls % end;
  let deadline = 0;

  const flow = async (): Promise<void> => {
    while (issued < limit) {
      const sampled = (issued & mask) === 0;
      issued += 1;
      const key = keys[next];
      const expected = counter.expected(nth);
      next += 1;
      if (next === end) {
        next = 0;
        nth += 1;
      }
      const began = sampled ? performance.now() : 0;
      let rejected = false;
      let answer: unknown;
      try {
        answer = await counter.ask(key);
      } catch (error) {
        answer = error;
        rejected = true;
      }
      const count = counter.countOf(answer, rejected);
      if (count !== expected) {
        limit = 0;
        throw answer instanceof Error ? answer : new WrongValue(key, String(expected), count);
      }
      if (!sampled) continue;
      const ended = performance.now();
      latencies[taken] = ended - began;
      taken += 1;
      if (ended > deadline) limit = 0;
    }
  };

  const started = performance.now();
  const cpuStarted = process.cpuUsage();
  deadline = started + round.maxMs;
  await Promise.all(Array.from({ length: round.inFlight }, flow));
  const cpu = process.cpuUsage(cpuStarted);
  const ms = performance.now() - started;
  counter.calls += issued;
  return toSample(issued, ms, cpu, latencies.subarray(0, taken));
}

/** A client that takes its operations as batches, prepared before the clock starts. */
export interface Batches {
  readonly count: number;
  /** Sends batch `i`; resolves when all its values were read and found right. */
  run(i: number): Promise<void>;
}

/** One batch of `inFlight` operations after the other; the latency of an operation is that of its batch. */
export async function runBatches(batches: Batches, round: RoundSpec): Promise<Sample> {
  const most = Math.max(1, Math.floor(round.maxOps / round.inFlight));
  const latencies = new Float64Array(most);
  let done = 0;
  const started = performance.now();
  const cpuStarted = process.cpuUsage();
  const deadline = started + round.maxMs;
  for (let began = started; done < most && began < deadline;) {
    await batches.run(done % batches.count);
    const ended = performance.now();
    latencies[done] = ended - began;
    began = ended;
    done += 1;
  }
  const cpu = process.cpuUsage(cpuStarted);
  const ms = performance.now() - started;
  return toSample(done * round.inFlight, ms, cpu, latencies.subarray(0, done));
}
