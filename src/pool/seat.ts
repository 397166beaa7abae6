/**
 * One worker's place in the pool. A seat has one worker at a time, started through piscina, and another one when it dies: at
 * once when it had served for a while, else with growing pauses. The invariant: every worker started is ended, and nothing is
 * sent to one that is not open.
 */
import { MessageChannel } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { Piscina } from "piscina";
import { KeylaneError } from "../errors.js";
import type { Notice, Order, WorkerJob } from "./worker.js";

/** A worker that served for so long, in milliseconds, was no failure: the next one is started at once. */
const STEADY_MS = 1000;
const LONGEST_PAUSE_MS = 2000;

/** Who has the seat. */
export interface SeatOwner {
  /** The file that piscina loads. */
  readonly program: string;
  job(worker: number): Omit<WorkerJob, "control">;
  /** The worker is open: callers can be given to it. */
  opened(seat: Seat): void;
  heard(seat: Seat, notice: Notice): void;
  /** The worker is gone, or could not open. */
  emptied(seat: Seat, error: KeylaneError): void;
}

export class Seat {
  readonly index: number;
  readonly #owner: SeatOwner;
  #piscina: Piscina | null = null;
  #control: MessagePort | null = null;
  #open = false;
  /** When it opened. */
  #since = 0;
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;
  /** Why the worker says it could not open. */
  #fault: KeylaneError | null = null;
  readonly #gone = new Set<Promise<void>>();

  constructor(index: number, owner: SeatOwner) {
    this.index = index;
    this.#owner = owner;
  }

  /** Starts a worker. */
  start(): void {
    if (this.#ended) return;
    const piscina = new Piscina({
      filename: this.#owner.program,
      minThreads: 0,
      maxThreads: 1,
      atomics: "disabled",
      recordTiming: false,
    });
    const { port1: control, port2 } = new MessageChannel();
    this.#piscina = piscina;
    this.#control = control;
    this.#fault = null;
    control.on("message", (notice: Notice) => this.#heard(notice));
    // The task is rejected by the same error, unless the thread ends before it has taken the task.
    let error: Error | null = null;
    piscina.on("error", (cause: Error) => (error = cause));
    piscina.on("workerDestroy", () => {
      setImmediate(() => this.#empty(piscina, error ?? new Error("the thread ended while it started")));
    });
    const job: WorkerJob = { ...this.#owner.job(this.index), control: port2 };
    piscina.run(job, { transferList: [port2] }).then(
      () => this.#empty(piscina, new Error("the task ended")),
      (cause: Error) => this.#empty(piscina, cause),
    );
  }

  /** Gives the worker another caller. False when there is no worker. */
  serve(port: MessagePort): boolean {
    if (!this.#open) return false;
    this.#control!.postMessage({ serve: port } satisfies Order, [port]);
    return true;
  }

  /** Has the worker settle everything and end. Resolves when its thread is gone, after `withinMs` by force. */
  async stop(withinMs: number): Promise<void> {
    const control = this.#control;
    this.#ended = true;
    if (control !== null) {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, withinMs)));
      const done = new Promise<void>((resolve) => control.once("close", resolve));
      control.postMessage({ stop: true } satisfies Order);
      await Promise.race([done, late]);
      clearTimeout(timer);
    }
    this.destroy();
    await Promise.all(this.#gone);
  }

  /** Ends the worker at once. */
  destroy(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
    if (this.#piscina !== null) this.#empty(this.#piscina, new Error("the pool was ended"));
  }

  #heard(notice: Notice): void {
    if (notice.tell === "open") {
      if (this.#ended) return;
      this.#open = true;
      this.#since = performance.now();
      this.#owner.opened(this);
    } else if (notice.tell === "failed") this.#fault = KeylaneError.from(notice.error);
    else this.#owner.heard(this, notice);
  }

  /** The worker of `piscina` is gone; what it leaves is cleared away, once. */
  #empty(piscina: Piscina, cause: Error): void {
    if (this.#piscina !== piscina) return;
    const steady = this.#open && performance.now() - this.#since > STEADY_MS;
    this.#failures = steady ? 0 : this.#failures + 1;
    this.#piscina = null;
    this.#open = false;
    this.#control!.removeAllListeners("message");
    this.#control!.close();
    this.#control = null;
    const gone = piscina.destroy().catch(() => {});
    this.#gone.add(gone);
    void gone.then(() => this.#gone.delete(gone));
    const error = this.#fault ?? this.#faultOf(cause);
    this.#owner.emptied(this, error);
    if (this.#ended) return;
    const pause = this.#failures === 0 ? 0 : Math.min(LONGEST_PAUSE_MS, 50 * 2 ** (this.#failures - 1));
    this.#timer = setTimeout(() => this.start(), pause);
  }

  #faultOf(cause: Error): KeylaneError {
    if (cause.name === "DataCloneError") {
      const message = `threads: the options hold what cannot be passed to a thread (${cause.message})`;
      return new KeylaneError("KEYLANE_ERR_OPTIONS", message, { cause });
    }
    return new KeylaneError("KEYLANE_ERR_WORKER_LOST", `worker ${this.index}: ${cause.message}`, { cause });
  }
}
