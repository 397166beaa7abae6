/**
 * The worker threads that decide. The invariant: every request given to the desk is answered or refused, once; what a dead thread
 * had in hand is given to the next one on its place, at most twice.
 */
import { Worker } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import type { KeylaneHandle } from "keylane";
import type { Ad, Answer, Ask, DeciderData } from "./decision.js";

/** A thread that died before it was ready is followed by another after so long, in milliseconds. */
const PAUSE_MS = 100;
/** Threads that may die with one request in hand. */
const TRIES = 3;

interface Pending {
  readonly ask: Ask;
  readonly resolve: (ad: Ad | null) => void;
  readonly reject: (error: Error) => void;
  tries: number;
}

/** One place at the desk, on which one thread follows the other. */
class Place {
  readonly pending = new Map<number, Pending>();
  readonly #handle: () => KeylaneHandle;
  #worker: Worker | null = null;
  #closed = false;

  constructor(handle: () => KeylaneHandle) {
    this.#handle = handle;
    this.#start();
  }

  take(one: Pending): void {
    this.pending.set(one.ask.n, one);
    this.#worker?.postMessage(one.ask);
  }

  /** Refuses what is not decided and ends the thread. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { reject } of this.pending.values()) reject(new Error("the server is closing"));
    this.pending.clear();
    const worker = this.#worker;
    if (worker === null) return;
    const gone = new Promise((resolve) => worker.once("exit", resolve));
    worker.postMessage("close");
    await gone;
  }

  #start(): void {
    if (this.#closed) return;
    const handle = this.#handle();
    const port: MessagePort | undefined = handle.pool?.port;
    const worker = new Worker(new URL("decision.js", import.meta.url), {
      workerData: { handle, via: port === undefined ? "own" : "pool" } satisfies DeciderData,
      transferList: port === undefined ? [] : [port],
    });
    this.#worker = worker;
    let ready = false;
    worker.on("message", (answer: Answer | "ready") => {
      if (answer === "ready") ready = true;
      else this.#answered(answer);
    });
    worker.on("error", (error) => console.error(`a deciding thread failed: ${error.message}`));
    worker.on("exit", () => {
      this.#worker = null;
      setTimeout(() => this.#start(), ready ? 0 : PAUSE_MS);
    });
    for (const one of this.pending.values()) {
      one.tries += 1;
      if (one.tries <= TRIES) worker.postMessage(one.ask);
      else this.#settle(one).reject(new Error("the threads that had it died"));
    }
  }

  #answered({ n, ad, fault }: Answer): void {
    const one = this.pending.get(n);
    if (one === undefined) return;
    if (ad === undefined) this.#settle(one).reject(new Error(fault));
    else this.#settle(one).resolve(ad);
  }

  #settle(one: Pending): Pending {
    this.pending.delete(one.ask.n);
    return one;
  }
}

export class Desk {
  readonly #places: readonly Place[];
  #next = 0;

  /** `handle` is asked for one thread each time. */
  constructor(threads: number, handle: () => KeylaneHandle) {
    this.#places = Array.from({ length: threads }, () => new Place(handle));
  }

  /** Has an impression decided by the thread that has least to do. */
  decide(user: string, impression: string): Promise<Ad | null> {
    const place = this.#places.reduce((least, one) => (one.pending.size < least.pending.size ? one : least));
    this.#next += 1;
    const ask = { n: this.#next, user, impression };
    return new Promise((resolve, reject) => place.take({ ask, resolve, reject, tries: 1 }));
  }

  /** Refuses what is not decided and ends all threads. */
  async close(): Promise<void> {
    await Promise.all(this.#places.map((place) => place.close()));
  }
}
