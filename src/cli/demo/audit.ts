/**
 * Reads every counter back after the traffic and holds it against what was acknowledged. The invariant: a counter is exact
 * only when the server's sum is the acknowledged one, no more and no less, and a frequency counter must be due to expire.
 */
import { SPEND_KEYS, campaignOf, countKey } from "./ads.js";
import type { AdLanes } from "./ads.js";
import type { UserTable } from "./users.js";

const BATCH = 2000;
const TOLD = 5;

/** What the counters turned out to hold. */
export interface Audit {
  /** Counters read: one for each user and campaign. */
  counters: number;
  exact: number;
  /** Frequency counters that never expire. */
  immortal: number;
  /** Sum of all frequency counters, and of all billed minor units. */
  impressions: number;
  spend: number;
  /** The first counters that are not as they should be. */
  readonly faults: string[];
}

/** Checks all counters. Rejects when one cannot be read. */
export async function audit(lanes: AdLanes, users: UserTable, spend: Float64Array): Promise<Audit> {
  const found: Audit = { counters: 0, exact: 0, immortal: 0, impressions: 0, spend: 0, faults: [] };
  const note = (fault: string): void => {
    if (found.faults.length < TOLD) found.faults.push(fault);
  };
  const compare = (key: string, held: number, acknowledged: number): void => {
    found.counters += 1;
    if (held === acknowledged) found.exact += 1;
    else note(`${key} holds ${held}, acknowledged were ${acknowledged}`);
  };
  for (const batch of users.batches(BATCH)) {
    const keys = batch.map((user) => countKey(user, campaignOf(user)));
    const [sums, lives] = await Promise.all([lanes.getMany(keys), Promise.all(keys.map((key) => lanes.ttl(key)))]);
    for (const [i, key] of keys.entries()) {
      const held = Number(sums[i] ?? 0);
      found.impressions += held;
      compare(key, held, users.acknowledged(batch[i]!));
      if (lives[i] !== Infinity) continue;
      found.immortal += 1;
      note(`${key} never expires`);
    }
  }
  const billed = await lanes.getMany(SPEND_KEYS);
  for (const [campaign, key] of SPEND_KEYS.entries()) {
    const held = Number(billed[campaign] ?? 0);
    found.spend += held;
    compare(key, held, spend[campaign]!);
  }
  return found;
}
