/** `peek` by one thread or by two at once, each over all profiles; the figures of two are their sum. */
import { profilePass } from "../../harness/cache-keys.js";
import { CacheThread } from "../../harness/cache-threads.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";
import { openWarm } from "./keylane-open.js";

/** The contestant of so many threads. */
export function reading(name: string, threads: 1 | 2): CacheContestant {
  return {
    name,
    role: "keylane",
    async open(target) {
      const lanes = await openWarm(target);
      const { set } = target;
      const pass = profilePass(set, (key) => lanes.peek(key as `up:${string}`));
      const count = set.keys.length;
      const other = threads === 1 ? null : await CacheThread.start(lanes.handle(), count);
      return {
        async play(maxMs) {
          const own = () => playPasses(name, pass, count, maxMs);
          if (other === null) return own();
          const [mine, theirs] = await other.together(maxMs, own);
          const opsPerSec = mine.opsPerSec + theirs.opsPerSec;
          // Either thread has measured the CPU time of both.
          const cpuMicrosPerOp = (mine.cpuMicrosPerOp * mine.opsPerSec) / opsPerSec;
          return { ...mine, opsPerSec, cpuMicrosPerOp };
        },
        async close() {
          await other?.stop();
          await lanes.close();
        },
      };
    },
  };
}
