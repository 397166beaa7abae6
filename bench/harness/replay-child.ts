/** The process of one cache that a trace is replayed through; a round is the whole trace, into an empty cache. */
import { readTrace, traceSize } from "./keys.js";
import { REPLAYED, replay, type ReplayedName } from "./replay.js";
import { type Contestant, serve } from "./serve.js";

/** Which cache, which trace, and how much of its distinct objects the cache holds, 0–1. */
export interface ReplayEntry {
  readonly cache: ReplayedName;
  readonly trace: string;
  readonly share: number;
}

serve(async ({ cache, trace, share }: ReplayEntry): Promise<Contestant<{ readonly maxMs: number }>> => {
  const requests = readTrace(trace);
  const capacity = Math.floor(traceSize(trace) * share);
  return {
    name: cache,
    role: cache === "keylane" ? "keylane" : "peer",
    play() {
      const { ask, end } = REPLAYED[cache](capacity);
      const cpuStarted = process.cpuUsage();
      const started = performance.now();
      const hits = replay(requests, ask);
      const ms = performance.now() - started;
      const cpu = process.cpuUsage(cpuStarted);
      end();
      const perRequest = ms / requests.length;
      return {
        opsPerSec: (requests.length / ms) * 1000,
        cpuMicrosPerOp: (cpu.user + cpu.system) / requests.length,
        p50Ms: perRequest,
        p99Ms: perRequest,
        more: { "hits %": (100 * hits) / requests.length },
      };
    },
    close: () => Promise.resolve(),
  };
});
