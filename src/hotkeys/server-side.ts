/**
 * Hot keys as the servers themselves know them. Every primary is asked by the best way that it offers:
 *
 * ```text
 * HOTKEYS (counted while it is watched) → OBJECT FREQ of all keys, where the policy is LFU → a refusal that says why
 * beside it: CLUSTER SLOT-STATS, where present
 * ```
 *
 * The invariant: what one primary refuses changes nothing for the others, and is told with its reason.
 */
import { KeylaneError } from "../errors.js";
import { primariesOf } from "../lane/primaries.js";
import type { Primary } from "../lane/primaries.js";
import type { RawClient } from "../lane/raw.js";
import { native } from "../native/index.js";
import { notLfu, scanFrequencies } from "./server-side/frequency.js";
import type { Scan } from "./server-side/frequency.js";
import { watchRedis, watchValkey } from "./server-side/hotkeys-command.js";
import { offersOf } from "./server-side/offers.js";
import type { Offers } from "./server-side/offers.js";
import { watchSlots } from "./server-side/slot-stats.js";
import { TopList } from "./server-side/top.js";
import type {
  Finder,
  FindOptions,
  Findings,
  FoundKey,
  Measured,
  NodeFindings,
  Plan,
  SlotLoad,
} from "./server-side/types.js";

export type { Finder, FindOptions, Findings, FoundKey, NodeFindings, Progress, SlotLoad } from "./server-side/types.js";

const FINDERS: readonly Finder[] = ["hotkeys-redis", "hotkeys-valkey", "frequency"];
const ALL: Scan = { looked: 0, skipped: 0, complete: true };

type Tops = Readonly<Record<Finder, TopList<FoundKey>>>;
type Told = Pick<NodeFindings, "finder" | "refused" | "notes" | "looked" | "skipped" | "complete" | "watchedMs">;

/**
 * Asks all primaries of a domain, at the same time. `client` is its ioredis client, as `lanes.redis(domain)` gives it.
 *
 * @throws KeylaneError `KEYLANE_ERR_ARGUMENT`, `KEYLANE_ERR_CONNECT`, `KEYLANE_ERR_ABORTED`. What a primary refuses is in its
 * entry of `nodes`: `KEYLANE_ERR_UNSUPPORTED` where it has no way to tell.
 */
export async function findOnServers(client: RawClient, options: FindOptions = {}): Promise<Findings> {
  const plan = planOf(options);
  const nodes = await primariesOf(client, plan.timeoutMs);
  const tops: Tops = {
    "hotkeys-redis": new TopList(plan.top, rankOf),
    "hotkeys-valkey": new TopList(plan.top, rankOf),
    frequency: new TopList(plan.top, rankOf),
  };
  const told = await Promise.allSettled(nodes.map((node) => findOn(node, plan, tops)));
  const findings = told.map((one, at) => (one.status === "fulfilled" ? one.value : lost(nodes[at]!, one.reason)));
  const slots = findings.flatMap((node) => node.slots ?? []).toSorted((a, b) => b.cpuShare - a.cpuShare);
  return { keys: FINDERS.flatMap((finder) => tops[finder].items()), slots: slots.slice(0, plan.top), nodes: findings };
}

/** A primary that could not be asked, or not to the end. */
function lost(node: Primary, error: unknown): NodeFindings {
  if (!(error instanceof KeylaneError) || error.code === "KEYLANE_ERR_ABORTED") throw error;
  return { node: node.address, server: "", ...refusal(error, []), slots: null };
}

async function findOn(node: Primary, plan: Plan, tops: Tops): Promise<NodeFindings> {
  const offers = await offersOf(node);
  const [keys, slots] = await Promise.all([keysOf(node, offers, plan, tops), slotsOf(node, offers, plan)]);
  const notes = [...keys.notes, ...slots.notes];
  return { node: node.address, server: offers.server, ...keys, notes, slots: slots.loads };
}

/** The best finder first; what it refuses is noted and the next one is tried. */
async function keysOf(node: Primary, { hotkeys, policy }: Offers, plan: Plan, tops: Tops): Promise<Told> {
  const notes: string[] = [];
  const prefix = Buffer.from(plan.prefix);
  const keep = (finder: Finder, found: Measured): void => {
    const { key } = found;
    if (!key.subarray(0, prefix.length).equals(prefix)) return;
    tops[finder].offer({ ...found, node: node.address, slot: node.clustered ? native.slot(key) : null, finder });
  };
  if (hotkeys !== null) {
    try {
      const finder = `hotkeys-${hotkeys}` as const;
      const watched = await (hotkeys === "redis" ? watchRedis(node, plan) : watchValkey(node, plan));
      for (const key of watched.keys) keep(finder, key);
      return { finder, refused: null, notes: watched.notes, ...ALL, watchedMs: watched.watchedMs };
    } catch (error) {
      notes.push(reasonToGoOn(error));
    }
  }
  if (!policy.endsWith("-lfu")) return refusal(notLfu(node.address, policy), notes);
  try {
    const scan = await scanFrequencies(node, plan, (key, frequency) => keep("frequency", { key, frequency }));
    return { finder: "frequency", refused: null, notes, ...scan, watchedMs: 0 };
  } catch (error) {
    if (!(error instanceof KeylaneError) || error.code === "KEYLANE_ERR_ABORTED") throw error;
    return refusal(error, notes);
  }
}

async function slotsOf(
  node: Primary,
  { slotStats }: Offers,
  plan: Plan,
): Promise<{ loads: SlotLoad[] | null; notes: string[] }> {
  if (!slotStats) return { loads: null, notes: [] };
  try {
    return { loads: await watchSlots(node, plan), notes: [] };
  } catch (error) {
    return { loads: null, notes: [reasonToGoOn(error)] };
  }
}

/** What a server refused, as a note; anything else is thrown on. */
function reasonToGoOn(error: unknown): string {
  const refused =
    error instanceof KeylaneError && (error.outcome === "rejected" || error.code === "KEYLANE_ERR_UNSUPPORTED");
  if (!refused) throw error;
  return error.message;
}

function refusal(error: KeylaneError, notes: readonly string[]): Told {
  return { finder: null, refused: error, notes, looked: 0, skipped: 0, complete: false, watchedMs: 0 };
}

/** What keys of one finder are ordered by. */
function rankOf({ frequency, cpuMicros, perSecond, bytes }: FoundKey): number {
  return frequency ?? perSecond ?? cpuMicros ?? (bytes ?? 0) * 1e-12;
}

function planOf(options: FindOptions): Plan {
  const plan: Plan = {
    top: 20,
    prefix: "",
    rate: 10_000,
    seconds: 5,
    scanLimitMs: Infinity,
    enable: false,
    timeoutMs: 5000,
    ...options,
  };
  inRange("top", plan.top, 10_000);
  inRange("rate", plan.rate, 1_000_000);
  inRange("seconds", plan.seconds, 3600);
  return plan;
}

function inRange(name: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= most) return;
  throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `${name} must be a whole number from 1 to ${most}`);
}
