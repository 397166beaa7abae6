/**
 * A worker thread that has attached to a keylane of the test and does what it is told, one thing after the other.
 *
 * ```ts
 * const worker = await AttachedThread.start(lanes);
 * assert.equal(await worker.get("k"), "v");
 * ```
 */
import { once } from "node:events";
import { after } from "node:test";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { KeylaneHandle } from "keylane";

/** What the thread can be told, and to what it applies. */
type Order =
  | { readonly what: "get"; readonly key: string }
  | { readonly what: "peek"; readonly key: string }
  | { readonly what: "set"; readonly key: string; readonly value: string }
  | { readonly what: "spin"; readonly key: string; readonly limitMs: number }
  | { readonly what: "block"; readonly forMs: number }
  | { readonly what: "close" };

/** How long a thread may take over an order by itself, in milliseconds. */
const SPIN_LIMIT_MS = 5000;

interface ThreadData {
  readonly handle: KeylaneHandle;
  readonly flags: Int32Array;
}

export class AttachedThread {
  /** Word 0 is 1 while the thread spins or is blocked. */
  readonly #flags: Int32Array;
  readonly #worker: Worker;

  private constructor(worker: Worker, flags: Int32Array) {
    this.#worker = worker;
    this.#flags = flags;
  }

  /** Starts the thread; resolves when it is connected. It is ended with the test at the latest. */
  static async start<Domains>(lanes: Keylane<Domains>): Promise<AttachedThread> {
    const flags = new Int32Array(new SharedArrayBuffer(4));
    const data: ThreadData = { handle: lanes.handle(), flags };
    const worker = new Worker(new URL(import.meta.url), { workerData: data });
    after(() => worker.terminate());
    await once(worker, "message");
    return new AttachedThread(worker, flags);
  }

  get(key: string): Promise<unknown> {
    return this.#tell({ what: "get", key });
  }

  peek(key: string): Promise<unknown> {
    return this.#tell({ what: "peek", key });
  }

  set(key: string, value: string): Promise<unknown> {
    return this.#tell({ what: "set", key, value });
  }

  /**
   * Has the thread ask `peek` again and again, without a return to its event loop, until the answer is another one than at
   * first; `during` is called meanwhile. Resolves to that answer, or to `"nothing new"` after a while.
   */
  async spin(key: string, during: () => unknown): Promise<unknown> {
    const told = this.#tell({ what: "spin", key, limitMs: SPIN_LIMIT_MS });
    await this.#busy();
    await during();
    return told;
  }

  /** Has the thread stand still; resolves when it does. `over` resolves when it goes on. */
  async block(forMs: number): Promise<{ readonly over: Promise<unknown> }> {
    const over = this.#tell({ what: "block", forMs });
    await this.#busy();
    return { over };
  }

  /** Whether the thread spins or stands still now. */
  get busy(): boolean {
    return Atomics.load(this.#flags, 0) === 1;
  }

  /** Ends the thread in an orderly way. */
  async close(): Promise<void> {
    const ended = once(this.#worker, "exit");
    await this.#tell({ what: "close" });
    await ended;
  }

  /** Ends the thread as it is. */
  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }

  async #busy(): Promise<void> {
    while (!this.busy) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  async #tell(order: Order): Promise<unknown> {
    const answer = once(this.#worker, "message");
    this.#worker.postMessage(order, []);
    const [{ value, error }] = (await answer) as [{ value?: unknown; error?: string }];
    if (error !== undefined) throw new Error(error);
    return value;
  }
}

async function carryOut(lanes: Keylane, order: Order, flags: Int32Array): Promise<unknown> {
  if (order.what === "get") return lanes.get(order.key);
  if (order.what === "peek") return lanes.peek(order.key);
  if (order.what === "set") return lanes.set(order.key, order.value as never);
  if (order.what === "close") return lanes.close();
  const first = order.what === "spin" ? lanes.peek(order.key) : undefined;
  Atomics.store(flags, 0, 1);
  try {
    if (order.what === "spin") return spin(lanes, order.key, first, order.limitMs);
    return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.forMs);
  } finally {
    Atomics.store(flags, 0, 0);
  }
}

function spin(lanes: Keylane, key: string, first: unknown, limitMs: number): unknown {
  const end = performance.now() + limitMs;
  for (let looks = 1; ; looks += 1) {
    const value = lanes.peek(key);
    if (value !== first) return value;
    if (looks % 1024 === 0 && performance.now() > end) return "nothing new";
  }
}

async function thread({ handle, flags }: ThreadData): Promise<void> {
  const lanes = (await Keylane.attach(handle)) as unknown as Keylane;
  parentPort!.on("message", (order: Order) => {
    void (async () => {
      const [done] = await Promise.allSettled([carryOut(lanes, order, flags)]);
      const answer = done.status === "fulfilled" ? { value: done.value } : { error: String(done.reason) };
      parentPort!.postMessage(answer, []);
      if (order.what === "close") parentPort!.close();
    })();
  });
  parentPort!.postMessage("ready", []);
}

if (!isMainThread && (workerData as Partial<ThreadData> | null)?.flags !== undefined) {
  await thread(workerData as ThreadData);
}
