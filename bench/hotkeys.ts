/**
 * Suite `hotkeys`: what it costs to count a hit, and how well the hot keys are told, keylane beside HeavyKeeper and a plain Map,
 * over a second of hits by Zipf's law; what counting adds to a hit of a thread's own map; and one key driven hot against three
 * primaries: when it is found, and what its node has to bear before and after.
 *
 * Goals of counting compare CPU time: all of it is computing. keylane's counter and its peers are compared where each gets its
 * keys one by one, as strings; a lane has the keys of a turn as bytes already, packed to be encoded.
 */
import { nativeInfo } from "keylane";
import { withCluster } from "./harness/cluster.js";
import { contest } from "./harness/contest.js";
import { COUNTERS, precisionAt, recallAt, thresholds, type CounterName, type StreamSpec } from "./harness/hits.js";
import type { HitsEntry } from "./harness/hits-child.js";
import {
  ADDED,
  AFTER,
  CACHED,
  COPIES,
  COUNTED,
  DETECTED,
  type HotkeysEntry,
  type HotkeysRound,
  type HotMode,
  OVER_OTHERS,
} from "./harness/hotkeys-figures.js";
import { serverVersion } from "./harness/nodes.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

/** 2,001,920 hits a second. */
const STREAM: StreamSpec = { keys: 1_000_000, batches: 782, exponent: 1 };
const QUICK_STREAM: StreamSpec = { keys: 20_000, batches: 80, exponent: 1 };
const ROUND_MS = 500;
const QUICK_ROUND_MS = 5;
/** Four slices, two of each kind. */
const PEEKS_MS = 1000;
const PROFILES = 10_000;
/** Processes that read them; the one with the median cost is told. */
const PEEKERS = 5;
const QUICK_PROFILES = 500;

/** What the key is driven at, calls a second, when the load has to be spread, and for how long it is driven. */
const DRIVE: HotkeysRound = { rate: 60_000, settleMs: 2000, maxMs: 4000 };
const QUICK_DRIVE: HotkeysRound = { rate: 60_000, settleMs: 1000, maxMs: 1300 };
const MODES: readonly HotMode[] = ["off", "replicas", "l1"];

const TURN = "keylane, keys of a turn";
const SINGLE = "keylane, keys one by one";
const PEERS = ["HeavyKeeper", "Map, no bound"];

/** Goals of counting: at most 10 ns a hit, and every key at the threshold told, and no other. */
export function judgeHits(rows: readonly Row[], warn: number, verdict: Verdict): void {
  const own = rowNamed(rows, TURN);
  verdict.add(`ns a recorded hit: ${TURN}`, own.cpuMicrosPerOp * 1000, { atMost: 10 });
  for (const peer of PEERS) {
    const cost = rowNamed(rows, peer).cpuMicrosPerOp;
    verdict.add(`CPU per hit: ${peer} ÷ ${SINGLE}`, ratio(cost, rowNamed(rows, SINGLE).cpuMicrosPerOp));
  }
  verdict.add(`keylane's ${recallAt(warn)}`, own.more?.[recallAt(warn)] ?? Number.NaN, { atLeast: 100 });
  verdict.add(`keylane's ${precisionAt(warn)}`, own.more?.[precisionAt(warn)] ?? Number.NaN, { atLeast: 100 });
}

/** The goal of a cached read: at most 3 ns more when it is counted. */
export function judgePeeks(rows: readonly Row[], verdict: Verdict): void {
  const added = rowNamed(rows, COUNTED).more?.[ADDED] ?? Number.NaN;
  verdict.add("ns that telling the counters adds to a hit of a thread's own map", added, { atMost: 3 });
}

/**
 * Goals of a hot key: found within 1.1 s; with copies its node has at most 1.3 times the mean of the others, with the shared cache
 * at most 1 % of the key's calls.
 */
export function judgeDriven(rows: readonly Row[], verdict: Verdict): void {
  const of = (name: string, what: string): number => rowNamed(rows, name).more?.[what] ?? Number.NaN;
  for (const name of [COPIES, CACHED]) {
    verdict.add(`ms until a key is found, ${name}`, of(name, DETECTED), { atMost: 1100 });
  }
  verdict.add(`load after 2 s: its node ÷ mean of the others, ${COPIES}`, of(COPIES, OVER_OTHERS), { atMost: 1.3 });
  verdict.add(`% of the key's calls on its node after 2 s, ${CACHED}`, of(CACHED, AFTER), { atMost: 1 });
}

function playDriven(settings: Settings, nodes: readonly string[]): Promise<Row[]> {
  const round = settings.quick ? QUICK_DRIVE : DRIVE;
  const entrants = MODES.map((mode) => ({ name: mode, entry: { mode, nodes } satisfies HotkeysEntry }));
  const group = `one key at ${round.rate.toLocaleString("en-US")} reads/s, 3 primaries`;
  return contest(settings, "hotkeys-child", entrants, [{ name: group, round, row: (name) => ({ name, group }) }], {
    ...round,
    maxMs: round.settleMs + 100,
  });
}

function playCounters(settings: Settings, stream: StreamSpec): Promise<Row[]> {
  const names = Object.keys(COUNTERS) as CounterName[];
  const entrants = names.map((counter) => ({ name: counter, entry: { counter, stream } satisfies HitsEntry }));
  const group = `a second of hits on ${stream.keys.toLocaleString("en-US")} keys`;
  const round = { maxMs: settings.quick ? QUICK_ROUND_MS : ROUND_MS };
  return contest(settings, "hits-child", entrants, [{ name: group, round, row: (name) => ({ name, group }) }], round);
}

async function playPeeks(settings: Settings): Promise<Row[]> {
  const count = settings.quick ? QUICK_PROFILES : PROFILES;
  const entrants = Array.from({ length: settings.quick ? 2 : PEEKERS }, (_, i) => ({
    name: COUNTED,
    entry: { toldFirst: i % 2 === 0, count } satisfies HitsEntry,
  }));
  const group = `${count.toLocaleString("en-US")} cached keys`;
  const round = { maxMs: settings.quick ? QUICK_ROUND_MS : PEEKS_MS };
  const heat = { name: group, round, row: (name: string) => ({ name, group }) };
  const rows = await contest(settings, "hits-child", entrants, [heat], round);
  rows.sort((a, b) => a.more![ADDED] - b.more![ADDED]);
  return [rows[rows.length >> 1]];
}

/** The suite. */
export const hotkeys: Suite = {
  name: "hotkeys",
  about: "finding hot keys: cost and accuracy beside HeavyKeeper and a Map",
  async run(settings) {
    const core = nativeInfo().kind;
    if (core !== "rust") throw new Error("hits are counted by the native core only");
    const { rounds, quick } = settings;
    const began = describeEnvironment(["keylane"], {});
    const stream = quick ? QUICK_STREAM : STREAM;
    const verdict = new Verdict();
    const counted = await playCounters(settings, stream);
    judgeHits(counted, thresholds(stream)[0], verdict);
    const peeks = await playPeeks(settings);
    judgePeeks(peeks, verdict);
    const { driven, server } = await withCluster(settings, async (nodes) => ({
      driven: await playDriven(settings, nodes),
      server: await serverVersion(nodes[0]),
    }));
    judgeDriven(driven, verdict);
    const environment = { ...began, settings: { server, core, rounds, quick } };
    return { environment, rows: [...driven, ...counted, ...peeks], ratios: verdict.ratios, goals: verdict.goals };
  },
};
