/**
 * Loaded into every worker thread of a test (see `workers.ts`): ends its thread from inside, in the way it is told. Other threads
 * are left alone.
 */
import { BroadcastChannel, isMainThread, threadId } from "node:worker_threads";

/** What a thread is told. */
export interface Fault {
  readonly threadId: number;
  readonly how: "throw" | "exit" | "heap";
}

export const FAULTS = "keylane-test-faults";

if (!isMainThread) {
  const channel = new BroadcastChannel(FAULTS);
  channel.addEventListener("message", (event) => {
    const { threadId: whom, how } = (event as unknown as { data: Fault }).data;
    if (whom !== threadId) return;
    if (how === "exit") process.exit(1);
    if (how === "throw") setImmediate(throwOut);
    if (how === "heap") hoard();
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
