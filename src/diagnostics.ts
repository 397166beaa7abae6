/**
 * Diagnostics channels. The invariant: nobody subscribed, nothing paid — producers test `hasSubscribers` first — and no
 * value of a key or argument ever leaves through a channel: names, sizes and places only.
 */
import { channel } from "node:diagnostics_channel";
import type { KeylaneErrorCode } from "./errors.js";

/** Published when a call settles while somebody listens. */
export interface CommandMessage {
  readonly domain: string;
  /** Command name, upper case. */
  readonly command: string;
  /** From call to settlement, in milliseconds. */
  readonly durationMs: number;
  readonly error: KeylaneErrorCode | null;
}

/** Published when a connection becomes ready or is lost. */
export interface ConnectMessage {
  readonly domain: string;
  readonly node: string;
  readonly state: "ready" | "down";
  readonly reason: string | null;
}

/** Published when the shared cache loads, refreshes, or answers past an expiry. */
export interface CacheMessage {
  readonly domain: string;
  readonly kind: "load" | "refresh" | "stale";
  /** From the first byte wanted to the value, in milliseconds; null for `stale`. */
  readonly durationMs: number | null;
  readonly error: KeylaneErrorCode | null;
}

/** `keylane:command` */
export const commandChannel = channel("keylane:command");
/** `keylane:connect` */
export const connectChannel = channel("keylane:connect");
/** `keylane:cache` */
export const cacheChannel = channel("keylane:cache");
