/* oxlint-disable unicorn/require-post-message-target-origin -- a worker has no origin */
/** The main thread's side of cache-worker.ts. The invariant: a worker that fails fails the round, and none outlives `stop`. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { KeylaneHandle } from "keylane";
import type { Sample } from "../report/types.js";
import { GO, LOOK_MS, READY, type WorkerMessage, type WorkerTask } from "./cache-worker-words.js";

/** A worker that has attached. */
export class CacheThread {
  readonly control = new Int32Array(new SharedArrayBuffer(16));
  readonly seenAt = new BigInt64Array(new SharedArrayBuffer(8));
  readonly #worker: Worker;
  readonly #failed: Promise<never>;

  private constructor(handle: KeylaneHandle, count: number, key: `up:${string}`) {
    const { control, seenAt } = this;
    const workerData: WorkerTask = { handle, control, count, key, seenAt };
    this.#worker = new Worker(new URL("./cache-worker.js", import.meta.url), { workerData });
    this.#failed = once(this.#worker, "exit").then(([code]) => {
      throw new Error(`the worker ended with ${code}`);
    });
    this.#failed.catch(() => {});
  }

  /** Starts a worker: a reader of `count` profiles, or with 0 a watcher of `key`. */
  static async start(handle: KeylaneHandle, count: number, key: `up:${string}` = "up:"): Promise<CacheThread> {
    const thread = new CacheThread(handle, count, key);
    await thread.orFail(once(thread.#worker, "message"));
    return thread;
  }

  /** Settles as `what` does, or rejects when the worker fails first. */
  orFail<T>(what: Promise<T>): Promise<T> {
    return Promise.race([what, this.#failed]);
  }

  /** Has the worker play a round in step with `own`, which this thread plays. */
  async together(maxMs: number, own: () => Promise<Sample>): Promise<[Sample, Sample]> {
    const { control } = this;
    control.fill(0);
    const theirs = this.orFail(once(this.#worker, "message") as Promise<[WorkerMessage]>);
    this.#worker.postMessage(maxMs);
    while (Atomics.load(control, READY) === 0) {
      const wait = Atomics.waitAsync(control, READY, 0, LOOK_MS);
      if (wait.async) await this.orFail(wait.value);
    }
    Atomics.store(control, GO, 1);
    const mine = await own();
    const [sample] = await theirs;
    return [mine, sample as Sample];
  }

  async stop(end: () => void = () => this.#worker.postMessage(null)): Promise<void> {
    const gone = once(this.#worker, "exit");
    end();
    await gone;
  }
}
