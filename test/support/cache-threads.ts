/**
 * Worker threads that share a cache: each attaches to the handle it is given, makes the calls it is told to and says what they
 * gave.
 *
 * ```ts
 * await using threads = await CacheThreads.start(lanes.handle(), 4);
 * const answers = await threads.all[0]!.calls(50, "get", "key").answers;
 * ```
 */
import { Worker } from "node:worker_threads";
import { KeylaneError } from "keylane";
import type { KeylaneHandle, SerializedError } from "keylane";

/** What a thread is told to do: make a call `times` times, all in one turn. */
export interface Order {
  readonly id: number;
  readonly call: string;
  readonly args: readonly unknown[];
  readonly times: number;
}

/** What a call gave. */
export type Answer = { readonly value: unknown } | { readonly error: SerializedError };

/** What a thread says: `answers` is null once all calls are made, then their results. Order 0 is to attach. */
export interface Told {
  readonly id: number;
  readonly answers: Answer[] | null;
}

/** How a thread gets its handle; `nested`: from a thread between. */
export type Passing = "workerData" | "postMessage" | "nested";

interface Waiting {
  asked(): void;
  answered(answers: Answer[]): void;
  failed(error: Error): void;
}

const PROGRAM = new URL("cache-thread.js", import.meta.url);
const BETWEEN = `
  import { Worker, parentPort, workerData } from "node:worker_threads";
  const inner = new Worker(new URL(workerData.program), { workerData });
  inner.on("message", (told) => parentPort.postMessage(told));
  parentPort.on("message", (order) => inner.postMessage(order));
  inner.once("exit", () => parentPort.close());
`;

/** One thread. */
export class CacheThread {
  readonly #worker: Worker;
  readonly #exit: Promise<number>;
  readonly #waiting = new Map<number, Waiting>();
  #last = 0;

  private constructor(worker: Worker) {
    this.#worker = worker;
    this.#exit = new Promise((resolve) => worker.once("exit", resolve));
    worker.on("message", ({ id, answers }: Told) => {
      const waiting = this.#waiting.get(id);
      if (answers === null) waiting?.asked();
      else {
        this.#waiting.delete(id);
        waiting?.answered(answers);
      }
    });
    worker.on("error", (error) => this.#fail(error as Error));
    void this.#exit.then((code) => this.#fail(new Error(`the thread has ended (${code})`)));
  }

  /** Starts a thread; resolves when it is attached. */
  static async start(handle: KeylaneHandle, passing: Passing = "workerData"): Promise<CacheThread> {
    const program = passing === "nested" ? new URL(`data:text/javascript,${encodeURIComponent(BETWEEN)}`) : PROGRAM;
    const workerData = { program: PROGRAM.href, ...(passing === "postMessage" ? {} : { handle }) };
    const worker = new Worker(program, { workerData });
    const thread = new CacheThread(worker);
    const attached = thread.#expect(0).answers;
    if (passing === "postMessage") thread.#tell(handle);
    await attached;
    return thread;
  }

  /** Makes a call `times` times in one turn: `asked` resolves when it was made, `answers` when all have settled. */
  calls(times: number, call: string, ...args: unknown[]): { asked: Promise<void>; answers: Promise<Answer[]> } {
    this.#last += 1;
    const expected = this.#expect(this.#last);
    this.#tell({ id: this.#last, call, args, times });
    return expected;
  }

  /** What one call gives; rejects with its error. */
  async call(name: string, ...args: unknown[]): Promise<unknown> {
    const [answer] = await this.calls(1, name, ...args).answers;
    if ("error" in answer!) throw KeylaneError.from(answer.error);
    return answer!.value;
  }

  /** Closes its keylane and lets the thread end. Gives its exit code. */
  end(): Promise<number> {
    this.#tell({ id: -1, call: "end", args: [], times: 0 });
    return this.#exit;
  }

  /** Ends it wherever it is. */
  async terminate(): Promise<void> {
    await this.#worker.terminate();
    await this.#exit;
  }

  #tell(message: Order | KeylaneHandle): void {
    const port: Worker = this.#worker;
    port.postMessage(message);
  }

  #expect(id: number): { asked: Promise<void>; answers: Promise<Answer[]> } {
    let asked!: Waiting["asked"];
    let answered!: Waiting["answered"];
    let failed!: Waiting["failed"];
    const made = new Promise<void>((resolve) => (asked = resolve));
    const answers = new Promise<Answer[]>((resolve, reject) => {
      answered = resolve;
      failed = reject;
    });
    // A thread may be ended on purpose while nobody waits for its answers.
    answers.catch(() => undefined);
    this.#waiting.set(id, { asked, answered, failed });
    return { asked: made, answers };
  }

  #fail(error: Error): void {
    for (const waiting of this.#waiting.values()) waiting.failed(error);
    this.#waiting.clear();
  }
}

/** Several threads on one handle, for `await using`. */
export class CacheThreads implements AsyncDisposable {
  readonly all: readonly CacheThread[];

  private constructor(all: readonly CacheThread[]) {
    this.all = all;
  }

  static async start(handle: KeylaneHandle, count: number): Promise<CacheThreads> {
    return new CacheThreads(await Promise.all(Array.from({ length: count }, () => CacheThread.start(handle))));
  }

  /** Makes a call `times` times in each thread at once, and gives all answers. */
  async calls(times: number, call: string, ...args: unknown[]): Promise<Answer[]> {
    const made = this.all.map((thread) => thread.calls(times, call, ...args).answers);
    return (await Promise.all(made)).flat();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((thread) => thread.terminate()));
  }
}
