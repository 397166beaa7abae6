/**
 * A worker thread of the cache suite: attached to the main thread's cache, it reads all profiles in step with the main thread,
 * or watches one key for writes.
 */
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { Keylane, type KeylaneHandle } from "keylane";
import type { optionsFor } from "../baselines/cache/keylane-open.js";
import { profilePass, profiles } from "./cache-keys.js";
import {
  ARMED,
  ASKED,
  GO,
  LOOK_MS,
  LOST_MS,
  READY,
  SEEN,
  type WorkerMessage,
  type WorkerTask,
} from "./cache-worker-words.js";
import { playPasses } from "./passes.js";

const WARM_CALLS = 100_000;

type Lanes = Awaited<ReturnType<typeof attach>>;

const attach = (handle: KeylaneHandle) => Keylane.attach<ReturnType<typeof optionsFor>["domains"]>(handle);

/** Reads in step: a message with the length of the round begins one, null ends the thread. */
function read(lanes: Lanes, { control, count }: WorkerTask, port: MessagePort): void {
  const pass = profilePass(profiles(count), (key) => lanes.peek(key as `up:${string}`));
  port.on("message", (maxMs: number | null) => {
    if (maxMs === null) {
      port.close();
      void lanes.close();
      return;
    }
    Atomics.store(control, READY, 1);
    Atomics.notify(control, READY);
    while (Atomics.load(control, GO) === 0);
    void playPasses("keylane in a worker", pass, count, maxMs).then((sample) => port.postMessage(sample));
  });
}

/** Holds the key cached, spins until `peek` no longer finds it, notes the time; again for each number asked for. */
async function watch(lanes: Lanes, { control, key, seenAt }: WorkerTask): Promise<void> {
  // Compiled as it is in a service that looks for what is not there all the time.
  for (let i = 0; i < WARM_CALLS; i += 1) {
    if (lanes.peek("up:unwatched") !== undefined) throw new Error("a key that nobody wrote is there");
  }
  for (let turn = 1; ; turn += 1) {
    for (let asked = Atomics.load(control, ASKED); asked !== turn; asked = Atomics.load(control, ASKED)) {
      if (asked < 0) return;
      await Atomics.waitAsync(control, ASKED, asked, LOOK_MS).value;
    }
    let held: number | undefined;
    const late = performance.now() + LOST_MS;
    while (held === undefined) {
      if (performance.now() > late) throw new Error(`the value of write ${turn - 1} does not stay in the cache`);
      await lanes.get(key);
      // What the servers tell of the last write may still drop the value.
      await new Promise(setImmediate);
      held = lanes.peek(key)?.user;
    }
    if (held !== turn - 1) throw new Error(`write ${turn - 1} was done, but ${held} was read`);
    Atomics.store(control, ARMED, turn);
    Atomics.notify(control, ARMED);
    while (lanes.peek(key) !== undefined);
    Atomics.store(seenAt, 0, process.hrtime.bigint());
    Atomics.store(control, SEEN, turn);
  }
}

const task = workerData as WorkerTask;
const lanes = await attach(task.handle);
const port = parentPort!;
port.postMessage("open" satisfies WorkerMessage);
if (task.count > 0) read(lanes, task, port);
else {
  await watch(lanes, task);
  await lanes.close();
}
