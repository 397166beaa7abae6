/**
 * Suite `ledger`: entries added to 200 accounts, by keylane's ledger in both modes and by plain INCRBYs on an ioredis Cluster, on one
 * cluster of three primaries. An operation of the ledger ends when the entry is safe (on disk, or in memory); the CPU time is that
 * of adding and booking, and "booked entries/s" counts until the servers have all. INCRBY ends with the server's reply, and
 * gives neither ids nor safety.
 */
import { nativeInfo } from "keylane";
import { withCluster } from "./harness/cluster.js";
import { contest } from "./harness/contest.js";
import { LEDGER_IDS, type LedgerEntry } from "./harness/ledger-child.js";
import type { RoundSpec } from "./harness/loop.js";
import { serverVersion } from "./harness/nodes.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

const ACCOUNTS = 200;
const IN_FLIGHT = [64, 1024];
const MODES = ["keylane, durable", "keylane, fast"];
const PEERS = ["INCRBY, ioredis Cluster", "INCRBY, ioredis Cluster, autopipelining"];

const group = (inFlight: number) => `${inFlight.toLocaleString("en-US")} entries in flight`;
const rowName = (contestant: string, inFlight: number) => `${contestant}, ${group(inFlight)}`;

/** Ratios of both modes to both kinds of INCRBY. There is no goal: the peers do less. */
export function judgeLedger(rows: readonly Row[], verdict: Verdict): void {
  for (const inFlight of IN_FLIGHT) {
    for (const mode of MODES) {
      const own = rowNamed(rows, rowName(mode, inFlight));
      for (const name of PEERS) {
        const peer = rowNamed(rows, rowName(name, inFlight));
        verdict.add(`entries/s: ${own.name} ÷ ${name}`, ratio(own.opsPerSec, peer.opsPerSec));
        verdict.add(`p99: ${own.name} ÷ ${name}`, ratio(own.p99Ms, peer.p99Ms));
      }
    }
  }
}

function roundOf({ quick }: Settings, inFlight: number): RoundSpec {
  return quick ? { inFlight, maxOps: 2000, maxMs: 300 } : { inFlight, maxOps: 200_000, maxMs: 2000 };
}

/** The suite. */
export const ledger: Suite = {
  name: "ledger",
  about: "the billing ledger in both modes beside INCRBY on ioredis Cluster",
  run: (settings) =>
    withCluster(settings, async (nodes) => {
      const { rounds, quick } = settings;
      const server = await serverVersion(nodes[0]);
      const facts = { server, core: nativeInfo().kind, rounds, quick, accounts: ACCOUNTS };
      const environment = describeEnvironment(["keylane", "ioredis"], facts);
      const entrants = LEDGER_IDS.map((id) => ({
        name: id,
        entry: { id, nodes, accounts: ACCOUNTS } satisfies LedgerEntry,
      }));
      const heats = IN_FLIGHT.map((inFlight) => ({
        name: group(inFlight),
        round: roundOf(settings, inFlight),
        row: (name: string) => ({ name: rowName(name, inFlight), group: group(inFlight) }),
      }));
      const rows = await contest(settings, "ledger-child", entrants, heats, roundOf(settings, 64));
      const verdict = new Verdict();
      judgeLedger(rows, verdict);
      return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
    }),
};
