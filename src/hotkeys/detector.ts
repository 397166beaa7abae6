/**
 * Which keys are used most in this process: merges what all threads have counted and reads the hottest. The invariant: it runs
 * in one thread of the process, every `MERGE_MS`, and a rate it tells is bounded from both sides.
 */
import { isUtf8 } from "node:buffer";
import {
  HOT_BYTES,
  HOT_HASH_HIGH,
  HOT_HASH_LOW,
  HOT_KEPT,
  HOT_KEPT_MAX,
  HOT_LOWER,
  HOT_MAX,
  HOT_UPPER,
  HOT_WORDS,
  MERGED_HITS,
  MERGED_WORDS,
} from "../native/hits-types.js";
import type { HitsSession } from "../native/hits-types.js";

/** A key that is used much. */
export interface HotRow {
  /** Tells keys apart, also those whose first bytes are the same. */
  readonly id: string;
  /** The key; of one longer than 256 bytes its first 256. */
  readonly key: string;
  /** Whether `key` is all of it, byte for byte: only then can anything be done about it. */
  readonly whole: boolean;
  /** Index of its domain, `NO_DOMAIN` for none. */
  readonly domain: number;
  /** Operations a second of the last second: for certain, and at most. */
  readonly lower: number;
  readonly upper: number;
}

export class Detector {
  readonly #session: HitsSession;
  readonly #domainOf: (key: string) => number;
  readonly #info = new Int32Array(MERGED_WORDS);
  readonly #rows = new Int32Array(HOT_MAX * HOT_WORDS);
  readonly #names = Buffer.allocUnsafeSlow(HOT_MAX * HOT_KEPT_MAX);
  /** Operations counted so far. */
  hits = 0;

  /** `domainOf` routes a key. */
  constructor(session: HitsSession, domainOf: (key: string) => number) {
    this.#session = session;
    this.#domainOf = domainOf;
  }

  /** Takes what was counted since the last time. False when another thread does that. O(sets × threads). */
  merge(nowMs: number): boolean {
    if (!this.#session.merge(nowMs, this.#info)) return false;
    this.hits += this.#info[MERGED_HITS]!;
    return true;
  }

  /** The hottest keys as of the last merge, hottest first, at most `limit` (≤ 1,000), none whose `upper` is below `least`. */
  top(limit: number, least: number): HotRow[] {
    const rows = this.#rows;
    const count = this.#session.top(limit, Math.floor(least), rows, this.#names);
    const found: HotRow[] = [];
    for (let row = 0, from = 0; row < count; row += 1) {
      const at = row * HOT_WORDS;
      const bytes = this.#names.subarray(from, (from += rows[at + HOT_KEPT]!));
      const key = bytes.toString();
      const whole = rows[at + HOT_KEPT] === rows[at + HOT_BYTES] && isUtf8(bytes);
      const id = whole ? key : `${key}\0${rows[at + HOT_HASH_HIGH]}:${rows[at + HOT_HASH_LOW]}`;
      const domain = this.#domainOf(key);
      found.push({ id, key, whole, domain, lower: rows[at + HOT_LOWER]!, upper: rows[at + HOT_UPPER]! });
    }
    return found;
  }
}
