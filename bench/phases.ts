/**
 * Suite `phases`: the demo's ad traffic (a profile read, a frequency count with a TTL on the first, a billing record a request)
 * through one layout after another: one cluster and three domain clusters with ioredis, the three with keylane, and with its
 * shared cache in front of the profiles. All have the same number of servers and play the same requests from the same empty
 * state; every value is checked and every counter read back, and all phases must end with the same answers.
 */
import { nativeInfo } from "keylane";
import { startCluster, startTriple } from "keylane/sandbox";
import { type Clusters, PHASES } from "./baselines/phases/phase.js";
import { contest } from "./harness/contest.js";
import { serverVersion } from "./harness/nodes.js";
import type { PhaseEntry, PhaseRound } from "./harness/phases-child.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

/** Primaries of each domain's cluster; the one cluster has three times as many. */
const PRIMARIES = 3;
const REQUESTS = 200_000;
const USERS = 100_000;
const QUICK_REQUESTS = 5000;
const QUICK_USERS = 2000;
/** A round that takes longer hangs. */
const ROUND_MS = 120_000;

const ONE = "one cluster, ioredis";
const CACHED = "three clusters, keylane + L1";
const REACHED = "profile reads at Redis %";
const CHECKSUM = "checksum";

/** Goals: profile reads answered without a server, and ad requests a second against the one cluster. */
export function judgePhases(rows: readonly Row[], verdict: Verdict): void {
  const ops = (name: string) => rowNamed(rows, name).opsPerSec;
  const reached = rowNamed(rows, CACHED).more?.[REACHED] ?? Number.NaN;
  verdict.add("% of profile reads that never reach Redis, with L1", 100 - reached, { atLeast: 70 });
  verdict.add(`requests/s: ${CACHED} ÷ ${ONE}`, ratio(ops(CACHED), ops(ONE)), { atLeast: 4 });
  for (const { name } of rows) {
    if (name !== ONE && name !== CACHED) verdict.add(`requests/s: ${name} ÷ ${ONE}`, ratio(ops(name), ops(ONE)));
  }
}

/** The rows without their checksums, which must be the same. */
export function sameAnswers(rows: readonly Row[]): Row[] {
  const sums = new Set(rows.map(({ more }) => more?.[CHECKSUM]));
  if (sums.size !== 1 || sums.has(undefined))
    throw new Error(`the phases ended with different answers: ${[...sums].join(", ")}`);
  return rows.map((row) => {
    const { [CHECKSUM]: _, ...more } = row.more!;
    return { ...row, more };
  });
}

async function playAll(settings: Settings, clusters: Clusters): Promise<Row[]> {
  const round: PhaseRound = { requests: settings.quick ? QUICK_REQUESTS : REQUESTS, maxMs: ROUND_MS };
  const users = settings.quick ? QUICK_USERS : USERS;
  const entrants = PHASES.map((id) => ({ name: id, entry: { id, clusters, users } satisfies PhaseEntry }));
  const group = `${round.requests.toLocaleString("en-US")} ad requests of ${users.toLocaleString("en-US")} users, ${3 * PRIMARIES} servers`;
  const heat = { name: group, round, row: (name: string) => ({ name, group }) };
  return sameAnswers(await contest(settings, "phases-child", entrants, [heat], round));
}

/** The suite. */
export const phases: Suite = {
  name: "phases",
  about: "ad traffic through one cluster, three, three with keylane, and with its shared cache",
  async run(settings) {
    const verdict = new Verdict();
    settings.note(`starting a cluster of ${3 * PRIMARIES} primaries and three of ${PRIMARIES}`);
    const began = describeEnvironment(["keylane", "ioredis"], {});
    await using one = await startCluster({ primaries: 3 * PRIMARIES, nodeTimeoutMs: 5000 });
    await using triple = await startTriple({ primaries: PRIMARIES });
    const clusters = { one: one.seeds, three: triple.clusters.map((cluster) => cluster.seeds) };
    const server = await serverVersion(one.seeds[0]);
    const rows = await playAll(settings, clusters);
    judgePhases(rows, verdict);
    const { rounds, quick } = settings;
    const environment = { ...began, settings: { server, core: nativeInfo().kind, rounds, quick } };
    return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
  },
};
