/**
 * Rounds of contestants that compute: a pass handles all keys once and compares every result, and a round is passes until the
 * time is up, so that the loop over the keys is all there is between two looks at the clock.
 */
import type { Sample } from "../report/types.js";

/** Handles all keys once; gives how many results were wrong. */
export type Pass = () => number | Promise<number>;

/** One round. p50 and p99 are those of the passes, divided by their `keys`. */
export async function playPasses(name: string, pass: Pass, keys: number, maxMs: number): Promise<Sample> {
  const passes: number[] = [];
  const cpuStarted = process.cpuUsage();
  const started = performance.now();
  for (let now = started; now - started < maxMs;) {
    const began = now;
    const wrong = await pass();
    if (wrong !== 0) throw new Error(`${name}: ${wrong} of ${keys} results are wrong`);
    now = performance.now();
    passes.push((now - began) / keys);
  }
  const elapsed = performance.now() - started;
  const cpu = process.cpuUsage(cpuStarted);
  const ops = passes.length * keys;
  return { opsPerSec: (ops / elapsed) * 1000, cpuMicrosPerOp: (cpu.user + cpu.system) / ops, ...ranks(passes) };
}

/**
 * As `playPasses`, of a pass that gives the milliseconds that count, since it does other things in between. These get their
 * share of the CPU time, which is not more than they are: helpers that collect what the other things left are not theirs.
 */
export function playTimed(pass: () => number, keys: number, maxMs: number): Sample {
  const passes: number[] = [];
  let timed = 0;
  const cpuStarted = process.cpuUsage();
  const started = performance.now();
  while (performance.now() - started < maxMs) {
    const taken = pass();
    timed += taken;
    passes.push(taken / keys);
  }
  const elapsed = performance.now() - started;
  const cpu = process.cpuUsage(cpuStarted);
  const ops = passes.length * keys;
  const busy = Math.min(1, (cpu.user + cpu.system) / 1000 / elapsed);
  const cpuMicrosPerOp = (timed * 1000 * busy) / ops;
  return { opsPerSec: (ops / timed) * 1000, cpuMicrosPerOp, ...ranks(passes) };
}

/** Median and 99th percentile of some durations in milliseconds, which are sorted in place. */
export function ranks(durations: number[]): Pick<Sample, "p50Ms" | "p99Ms"> {
  if (durations.length === 0) throw new Error("the round completed no operation");
  durations.sort((a, b) => a - b);
  const rank = (share: number) => durations[Math.ceil(share * durations.length) - 1];
  return { p50Ms: rank(0.5), p99Ms: rank(0.99) };
}
