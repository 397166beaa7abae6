/**
 * Suite `hotkeys`: what it costs to count a hit, and how well the hot keys are told, keylane beside HeavyKeeper and a plain Map,
 * over a second of hits by Zipf's law; and what counting adds to a hit of a thread's own map.
 *
 * Goals compare CPU time: all of it is computing.
 */
import { nativeInfo } from "keylane";
import { startSingle } from "keylane/sandbox";
import { profiles, write } from "./harness/cache-keys.js";
import { contest } from "./harness/contest.js";
import { COUNTERS, precisionAt, recallAt, thresholds, type CounterName, type StreamSpec } from "./harness/hits.js";
import type { HitsEntry } from "./harness/hits-child.js";
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
const PROFILES = 10_000;
const QUICK_PROFILES = 500;

const TURN = "keylane, keys of a turn";
const PEERS = ["HeavyKeeper", "Map, no bound"];
const COUNTED = "peek, hits counted";
const UNCOUNTED = "peek, hotKeys: false";

/** Goals of counting: at most 10 ns a hit, and every key at the threshold told, and no other. */
export function judgeHits(rows: readonly Row[], warn: number, verdict: Verdict): void {
  const own = rowNamed(rows, TURN);
  verdict.add(`ns a recorded hit: ${TURN}`, own.cpuMicrosPerOp * 1000, { atMost: 10 });
  for (const peer of PEERS) {
    verdict.add(`CPU per hit: ${peer} ÷ ${TURN}`, ratio(rowNamed(rows, peer).cpuMicrosPerOp, own.cpuMicrosPerOp));
  }
  verdict.add(`keylane's ${recallAt(warn)}`, own.more?.[recallAt(warn)] ?? Number.NaN, { atLeast: 100 });
  verdict.add(`keylane's ${precisionAt(warn)}`, own.more?.[precisionAt(warn)] ?? Number.NaN, { atLeast: 100 });
}

/** The goal of a cached read: at most 3 ns more when it is counted. */
export function judgePeeks(rows: readonly Row[], verdict: Verdict): void {
  const [on, off] = [COUNTED, UNCOUNTED].map((name) => rowNamed(rows, name).cpuMicrosPerOp * 1000);
  verdict.add("ns that counting adds to a hit of a thread's own map", on - off, { atMost: 3 });
}

function playCounters(settings: Settings, stream: StreamSpec): Promise<Row[]> {
  const names = Object.keys(COUNTERS) as CounterName[];
  const entrants = names.map((counter) => ({ name: counter, entry: { counter, stream } satisfies HitsEntry }));
  const group = `a second of hits on ${stream.keys.toLocaleString("en-US")} keys`;
  const round = { maxMs: settings.quick ? QUICK_ROUND_MS : ROUND_MS };
  return contest(settings, "hits-child", entrants, [{ name: group, round, row: (name) => ({ name, group }) }], round);
}

async function playPeeks(settings: Settings, server: string): Promise<Row[]> {
  const count = settings.quick ? QUICK_PROFILES : PROFILES;
  const { keys, texts } = profiles(count);
  await write(
    server,
    count,
    (i) => keys[i],
    (i) => texts[i],
  );
  const entrants = [true, false].map((counting) => ({
    name: counting ? COUNTED : UNCOUNTED,
    entry: { counting, server, count } satisfies HitsEntry,
  }));
  const group = `${count.toLocaleString("en-US")} cached keys`;
  const round = { maxMs: settings.quick ? QUICK_ROUND_MS : ROUND_MS };
  return contest(settings, "hits-child", entrants, [{ name: group, round, row: (name) => ({ name, group }) }], round);
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
    settings.note("starting a server");
    await using server = await startSingle();
    const version = await serverVersion(server.address);
    const verdict = new Verdict();
    const counted = await playCounters(settings, stream);
    judgeHits(counted, thresholds(stream)[0], verdict);
    const peeks = await playPeeks(settings, server.address);
    judgePeeks(peeks, verdict);
    const environment = { ...began, settings: { server: version, core, rounds, quick } };
    return { environment, rows: [...counted, ...peeks], ratios: verdict.ratios, goals: verdict.goals };
  },
};
