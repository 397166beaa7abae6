/**
 * The process of one phase. A round: empty servers, all profiles written, a fixed number of ad requests played, every counter
 * read back. The invariant: all phases get the same requests, and a round whose values or counters are not what they must be
 * fails, so that phases differ in nothing but time.
 */
import { profileKey } from "#dist/cli/demo/ads.js";
import { audit } from "#dist/cli/demo/audit.js";
import { load, play } from "#dist/cli/demo/play.js";
import { mix32 } from "#dist/cli/demo/random.js";
import { zipfTraffic } from "#dist/cli/demo/traffic.js";
import type { UserTable } from "#dist/cli/demo/users.js";
import { RespClient } from "keylane/sandbox";
import { type Clusters, loadPhase, type PhaseId } from "../baselines/phases/phase.js";
import type { Sample } from "../report/types.js";
import { parseNode, slotMap } from "./nodes.js";
import { slotByDefinition } from "./route-keys.js";
import { type Contestant, serve } from "./serve.js";

/** Which phase, on which servers. */
export interface PhaseEntry {
  readonly id: PhaseId;
  readonly clusters: Clusters;
  readonly users: number;
}

/** So many ad requests; `maxMs` is when the parent gives up. */
export interface PhaseRound {
  readonly requests: number;
  readonly maxMs: number;
}

/** The user who is asked for most. */
const HOTTEST = 1;
const CHECKED_AT_ONCE = 2000;

serve(async ({ id, clusters, users: count }: PhaseEntry): Promise<Contestant<PhaseRound>> => {
  const phase = await loadPhase(id);
  const traffic = zipfTraffic(count);
  const { all, profiles } = phase.servers(clusters);
  const admins = new Map<string, RespClient>();
  for (const address of all)
    admins.set(address, await RespClient.connect({ ...parseNode(address), timeoutMs: 30_000 }));
  const { primaries, owner } = await slotMap(profiles[0]);
  const hottest = primaries[owner[slotByDefinition(profileKey(HOTTEST))]];
  const { lanes, close } = await phase.open(clusters);

  /** GETs that a server has run. */
  const gets = async (address: string): Promise<number> => {
    const stats = String(await admins.get(address)!.text("INFO", "commandstats"));
    return Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };

  const playRound = async ({ requests }: PhaseRound): Promise<Sample> => {
    const { users } = traffic;
    users.reset();
    await Promise.all([...admins.values()].map((admin) => admin.command("FLUSHALL")));
    await load(lanes, users);
    const before = await Promise.all(profiles.map(gets));
    const cpuStarted = process.cpuUsage();
    const tally = await play(lanes, traffic, { seconds: Infinity, requests }, () => {});
    const cpu = process.cpuUsage(cpuStarted);
    const after = await Promise.all(profiles.map(gets));
    const found = await audit(lanes, users, tally.spend);
    const faults = [...tally.faults, ...found.faults];
    if (tally.requests !== requests || tally.failed > 0 || found.exact !== found.counters || found.immortal > 0) {
      throw new Error(`${phase.name}: ${tally.requests} of ${requests} requests; ${faults.join("; ")}`);
    }
    const reached = after.map((count, node) => count - before[node]);
    const atHottest = profiles.findIndex((address) => parseNode(address).port === hottest.port);
    return {
      opsPerSec: requests / tally.seconds,
      cpuMicrosPerOp: (cpu.user + cpu.system) / requests,
      p50Ms: tally.p50Ms,
      p99Ms: tally.p99Ms,
      more: {
        "profile reads at Redis %": (100 * reached.reduce((sum, n) => sum + n, 0)) / tally.right,
        "GETs at the hottest key's node": reached[atHottest],
        checksum: checksum(users, tally.spend),
      },
    };
  };

  return {
    name: phase.name,
    role: phase.role,
    play: playRound,
    async close() {
      await close();
      for (const admin of admins.values()) admin.close();
    },
  };
});

/** Of all counters as the servers hold them, which the audit has found to be the acknowledged ones. */
function checksum(users: UserTable, spend: Float64Array): number {
  let sum = 0;
  const add = (number: number, value: number): void => {
    sum = mix32(sum ^ mix32(number) ^ value);
  };
  for (const batch of users.batches(CHECKED_AT_ONCE)) for (const user of batch) add(user, users.acknowledged(user));
  for (const [campaign, value] of spend.entries()) add(campaign, value);
  return sum;
}
