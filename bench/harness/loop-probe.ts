/**
 * How long something that has happened waits until the event loop gets to it: another thread sends stamped messages at times of its
 * own, and each tells how old it is when it is handled.
 *
 * Node's `monitorEventLoopDelay` is told beside it, but it looks by timers, and those count in whole milliseconds: a loop that does
 * next to nothing but is woken several times a millisecond is said to be 0.7 ms late in its 99th percentile (resolution 1 ms).
 */
import { createHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import type { IntervalHistogram } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Gate } from "./loop-probe-gate.js";

/** Distance of the timers of `monitorEventLoopDelay`, in milliseconds; a loop that is never late is told to be as late as this. */
const RESOLUTION_MS = 10;

/** By timers a loop may come early; it is told to be as late as this then. */
const LEAST_MS = 0.001;

/** What a probe saw; milliseconds. */
export interface LoopDelay {
  readonly p99Ms: number;
  /** The same by Node's timers. */
  readonly timersP99Ms: number;
}

export class LoopProbe {
  readonly gate = new Gate();
  readonly #worker: Worker;
  #ages = createHistogram();
  #timers: IntervalHistogram | null = null;

  /** Sends nothing before `begin`. */
  constructor() {
    this.#worker = new Worker(new URL("./loop-probe-thread.js", import.meta.url), { workerData: this.gate.words });
    this.#worker.on("message", (stamp: bigint) => {
      const age = process.hrtime.bigint() - stamp;
      if (this.#timers !== null) this.#ages.record(age < 1n ? 1n : age);
    });
  }

  /** Messages handled since `begin`. */
  get stamps(): number {
    return this.#ages.count;
  }

  begin(): void {
    this.#ages = createHistogram();
    this.#timers = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
    this.#timers.enable();
    this.gate.open();
  }

  /**
   * What was seen since `begin`; messages still on their way are left out. Of a round so short that nothing was, it waits for the
   * first of each.
   */
  async end(): Promise<LoopDelay> {
    const timers = this.#timers!;
    while (this.#ages.count === 0 || timers.count === 0) await setTimeout(1);
    this.gate.close();
    this.#timers = null;
    timers.disable();
    return {
      p99Ms: this.#ages.percentile(99) / 1e6,
      timersP99Ms: Math.max(timers.percentile(99) / 1e6 - RESOLUTION_MS, LEAST_MS),
    };
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}
