/**
 * Suite `lane`: GETs on one cluster of three primaries, one promise each, keylane beside every other way to send them.
 *
 * Three parts: all contestants at 1, 8, 64 and 1,024 operations in flight; keylane over 1,000 to 1,000,000 distinct keys;
 * keylane with 3 and 300 prefixes. Every value read is compared with the one written. Client and servers share the machine,
 * so operations per second depend on it; CPU time per operation is the client's own.
 */
import { nativeInfo } from "keylane";
import { BASELINES, type BaselineId } from "./baselines/baseline.js";
import { withCluster } from "./harness/cluster.js";
import { contest } from "./harness/contest.js";
import { type KeySpec, numberedPrefixes, traceSize } from "./harness/keys.js";
import type { RoundSpec } from "./harness/loop.js";
import { load, serverVersion } from "./harness/nodes.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { flatness, ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

const LIGHT = [1, 8, 64];
const HEAVY = 1024;
const MAIN_KEYS = 10_000;
const PREFIX_COUNTS = [3, 300];
const PREFIX_KEYS = 30_000;
const PACKAGES = ["keylane", "ioredis", "redis", "@valkey/valkey-glide"];

const KEYLANE = "keylane";
const IOREDIS = ["ioredis Cluster", "ioredis Cluster, autopipelining"];
const OTHERS = ["node-redis cluster", "GLIDE cluster"];

const grouped = (n: number) => n.toLocaleString("en-US");
const inFlight = (n: number) => `${grouped(n)} in flight`;
/** Name of a contestant's row under a condition. */
const rowName = (contestant: string, condition: string) => `${contestant}, ${condition}`;

/** Goals of the crowded case: CPU time and operations against ioredis Cluster, CPU time against the others. */
export function judgeHeavy(rows: readonly Row[], verdict: Verdict): void {
  const at = (name: string) => rowNamed(rows, rowName(name, inFlight(HEAVY)));
  const own = at(KEYLANE);
  const ioredis = IOREDIS.map(at);
  const cpu = Math.min(...ioredis.map((row) => row.cpuMicrosPerOp));
  const ops = Math.max(...ioredis.map((row) => row.opsPerSec));
  verdict.add("CPU per op: best ioredis Cluster ÷ keylane", ratio(cpu, own.cpuMicrosPerOp), { atLeast: 15 });
  verdict.add("ops/s: keylane ÷ best ioredis Cluster", ratio(own.opsPerSec, ops), { atLeast: 9 });
  for (const other of OTHERS) {
    const factor = ratio(at(other).cpuMicrosPerOp, own.cpuMicrosPerOp);
    verdict.add(`CPU per op: ${other} ÷ keylane`, factor, { atLeast: 20 });
  }
  for (const row of rows) {
    if (row.group !== own.group || (row.role !== "bound" && row.role !== "overhead")) continue;
    verdict.add(`CPU per op: keylane ÷ ${row.name}`, ratio(own.cpuMicrosPerOp, row.cpuMicrosPerOp));
  }
}

/** Goals of the light cases: latency no worse than any peer's. */
export function judgeLatency(rows: readonly Row[], verdict: Verdict): void {
  for (const n of LIGHT) {
    const group = inFlight(n);
    const own = rowNamed(rows, rowName(KEYLANE, group));
    for (const peer of rows.filter((row) => row.group === group && row.role === "peer")) {
      verdict.add(`p50: keylane ÷ ${peer.name}`, ratio(own.p50Ms, peer.p50Ms), { atMost: 1 });
      verdict.add(`p99: keylane ÷ ${peer.name}`, ratio(own.p99Ms, peer.p99Ms), { atMost: 1 });
    }
  }
}

/** The goal that cost does not grow: CPU time per operation stays within 20 % of the smallest case's. */
export function judgeFlat(rows: readonly Row[], what: string, verdict: Verdict): void {
  const cpu = rows.filter((row) => row.role === "keylane").map((row) => row.cpuMicrosPerOp);
  verdict.add(`CPU per op: ${what}`, flatness(cpu), { atLeast: 0.8, atMost: 1.2 });
}

function mainKeys(settings: Settings): KeySpec {
  const prefixes = ["up:"];
  if (settings.trace === undefined) return { count: settings.quick ? 1000 : MAIN_KEYS, prefixes };
  return { count: traceSize(settings.trace), prefixes, trace: settings.trace };
}

