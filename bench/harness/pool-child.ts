/**
 * The process of one contestant of the pool suite. Besides what every round tells, it measures the calling thread alone: its CPU
 * time, as the kernel counts it, and how late its event loop is.
 */
import { readFileSync } from "node:fs";
import { Keylane } from "keylane";
import type { Stats } from "keylane";
import { openCluster } from "../baselines/ioredis-open.js";
import type { Role } from "../report/types.js";
import { type KeySet, makeKeys } from "./keys.js";
import { type RoundSpec, runLoop } from "./loop.js";
import { LoopProbe } from "./loop-probe.js";
import { type Contestant, serve } from "./serve.js";

/** Which client, which cluster, how long the values are. */
export interface PoolEntry {
  readonly name: string;
  /** Worker threads of keylane; null stands for ioredis. */
  readonly threads: number | null;
  readonly nodes: readonly string[];
  readonly keys: number;
  /** Bytes of a value; 0: the short ones of `keys.ts`. */
  readonly valueBytes: number;
  /** Life of cached values in milliseconds; undefined: nothing is cached. */
  readonly cacheMs?: number;
  /** Certificate authority, where the cluster speaks TLS. */
  readonly ca: string | undefined;
  /** Write the keys before the first round. */
  readonly write: boolean;
}

/** CPU time of the calling thread so far, in microseconds. */
function threadMicros(): number {
  return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1000;
}

function keySet({ keys, valueBytes }: PoolEntry): KeySet {
  const set = makeKeys({ count: keys, prefixes: ["up:"] });
  if (valueBytes === 0) return set;
  const values = set.values.map((value) =>
    Buffer.from(value.repeat(Math.ceil(valueBytes / value.length)).slice(0, valueBytes), "latin1").toString("latin1"),
  );
  return { ...set, values };
}

async function openLanes({ nodes, threads, ca, cacheMs }: PoolEntry) {
  const tls = ca === undefined ? {} : { tls: { ca } };
  const cache = cacheMs === undefined ? {} : { cache: { mode: "all", ttlMs: cacheMs } as const };
  return Keylane.open({
    domains: { profiles: { prefixes: ["up:"], nodes: [...nodes], codec: "utf8", ...tls, ...cache } },
    threads: threads ?? 0,
    commandTimeoutMs: 10_000,
  });
}

async function write(entry: PoolEntry, { keys, values }: KeySet): Promise<void> {
  const lanes = await openLanes({ ...entry, threads: 0 });
  for (let from = 0; from < keys.length; from += 1000) {
    const part = keys.slice(from, from + 1000);
    await Promise.all(part.map((key, at) => lanes.set(key as "up:", values[from + at])));
  }
  await lanes.close();
}

/** What was answered from memory would count as if it had been asked for. */
function assertMissed(lanes: { stats(): Stats }, calls: number): void {
  const { l0Hits, l1Hits } = lanes.stats().cache!;
  if (l0Hits + l1Hits > calls / 100) throw new Error(`${l0Hits + l1Hits} GETs were answered by the cache`);
}

serve(async (entry: PoolEntry): Promise<Contestant<RoundSpec>> => {
  const set = keySet(entry);
  if (entry.write) await write(entry, set);
  const role: Role = entry.threads === null ? "peer" : "keylane";
  const target = { nodes: entry.nodes, prefixes: ["up:"], set };
  const lanes = entry.threads === null ? null : await openLanes(entry);
  const peer = lanes === null ? await openCluster(target, true) : null;
  const get: (key: string) => Promise<string | null> =
    lanes === null ? peer!.get : (key) => lanes.get(key as "up:") as Promise<string | null>;
  const probe = new LoopProbe();
  const cursor = { at: 0 };
  let calls = 0;
  const counted = (key: string): Promise<string | null> => {
    calls += 1;
    return get(key);
  };
  return {
    name: entry.name,
    role,
    async play(round) {
      calls = 0;
      probe.begin();
      const before = threadMicros();
      const sample = await runLoop(counted, set, cursor, round);
      const micros = threadMicros() - before;
      const { p99Ms, timersP99Ms } = await probe.end();
      if (lanes !== null && entry.cacheMs !== undefined) assertMissed(lanes, calls);
      const more = { callerMicrosPerOp: micros / calls, loopDelayP99Ms: p99Ms, timerDelayP99Ms: timersP99Ms };
      return { ...sample, more };
    },
    close: async () => {
      await probe.close();
      await lanes?.close();
      await peer?.close();
    },
  };
});
