/**
 * Suite `cache`: reads of what is cached, keylane beside private caches, a memory-mapped store and another client's cache; one
 * thread and two; how fast one thread's write is seen by another; what a key costs. With `--trace` instead: the hit ratio on
 * recorded requests, in a cache of a tenth of the distinct objects, beside LRU and S3-FIFO.
 *
 * Goals compare operations per second; nothing but memory is behind the rows of one thread, so CPU time says the same.
 */
import { basename } from "node:path";
import { nativeInfo } from "keylane";
import { startCluster, startSingle } from "keylane/sandbox";
import { ALONE, CACHES, type CacheId, READERS } from "./baselines/cache/contestant.js";
import type { CacheEntry, CacheRound } from "./harness/cache-child.js";
import { profiles, smallKey, smallValue, write } from "./harness/cache-keys.js";
import { contest } from "./harness/contest.js";
import { serverVersion, setAcross } from "./harness/nodes.js";
import type { ReplayEntry } from "./harness/replay-child.js";
import { REPLAYED, type ReplayedName } from "./harness/replay.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

const KEYS = 10_000;
const SMALL_KEYS = 1_000_000;
const QUICK_KEYS = 1000;
const QUICK_SMALL_KEYS = 20_000;
const ROUND_MS = 500;
const QUICK_ROUND_MS = 20;
/** Bytes of a small key and its value. */
const SMALL_BYTES = 25 + 32;
/** A cache's size in parts of a trace's distinct objects. */
const TRACE_SHARE = 0.1;
/** A whole trace has to fit into a round. */
const REPLAY_MS = 120_000;
const PACKAGES = ["keylane", "lru-cache", "lmdb", "redis", "bentocache"];

const PEEK = "keylane peek";
const GET = "keylane await get";
const SEEN = "keylane write, seen by another thread's peek";
const SMALL = "keylane peek, small keys in turn";

/** Goals of one thread: how many times as fast as each peer. */
export function judgeReads(rows: readonly Row[], verdict: Verdict): void {
  const ops = (name: string) => rowNamed(rows, name).opsPerSec;
  const versus = (own: string, peer: string, bounds = {}) =>
    verdict.add(`ops/s: ${own} ÷ ${peer}`, ratio(ops(own), ops(peer)), bounds);
  versus(PEEK, "lru-cache get, ttl", { atLeast: 1.15 });
  versus(PEEK, "lmdb get", { atLeast: 20 });
  versus(PEEK, "node-redis cluster await get, client-side cache", { atLeast: 100 });
  versus(PEEK, "node-redis await get, client-side cache");
  versus(GET, "bentocache await get, memory", { atLeast: 10 });
  versus(PEEK, "Map.get, no bound and no expiry");
  versus("keylane peek, shared region", "lmdb get");
}

/** Goals of two threads, of visibility and of memory. */
export function judgeSharing(rows: readonly Row[], verdict: Verdict): void {
  const [one, two] = ["keylane peek, 1 thread", "keylane peek, 2 threads"].map((name) => rowNamed(rows, name));
  verdict.add("ops/s: two threads ÷ one", ratio(two.opsPerSec, one.opsPerSec), { atLeast: 1.8 });
  verdict.add("µs until another thread sees a write, median", rowNamed(rows, SEEN).p50Ms * 1000, { atMost: 5 });
  const bytes = (rowNamed(rows, SMALL).bytesPerEntry ?? Infinity) - SMALL_BYTES;
  verdict.add("bytes a cached key beyond key and value", bytes, { atMost: 64 });
}

/** The goal of a trace: no more than one point behind the better of LRU and S3-FIFO. */
export function judgeHits(rows: readonly Row[], verdict: Verdict): void {
  const hits = (name: string) => rowNamed(rows, name).more?.["hits %"] ?? Number.NaN;
  const best = Math.max(...rows.filter(({ role }) => role === "peer").map(({ name }) => hits(name)));
  verdict.add("points of hit ratio: better of LRU and S3-FIFO − keylane", best - hits("keylane"), { atMost: 1 });
}

const grouped = (n: number) => n.toLocaleString("en-US");

async function playCaches(settings: Settings, server: string, nodes: readonly string[]): Promise<Row[]> {
  const { quick } = settings;
  const count = quick ? QUICK_KEYS : KEYS;
  const small = quick ? QUICK_SMALL_KEYS : SMALL_KEYS;
  const { keys, texts } = profiles(count);
  await write(
    server,
    count,
    (i) => keys[i],
    (i) => texts[i],
  );
  await setAcross(
    nodes[0]!,
    count,
    (i) => keys[i]!,
    (i) => texts[i]!,
  );
  await write(server, small, smallKey, smallValue);
  const round: CacheRound = { maxMs: quick ? QUICK_ROUND_MS : ROUND_MS };
  const play = (group: string, ids: readonly CacheId[]): Promise<Row[]> => {
    const entrants = ids.map((id) => ({
      name: id,
      entry: { id, server, cluster: nodes, count, small } satisfies CacheEntry,
    }));
    return contest(
      settings,
      "cache-child",
      entrants,
      [{ name: group, round, row: (name) => ({ name, group }) }],
      round,
    );
  };
  const rows = await play(`${grouped(count)} keys, one thread`, CACHES);
  rows.push(...(await play(`${grouped(count)} keys, threads together`, READERS)));
  for (const id of ALONE) {
    const group = id === "keylane-small-keys" ? `${grouped(small)} keys` : "one key, written in another thread";
    rows.push(...(await play(group, [id])));
  }
  return rows;
}

function playTrace(settings: Settings, trace: string): Promise<Row[]> {
  const names = Object.keys(REPLAYED) as ReplayedName[];
  const entrants = names.map((cache) => ({
    name: cache,
    entry: { cache, trace, share: TRACE_SHARE } satisfies ReplayEntry,
  }));
  const group = `${basename(trace)}, cache of 10 % of the objects`;
  const round = { maxMs: REPLAY_MS };
  return contest(settings, "replay-child", entrants, [{ name: group, round, row: (name) => ({ name, group }) }], round);
}

/** The suite. */
export const cache: Suite = {
  name: "cache",
  about: "cached reads beside lru-cache, lmdb, bentocache and node-redis; with --trace, hit ratios",
  async run(settings) {
    const { rounds, quick, trace } = settings;
    const verdict = new Verdict();
    const began = describeEnvironment(PACKAGES, {});
    const core = nativeInfo().kind;
    if (core !== "rust") throw new Error("the shared cache needs the native core");
    if (trace !== undefined) {
      const rows = await playTrace(settings, trace);
      judgeHits(rows, verdict);
      const environment = { ...began, settings: { core, rounds, quick, trace: basename(trace) } };
      return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
    }
    settings.note("starting a server and a cluster");
    await using server = await startSingle();
    await using cluster = await startCluster({ primaries: 3 });
    const version = await serverVersion(server.address);
    const rows = await playCaches(settings, server.address, cluster.seeds);
    judgeReads(rows, verdict);
    judgeSharing(rows, verdict);
    const environment = { ...began, settings: { server: version, core, rounds, quick } };
    return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
  },
};
