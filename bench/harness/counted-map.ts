/**
 * A thread's own map of profiles in front of a region (L0), whose hits are told to the counters of hot keys, or not, as one likes:
 * what telling adds to a hit is the difference in the very same memory, whose place alone makes some nanoseconds. A hit counts in
 * its own word either way.
 *
 * As in an instance, hits are told by the counters' timer, and what was told is merged every `MERGE_MS`.
 */
import { LocalCache } from "#dist/cache/local.js";
import type { Told } from "#dist/cache/local.js";
import { Detector } from "#dist/hotkeys/detector.js";
import { CacheKind, CacheStored, INFO_LENGTH, INFO_WORDS } from "#dist/native/cache-types.js";
import { cacheCore } from "#dist/native/index.js";
import { HitCounts } from "#dist/shared/hit-counts.js";
import { SharedRegion } from "#dist/shared/region.js";
import type { Profile } from "#dist/cli/demo/ads.js";
import type { ProfileSet } from "./cache-keys.js";

const REGION_BYTES = 64 << 20;
const VALUE_BYTES = 16 << 10;
const LIFE_MS = 3_600_000;
const MERGE_MS = 100;
/** Rows that are read at each merge, and the rate from which on: what a governor asks for by default. */
const ROWS = 1000;
const LEAST = 3500;

/** Hands on what is told, while it is on. */
class Switch implements Told {
  on = true;
  gather: () => void = () => {};
  readonly #counts: HitCounts;

  constructor(counts: HitCounts) {
    this.#counts = counts;
    counts.gather = () => this.gather();
  }

  soon(): void {
    if (this.on) this.#counts.soon();
  }

  add(key: string, weight: number): void {
    if (this.on) this.#counts.add(key, weight);
  }

  addCounted(keys: readonly string[], hashes: Int32Array, counts: Int32Array, least: number): void {
    if (this.on) this.#counts.addCounted(keys, hashes, counts, least);
  }
}

export class CountedMap {
  readonly #region = SharedRegion.create(cacheCore!, REGION_BYTES, VALUE_BYTES);
  readonly #counts = HitCounts.open()!;
  readonly #switch = new Switch(this.#counts);
  readonly #local = new LocalCache(this.#region, this.#switch);
  readonly #detector = new Detector(this.#counts.session, () => 0);
  readonly #timer: NodeJS.Timeout;

  constructor({ keys, texts }: ProfileSet) {
    for (const [at, key] of keys.entries()) this.#fill(key, texts[at]!);
    this.#detector.merge(performance.now());
    this.#timer = setInterval(() => this.#merge(), MERGE_MS).unref();
  }

  get(key: string): Profile | undefined {
    return this.#local.get(key) as Profile | undefined;
  }

  /** Whether hits are told from now on. */
  tell(on: boolean): void {
    this.#switch.on = on;
    // Else it would wait for a timer that is not there.
    this.#switch.gather();
  }

  /** Operations that the counters were told of so far. */
  told(): number {
    this.#detector.merge(performance.now());
    return this.#detector.hits;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#local.close();
    this.#counts.end();
    this.#region.end();
  }

  #fill(key: string, text: string): void {
    const { session } = this.#region;
    const info = new Int32Array(INFO_WORDS);
    const value = Buffer.from(text);
    const stored = session.store(key, value, LIFE_MS, 0, 0, 0, session.beginLoad(key), info);
    if (stored !== CacheStored.KEPT) throw new Error(`${key} is not kept`);
    const read = Buffer.alloc(value.length);
    const kind = session.lookup(key, 0, 0, read, info);
    if (kind !== CacheKind.HIT || info[INFO_LENGTH] !== value.length) throw new Error(`${key} is not found`);
    this.#local.set(key, Object.freeze(JSON.parse(read.toString())), info);
  }

  #merge(): void {
    if (this.#switch.on && this.#detector.merge(performance.now())) this.#detector.top(ROWS, LEAST);
  }
}
