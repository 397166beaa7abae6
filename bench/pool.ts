/**
 * Suite `pool`: GETs that no cache answers, 1,024 in flight, with connections in the calling thread and in worker threads, beside
 * ioredis Cluster. What counts is the calling thread: its CPU time per call and how late its event loop is. Three parts: short
 * values of a domain that is not cached; the same where it is cached and every GET misses; a kilobyte over TLS.
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
const MISSES = "short values, cache misses";
const LONG = "1 KB over TLS";

/** Life of cached values where all GETs are to miss: the keys are read in order, so each is long gone when it comes again. */
const SHORT_LIFE_MS = 2;

const rowName = (contestant: string, part: string) => `${contestant}, ${part}`;
const caller = (row: Row) => row.more?.["callerMicrosPerOp"] ?? 0;
const delay = (row: Row) => row.more?.["loopDelayP99Ms"] ?? 0;

/** Goals of the suite, from the rows of both parts. */
export function judgePool(rows: readonly Row[], verdict: Verdict): void {
  const at = (name: string, part: string) => rowNamed(rows, rowName(name, part));
  for (const [part, atMost] of [
    [SHORT, 0.7],
    [MISSES, 0.7],
    [LONG, 0.4],
  ] as const) {
    const cost = ratio(caller(at(POOLED, part)), caller(at(INLINE, part)));
    verdict.add(`CPU of the caller per op, ${part}: pool ÷ inline`, cost, { atMost });
  }
  const [inline, pooled, ioredis] = [at(INLINE, SHORT), at(POOLED, SHORT), at(IOREDIS, SHORT)];
  verdict.add("ops/s: pool ÷ inline", ratio(pooled.opsPerSec, inline.opsPerSec), { atLeast: 0.7 });
  verdict.add("event-loop delay p99: pool ÷ inline", ratio(delay(pooled), delay(inline)), { atMost: 0.5 });
  for (const [name, row] of [
    ["inline", inline],
    ["pool", pooled],
  ] as const) {
    verdict.add(`CPU of the caller per op: ioredis ÷ ${name}`, ratio(caller(ioredis), caller(row)), { atLeast: 8 });
  }
}

function play(settings: Settings, part: string, entries: readonly Omit<PoolEntry, "write" | "keys">[]): Promise<Row[]> {
  const keys = settings.quick && part !== MISSES ? 1000 : 10_000;
  const round: RoundSpec = settings.quick
    ? { inFlight: HEAVY, maxOps: HEAVY * 4, maxMs: 200 }
    : { inFlight: HEAVY, maxOps: 1_500_000, maxMs: 1000 };
  const warmup = settings.quick ? round : { ...round, maxMs: 2000 };
  const entrants = entries.map((entry, at) => ({ name: entry.name, entry: { ...entry, keys, write: at === 0 } }));
  const heat = { name: part, round, row: (name: string) => ({ name: rowName(name, part), group: part }) };
  return contest(settings, "pool-child", entrants, [heat], warmup);
}

async function playShort(settings: Settings, nodes: readonly string[]): Promise<Row[]> {
  const common = { nodes, valueBytes: 0, ca: undefined };
  return play(settings, SHORT, [
    { name: INLINE, threads: 0, ...common },
    { name: POOLED, threads: 1, ...common },
    { name: IOREDIS, threads: null, ...common },
  ]);
}

async function playMisses(settings: Settings, nodes: readonly string[]): Promise<Row[]> {
  const common = { nodes, valueBytes: 0, ca: undefined, cacheMs: SHORT_LIFE_MS };
  return play(settings, MISSES, [
    { name: INLINE, threads: 0, ...common },
    { name: POOLED, threads: 1, ...common },
  ]);
}

async function playLong(settings: Settings): Promise<Row[]> {
  settings.note("starting a cluster of 3 primaries that speaks TLS");
  const cluster = await startCluster({ primaries: 3, replicas: 0, tls: true });
  try {
    const common = { nodes: cluster.seeds, valueBytes: 1024, ca: cluster.tls!.ca };
    return await play(settings, LONG, [
      { name: INLINE, threads: 0, ...common },
      { name: POOLED, threads: 1, ...common },
    ]);
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
      rows: [...(await playShort(settings, nodes)), ...(await playMisses(settings, nodes))],
      server: await serverVersion(nodes[0]),
    }));
    const rows = [...short, ...(await playLong(settings))];
    judgePool(rows, verdict);
    const environment = {
      ...describeEnvironment(["keylane", "ioredis"], {}),
      settings: { server, core: nativeInfo().kind, rounds: settings.rounds, quick: settings.quick },
    };
    return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
  },
};
