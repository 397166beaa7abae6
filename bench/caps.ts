/**
 * Suite `caps`: decisions about frequency caps, keylane beside rate-limiter-flexible on an ioredis Cluster, on one cluster of
 * three primaries: one cap, and three caps, of many users, and a user over the limit (keylane's kept denial beside the peer's
 * in-memory block). The peer counts three caps by three calls, not all or none.
 *
 * The servers run the decisions and share the machine with the client, so goals compare the client's CPU time.
 */
import { nativeInfo } from "keylane";
import type { CapsEntry, CapsRound, CapsTask } from "./harness/caps-child.js";
import { withCluster } from "./harness/cluster.js";
import { contest } from "./harness/contest.js";
import { serverVersion } from "./harness/nodes.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { ratio, rowNamed, Verdict } from "./report/stats.js";
import type { Row } from "./report/types.js";

const USERS = 50_000;
const QUICK_USERS = 2000;
const IN_FLIGHT = 1024;

/** Conditions: name, task, calls in flight. */
const HEATS: readonly { readonly name: string; readonly task: CapsTask; readonly inFlight: number }[] = [
  { name: "one cap", task: "one", inFlight: IN_FLIGHT },
  { name: "three caps", task: "three", inFlight: IN_FLIGHT },
  { name: "one cap, 64 in flight", task: "one", inFlight: 64 },
  { name: "denied hot user", task: "denied", inFlight: 1 },
];

const KEYLANE = "keylane";
const PEER = "rate-limiter-flexible on ioredis Cluster";
const rowName = (contestant: string, heat: string) => `${contestant}, ${heat}`;

/** Goals: a tenth of the peer's CPU time a decision, a fifth of its in-memory block's. */
export function judgeCaps(rows: readonly Row[], verdict: Verdict): void {
  for (const { name, task } of HEATS) {
    const [own, peer] = [KEYLANE, PEER].map((one) => rowNamed(rows, rowName(one, name)));
    const bounds = task === "denied" ? { atLeast: 5 } : name.includes("64") ? {} : { atLeast: 10 };
    verdict.add(`CPU per decision, ${name}: ${PEER} ÷ keylane`, ratio(peer.cpuMicrosPerOp, own.cpuMicrosPerOp), bounds);
    verdict.add(`decisions/s, ${name}: keylane ÷ ${PEER}`, ratio(own.opsPerSec, peer.opsPerSec));
  }
}

function roundOf({ quick }: Settings, task: CapsTask, inFlight: number): CapsRound {
  if (quick) return { task, inFlight, maxOps: 2000, maxMs: 300 };
  return { task, inFlight, maxOps: task === "denied" ? 1_000_000 : 200_000, maxMs: 2000 };
}

/** The suite. */
export const caps: Suite = {
  name: "caps",
  about: "frequency caps beside rate-limiter-flexible on ioredis Cluster",
  run: (settings) =>
    withCluster(settings, async (nodes) => {
      const { rounds, quick } = settings;
      const users = quick ? QUICK_USERS : USERS;
      const packages = ["keylane", "rate-limiter-flexible", "ioredis"];
      const server = await serverVersion(nodes[0]);
      const environment = describeEnvironment(packages, { server, core: nativeInfo().kind, rounds, quick, users });
      const entrants = (["keylane", "rate-limiter-flexible"] as const).map((id) => ({
        name: id,
        entry: { id, nodes, users } satisfies CapsEntry,
      }));
      const heats = HEATS.map(({ name, task, inFlight }) => ({
        name,
        round: roundOf(settings, task, inFlight),
        row: (contestant: string) => ({ name: rowName(contestant, name), group: name }),
      }));
      const rows = await contest(settings, "caps-child", entrants, heats, roundOf(settings, "one", 64));
      const verdict = new Verdict();
      judgeCaps(rows, verdict);
      return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
    }),
};
