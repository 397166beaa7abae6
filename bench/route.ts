/**
 * Suite `route`: what it costs to find a key's slot and domain, per key and on one thread, and to hash it. keylane's native
 * core, one key at a time and in batches (joining the keys included), beside cluster-key-slot and @node-rs/xxhash, and
 * beside its own portable core.
 *
 * Goals compare CPU time: all of it is computing, and it stays the same when another process takes turns on the processor.
 */
import { native } from "#dist/native/index.js";
import { contest } from "./harness/contest.js";
import type { RouteRound } from "./harness/route-child.js";
import { BATCHES, NAMES, PREFIXES, ROUTE_CONTESTANTS } from "./harness/route-contestants.js";
import { KEYS } from "./harness/route-keys.js";
import type { Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { flatness, ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

const ROUND_MS = 250;
const QUICK_ROUND_MS = 5;

/** Goals: 4 times as fast in batches, twice as fast one by one, the same for 3 and for 300 prefixes. */
export function judgeRoute(rows: readonly Row[], verdict: Verdict): void {
  const cpu = (name: string) => rowNamed(rows, name).cpuMicrosPerOp;
  const versus = (peer: string, own: string, bounds = {}) =>
    verdict.add(`CPU per key: ${peer} ÷ ${own}`, ratio(cpu(peer), cpu(own)), bounds);
  for (const size of BATCHES) versus(NAMES.clusterKeySlot, NAMES.routeBatch(size, PREFIXES[0]), { atLeast: 4 });
  versus(NAMES.clusterKeySlot, NAMES.slot, { atLeast: 2 });
  versus(NAMES.xxh3, NAMES.hash64);
  for (const size of BATCHES) {
    const flat = flatness(PREFIXES.map((prefixes) => cpu(NAMES.routeBatch(size, prefixes))));
    verdict.add(`CPU per key: routeBatch of ${size}, 300 ÷ 3 prefixes`, flat, { atLeast: 0.8, atMost: 1.2 });
  }
}

/** Every contestant stands in the section of what it computes. */
function groupOf(name: string, i: number) {
  return { name, group: ROUTE_CONTESTANTS[i].group };
}

/** The suite. */
export const route: Suite = {
  name: "route",
  about: "slots, prefixes and hashes of keys beside cluster-key-slot and @node-rs/xxhash",
  async run(settings) {
    const { rounds, quick } = settings;
    const versions = ["keylane", "cluster-key-slot", "@node-rs/xxhash"];
    const environment = describeEnvironment(versions, { core: native.kind, rounds, quick, keys: KEYS });
    const round: RouteRound = { maxMs: quick ? QUICK_ROUND_MS : ROUND_MS };
    const entrants = ROUTE_CONTESTANTS.map(({ name }) => ({ name, entry: name }));
    const heat = { name: "route", round, row: groupOf };
    const rows = await contest(settings, "route-child", entrants, [heat], round);
    const verdict = new Verdict();
    judgeRoute(rows, verdict);
    return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
  },
};
