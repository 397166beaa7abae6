/** The vocabulary of frequency caps: what a cap is, and what a decision says. */
import type { CallOptions } from "../types.js";

interface NamedCap {
  /** What is capped, for example `campaign:17`: 1–256 UTF-16 units. Unique in its list. */
  readonly name: string;
  /** Counts allowed in a window: a safe integer from 1 on. */
  readonly limit: number;
}

/**
 * A window of `windowMs` milliseconds (1 to 400 days): fixed, from its first count on; or sliding, by 60 sub-buckets: at no
 * time more than `limit` in the last `windowMs`.
 */
export interface TimedCap extends NamedCap {
  readonly windowMs: number;
  readonly sliding?: boolean | undefined;
  readonly per?: undefined;
  readonly timeZone?: undefined;
}

/** The civil day, week (from Monday) or month of an IANA time zone (default `UTC`). */
export interface CivilCap extends NamedCap {
  readonly per: "day" | "week" | "month";
  readonly timeZone?: string | undefined;
  readonly windowMs?: undefined;
  readonly sliding?: undefined;
}

/** A frequency cap. Its counter belongs to the user, the name and the window; the limit may change at any time. */
export type Cap = TimedCap | CivilCap;

/** One cap after a decision. */
export interface CapState {
  readonly name: string;
  readonly limit: number;
  /** Counts in the window, places held by reservations included; this decision's own count too. */
  readonly used: number;
  /** `limit - used`, at least 0. */
  readonly remaining: number;
  /** Server's time, in milliseconds since 1970, at which the next count leaves the window; when none remain, at which one more fits. */
  readonly resetsAtMs: number;
}

/** A decision. */
export interface CapsResult {
  readonly allowed: boolean;
  /** In the order of the call. From the cache only those that deny; when degraded, none. */
  readonly caps: readonly CapState[];
  /** Who decided: the script, a denial known to this process, or `onError` because the script's answer could not be had. */
  readonly source: "redis" | "cache" | "degraded";
}

/** Options of `take`. */
export interface TakeOptions extends CallOptions {
  /** Makes the call idempotent: while the longest window of its caps lasts, the id is counted once. 1–256 UTF-16 units. */
  readonly id?: string | undefined;
}

/** Options of `commit`, `release` and `refund`. */
export interface IdOptions extends CallOptions {
  readonly id: string;
}

/** Options of `reserve`. */
export interface ReserveOptions extends IdOptions {
  /** How long the places are held, in milliseconds. Default: `caps.reservationMs`. */
  readonly ttlMs?: number | undefined;
}

/** The cap of one key. */
export interface KeyCap extends TakeOptions {
  readonly limit: number;
  /** From the first count on, in milliseconds. */
  readonly windowMs: number;
}
