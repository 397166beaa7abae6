/**
 * Loaded into every worker thread of a test (see `workers.ts`): ends its thread from inside, in the way it is told, or has it
 * stand still. Other threads are left alone.
 */
import { BroadcastChannel, isMainThread, threadId } from "node:worker_threads";

/** What a thread is told. */
export interface Fault {
  readonly threadId: number;
  readonly how: "throw" | "exit" | "heap" | "stall";
}

/** What a thread tells before it stands still. */
export interface Stall {
  readonly stalled: number;
}

/** How long it does, in milliseconds. */
const STALL_MS = 400;

export const FAULTS = "keylane-test-faults";

if (!isMainThread) {
  const channel = new BroadcastChannel(FAULTS);
  channel.addEventListener("message", (event) => {
    const { threadId: whom, how } = (event as unknown as { data: Fault }).data;
    if (whom !== threadId) return;
    if (how === "exit") process.exit(1);
    if (how === "throw") setImmediate(throwOut);
    if (how === "heap") hoard();
    if (how === "stall") {
      channel.postMessage({ stalled: threadId } satisfies Stall);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STALL_MS);
    }
  });
  channel.unref();
}

function throwOut(): never {
  throw new Error("thrown by the test");
}

function hoard(): never {
  const held: unknown[] = [];
  for (;;) held.push(Array.from({ length: 10_000 }, () => ({})));
}
