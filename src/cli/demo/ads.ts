/**
 * What the demo keeps for its ad traffic, by key. The invariant: all of it follows from the user's number, so that whoever
 * reads a value can tell whether it is the one that was written.
 *
 * ```text
 * up:user_42                 profile, JSON        read once a request
 * fc:user_42:campaign_7      counter with a TTL   +1 a request
 * rb:campaign_7              counter              + the user's price a request, in minor units
 * ```
 */
import type { Keylane } from "../../keylane.js";
import type { ValueType } from "../../types.js";
import { mix32 } from "./random.js";

/** What the demo knows of a user. */
export interface Profile {
  readonly user: number;
  /** The campaign this user is shown. */
  readonly campaign: number;
  /** Price of one impression, in minor units. */
  readonly price: number;
  readonly segments: readonly number[];
}

/** What the traffic asks of a store; keylane offers it under whatever domain names. */
export interface AdLanes {
  get(key: `up:${string}`): Promise<Profile | null>;
  set(key: `up:${string}`, profile: Profile): Promise<boolean>;
  /** Counters, as texts. */
  getMany(keys: readonly (`fc:${string}` | `rb:${string}`)[]): Promise<readonly unknown[]>;
  incrBy(key: `fc:${string}` | `rb:${string}`, amount?: number): Promise<number | bigint>;
  expire(key: `fc:${string}`, ttlMs: number): Promise<boolean>;
  ttl(key: `fc:${string}`): Promise<number | null>;
  /** Domain → commands sent. */
  stats(): { readonly domains: Readonly<Record<string, { readonly commands: number }>> };
}

/** A keylane that serves the three prefixes. */
export type OpenLanes = Keylane<{
  profile: { prefixes: ["up:"]; codec: "json"; value: ValueType<Profile> };
  counters: { prefixes: ["fc:", "rb:"] };
}>;

/** Campaigns 0 … CAMPAIGNS - 1. */
export const CAMPAIGNS = 1000;
/** Life of a frequency counter, in milliseconds: a day. */
export const WINDOW_MS = 86_400_000;
const PRICES = 5000;
const SEGMENTS = 4096;

/** Keys of the campaigns' billed totals. */
export const SPEND_KEYS: readonly `rb:${string}`[] = Array.from(
  { length: CAMPAIGNS },
  (_, campaign): `rb:${string}` => `rb:campaign_${campaign}`,
);

export function profileKey(user: number): `up:${string}` {
  return `up:user_${user}`;
}

export function countKey(user: number, campaign: number): `fc:${string}` {
  return `fc:user_${user}:campaign_${campaign}`;
}

/** The profile that belongs to a user. */
export function profileOf(user: number): Profile {
  return { user, campaign: campaignOf(user), price: priceOf(user), segments: [segment(user, 1), segment(user, 2)] };
}

/** Whether a value read is the profile of a user, field by field. */
export function isProfileOf(user: number, value: Profile | null): value is Profile {
  return (
    value !== null &&
    value.user === user &&
    value.campaign === campaignOf(user) &&
    value.price === priceOf(user) &&
    value.segments.length === 2 &&
    value.segments[0] === segment(user, 1) &&
    value.segments[1] === segment(user, 2)
  );
}

export function campaignOf(user: number): number {
  return mix32(user) % CAMPAIGNS;
}

function priceOf(user: number): number {
  return 1 + (mix32(user ^ 0x5bd1e995) % PRICES);
}

function segment(user: number, which: number): number {
  return mix32(user + which) % SEGMENTS;
}