/** Bounds of a round of gets with `inFlight` promises open. */
function roundOf(settings: Settings, inFlight: number): RoundSpec {
  if (settings.quick) return { inFlight, maxOps: Math.max(1000, inFlight * 4), maxMs: 200 };
  return { inFlight, maxOps: 1_500_000, maxMs: 1000 };
}

/** What a contestant does before anything is counted. */
function warmupOf(settings: Settings): RoundSpec {
  return settings.quick ? roundOf(settings, 64) : { inFlight: 64, maxOps: 200_000, maxMs: 5000 };
}

/** All contestants on the same keys, at every number in flight. */
function playAll(settings: Settings, nodes: readonly string[], keys: KeySpec): Promise<Row[]> {
  const entrants = BASELINES.map((id) => ({ name: id, entry: { id, nodes, keys } }));
  const heats = [...LIGHT, HEAVY].map((n) => ({
    name: inFlight(n),
    round: roundOf(settings, n),
    row: (name: string) => ({ name: rowName(name, inFlight(n)), group: inFlight(n) }),
  }));
  return contest(settings, "lane-child", entrants, heats, warmupOf(settings));
}

/** Contestants that differ in their keys, at 1,024 in flight. */
function playVariants(
  settings: Settings,
  nodes: readonly string[],
  what: string,
  variants: readonly { readonly id: BaselineId; readonly keys: KeySpec; readonly label: string }[],
): Promise<Row[]> {
  const entrants = variants.map(({ id, keys }) => ({ name: id, entry: { id, nodes, keys } }));
  const group = `${what}, ${inFlight(HEAVY)}`;
  const row = (name: string, i: number) => ({ name: rowName(name, variants[i].label), group });
  const heat = { name: group, round: roundOf(settings, HEAVY), row };
  return contest(settings, "lane-child", entrants, [heat], warmupOf(settings));
}

async function runLane(settings: Settings, nodes: readonly string[]) {
  const verdict = new Verdict();
  const main = mainKeys(settings);
  const sizes = settings.keys.toSorted((a, b) => a - b);
  await load(nodes[0], { count: Math.max(main.count, ...sizes), prefixes: main.prefixes });
  const peers = await playAll(settings, nodes, main);
  judgeHeavy(peers, verdict);
  judgeLatency(peers, verdict);

  const bySize = sizes.map((count) => ({ keys: { count, prefixes: main.prefixes }, label: `${grouped(count)} keys` }));
  const overKeys = await playVariants(settings, nodes, "distinct keys", [
    ...bySize.map(({ keys, label }) => ({ id: "keylane" as const, keys, label })),
    ...bySize.map(({ keys, label }) => ({ id: "harness" as const, keys, label })),
  ]);
  judgeFlat(overKeys, `${bySize.map(({ label }) => label).join(", ")}: furthest from the first`, verdict);

  const byPrefixes = PREFIX_COUNTS.map((n) => {
    const keys = { count: settings.quick ? 3000 : PREFIX_KEYS, prefixes: numberedPrefixes(n) };
    return { id: "keylane" as const, keys, label: `${n} prefixes` };
  });
  for (const { keys } of byPrefixes) await load(nodes[0], keys);
  const overPrefixes = await playVariants(settings, nodes, "prefixes", byPrefixes);
  judgeFlat(overPrefixes, `${PREFIX_COUNTS[1]} ÷ ${PREFIX_COUNTS[0]} prefixes`, verdict);

  return { rows: [...peers, ...overKeys, ...overPrefixes], keys: main.count, verdict };
}

/** The suite. */
export const lane: Suite = {
  name: "lane",
  about: "GETs on a cluster beside ioredis, node-redis, GLIDE and a bare socket",
  run: (settings) =>
    withCluster(settings, async (nodes) => {
      const server = await serverVersion(nodes[0]);
      const began = describeEnvironment(PACKAGES, {});
      const { rows, keys, verdict } = await runLane(settings, nodes);
      const { rounds, quick, trace = "none" } = settings;
      const environment = { ...began, settings: { server, core: nativeInfo().kind, rounds, quick, keys, trace } };
      return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
    }),
};
