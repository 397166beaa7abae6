/**
 * The worker threads that a test's pools start: known from the moment this module is loaded, and ended in four ways. Each gets a
 * small heap, so that it can be filled in no time.
 */
import threads, { BroadcastChannel, type Worker, type WorkerOptions } from "node:worker_threads";
import { fileURLToPath } from "node:url";
import { FAULTS, type Fault, type Stall } from "./fault.js";

/** Ways for a thread to end. */
export const WAYS = ["throw", "exit", "heap", "terminate"] as const;
export type Way = (typeof WAYS)[number];

const running = new Set<Worker>();
const Original = threads.Worker;
const preload = fileURLToPath(new URL("./fault.js", import.meta.url));

threads.Worker = class extends Original {
  constructor(file: string | URL, options: WorkerOptions = {}) {
    super(file, {
      ...options,
      execArgv: [...process.execArgv, "--import", preload],
      resourceLimits: { maxOldGenerationSizeMb: 96 },
    });
    running.add(this);
    this.once("exit", () => running.delete(this));
  }
};

/** Threads that run, oldest first. */
export function runningWorkers(): Worker[] {
  return [...running];
}

/** Ends a thread. Resolves when it is gone. */
export async function endWorker(worker: Worker, how: Way): Promise<void> {
  const gone = new Promise((resolve) => worker.once("exit", resolve));
  if (how === "terminate") {
    void worker.terminate();
    await gone;
    return;
  }
  const { threadId } = worker;
  const channel = new BroadcastChannel(FAULTS);
  const tell = (): void => channel.postMessage({ threadId, how } satisfies Fault);
  tell();
  // A thread that is just being started does not hear yet.
  const again = setInterval(tell, 50);
  await gone;
  clearInterval(again);
  channel.close();
}

/** Has a thread stand still for a moment. Resolves when it does. */
export async function stallWorker({ threadId }: Worker): Promise<void> {
  const channel = new BroadcastChannel(FAULTS);
  const stalled = new Promise<void>((resolve) => {
    channel.addEventListener("message", (event) => {
      if ((event as unknown as { data: Partial<Stall> }).data.stalled === threadId) resolve();
    });
  });
  channel.postMessage({ threadId, how: "stall" } satisfies Fault);
  await stalled;
  channel.close();
}
