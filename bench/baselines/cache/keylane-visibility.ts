/**
 * How long until a thread that spins on `peek` sees another thread's write: from the moment before the writer's `invalidate`,
 * which is what every write begins with, to the moment after `peek` no longer gave the old value. The invariant: after each
 * write the watching thread reads the new value, or the run fails.
 */
import { profileOf } from "#dist/cli/demo/ads.js";
import { CacheThread } from "../../harness/cache-threads.js";
import { ARMED, ASKED, LOOK_MS, LOST_MS, SEEN } from "../../harness/cache-worker-words.js";
import { ranks } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";
import { openWarm } from "./keylane-open.js";

const KEY = "up:watched";
const WARM_CALLS = 100_000;

export const contestant: CacheContestant = {
  name: "keylane write, seen by another thread's peek",
  role: "keylane",
  async open(target) {
    const lanes = await openWarm(target);
    await lanes.set(KEY, profileOf(0));
    const watcher = await CacheThread.start(lanes.handle(), 0, KEY);
    const { control, seenAt } = watcher;
    // Compiled as it is in a service that writes all the time.
    for (let i = 0; i < WARM_CALLS; i += 1) lanes.invalidate("up:unwatched");
    let turn = 0;

    const once = async (): Promise<number> => {
      turn += 1;
      Atomics.store(control, ASKED, turn);
      Atomics.notify(control, ASKED);
      while (Atomics.load(control, ARMED) !== turn) {
        const wait = Atomics.waitAsync(control, ARMED, turn - 1, LOOK_MS);
        if (wait.async) await watcher.orFail(wait.value);
      }
      // The watcher spins by now, and does so for different times.
      const rest = performance.now() + 0.2 + (turn % 16) / 1000;
      while (performance.now() < rest);
      const began = process.hrtime.bigint();
      lanes.invalidate(KEY);
      const lost = performance.now() + LOST_MS;
      while (Atomics.load(control, SEEN) !== turn) {
        if (performance.now() > lost) throw new Error("the other thread did not see a write");
      }
      const delay = Number(seenAt[0] - began) / 1e6;
      if (delay < 0) throw new Error("a write was seen before it was made");
      await lanes.set(KEY, profileOf(turn));
      return delay;
    };

    return {
      async play(maxMs) {
        const delays: number[] = [];
        const cpuStarted = process.cpuUsage();
        const started = performance.now();
        while (performance.now() - started < maxMs) delays.push(await once());
        const elapsed = performance.now() - started;
        const cpu = process.cpuUsage(cpuStarted);
        return {
          opsPerSec: (delays.length / elapsed) * 1000,
          cpuMicrosPerOp: (cpu.user + cpu.system) / delays.length,
          ...ranks(delays),
        };
      },
      async close() {
        await watcher.stop(() => {
          Atomics.store(control, ASKED, -1);
          Atomics.notify(control, ASKED);
        });
        await lanes.close();
      },
    };
  },
};
