/**
 * Suite `pool`: GETs that no cache answers, 1,024 in flight, with connections in the calling thread and in worker threads, beside
 * ioredis Cluster. What counts is the calling thread: its CPU time per call and how late its event loop is. Four parts: short
 * values and a kilobyte over TLS, each of a cached domain where every GET misses, which the goals are about, and of a domain that
 * is not cached.
 */
import { nativeInfo } from "keylane";
import { startCluster } from "keylane/sandbox";
import { withCluster } from "./harness/cluster.js";
import { contest } from "./harness/contest.js";
import type { RoundSpec } from "./harness/loop.js";
import { serverVersion } from "./harness/nodes.js";
import type { PoolEntry } from "./harness/pool-child.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

const HEAVY = 1024;
const INLINE = "keylane, inline";
const POOLED = "keylane, 1 worker";
const IOREDIS = "ioredis Cluster, autopipelining";
const SHORT = "short values";
const LONG = "1 KB over TLS";
const missed = (part: string) => `${part}, cache misses`;

/** Life of cached values where all GETs are to miss: the keys are read in order, so each is long gone when it comes again. */
const SHORT_LIFE_MS = 2;

const rowName = (contestant: string, part: string) => `${contestant}, ${part}`;
const caller = (row: Row) => row.more?.["callerMicrosPerOp"] ?? 0;
const delay = (row: Row) => row.more?.["loopDelayP99Ms"] ?? 0;
const timerDelay = (row: Row) => row.more?.["timerDelayP99Ms"] ?? 0;

/** The ratios of one part. */
function compare(rows: readonly Row[], part: string, verdict: Verdict, cpuAtMost: number | null): void {
  const [inline, pooled] = [INLINE, POOLED].map((name) => rowNamed(rows, rowName(name, part)));
  const goal = <Bounds extends object>(bounds: Bounds) => (cpuAtMost === null ? {} : bounds);
  const cpu = ratio(caller(pooled), caller(inline));
  verdict.add(`CPU of the caller per op, ${part}: pool ÷ inline`, cpu, goal({ atMost: cpuAtMost! }));
  const ops = ratio(pooled.opsPerSec, inline.opsPerSec);
  verdict.add(`ops/s, ${part}: pool ÷ inline`, ops, goal({ atLeast: 0.7 }));
  for (const [what, of] of [
    ["event-loop delay p99", delay],
    ["event-loop delay p99 by timers", timerDelay],
  ] as const) {
    verdict.add(`${what}, ${part}: pool ÷ inline`, ratio(of(pooled), of(inline)), goal({ atMost: 0.5 }));
  }
}

/** Goals of the suite, about missed GETs and ioredis; and, without a goal, the ratios of domains that are not cached. */
export function judgePool(rows: readonly Row[], verdict: Verdict): void {
  compare(rows, missed(SHORT), verdict, 0.7);
  compare(rows, missed(LONG), verdict, 0.4);
  const ioredis = caller(rowNamed(rows, rowName(IOREDIS, SHORT)));
  for (const [name, contestant] of [
    ["inline", INLINE],
    ["pool", POOLED],
  ] as const) {
    const factor = ratio(ioredis, caller(rowNamed(rows, rowName(contestant, SHORT))));
    verdict.add(`CPU of the caller per op, ${SHORT}: ioredis ÷ ${name}`, factor, { atLeast: 8 });
  }
  for (const part of [SHORT, LONG]) compare(rows, part, verdict, null);
}

function play(settings: Settings, part: string, entries: readonly Omit<PoolEntry, "write" | "keys">[]): Promise<Row[]> {
  const keys = settings.quick && part !== missed(SHORT) && part !== missed(LONG) ? 1000 : 10_000;
  const round: RoundSpec = settings.quick
    ? { inFlight: HEAVY, maxOps: HEAVY * 4, maxMs: 200 }
    : { inFlight: HEAVY, maxOps: 1_500_000, maxMs: 1000 };
  const warmup = settings.quick ? round : { ...round, maxMs: 2000 };
  const entrants = entries.map((entry, at) => ({ name: entry.name, entry: { ...entry, keys, write: at === 0 } }));
  const heat = { name: part, round, row: (name: string) => ({ name: rowName(name, part), group: part }) };
  return contest(settings, "pool-child", entrants, [heat], warmup);
}

type Common = Omit<PoolEntry, "name" | "threads" | "write" | "keys">;

function playKeylane(settings: Settings, part: string, common: Common): Promise<Row[]> {
  return play(settings, part, [
    { name: INLINE, threads: 0, ...common },
    { name: POOLED, threads: 1, ...common },
  ]);
}

async function playShort(settings: Settings, nodes: readonly string[]): Promise<Row[]> {
  const common = { nodes, valueBytes: 0, ca: undefined };
  const plain = await play(settings, SHORT, [
    { name: INLINE, threads: 0, ...common },
    { name: POOLED, threads: 1, ...common },
    { name: IOREDIS, threads: null, ...common },
  ]);
  return [...(await playKeylane(settings, missed(SHORT), { ...common, cacheMs: SHORT_LIFE_MS })), ...plain];
}

async function playLong(settings: Settings): Promise<Row[]> {
  settings.note("starting a cluster of 3 primaries that speaks TLS");
  const cluster = await startCluster({ primaries: 3, replicas: 0, tls: true });
  try {
    const common = { nodes: cluster.seeds, valueBytes: 1024, ca: cluster.tls!.ca };
    const misses = await playKeylane(settings, missed(LONG), { ...common, cacheMs: SHORT_LIFE_MS });
    return [...misses, ...(await playKeylane(settings, LONG, common))];
  } finally {
    await cluster.stop();
  }
}

/** The suite. */
export const pool: Suite = {
  name: "pool",
  about: "connections in the calling thread and in worker threads: what is left of the caller",
  run: async (settings) => {
    const verdict = new Verdict();
    const { rows: short, server } = await withCluster(settings, async (nodes) => ({
      rows: await playShort(settings, nodes),
      server: await serverVersion(nodes[0]),
    }));
    const rows = [...short, ...(await playLong(settings))];
    judgePool(rows, verdict);
    const environment = {
      ...describeEnvironment(["keylane", "ioredis"], {}),
      settings: { server, core: nativeInfo().kind, rounds: settings.rounds, quick: settings.quick },
    };
    const { ratios, goals } = verdict;
    return { environment, rows, ratios, goals, told: [missed(SHORT), missed(LONG), LONG, ...verdict.open] };
  },
};
