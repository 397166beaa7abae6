/**
 * Which keys are hit most, as TypeScript sees it: one `HitsSession` is one thread's seat in memory that all threads of the
 * process share. Every thread records its hits there; one of them merges, ten times a second, and ranks. Only the Rust addon
 * implements it.
 *
 * A key's rate is that of the last second (the last ten merges), told by two bounds: it was hit `lower` times a second for
 * certain, and `upper` times at most. A key that was not hit for ten merges is gone. Only keys with 8 sure hits between two
 * merges are followed.
 *
 * ```text
 * rows     [ lower | upper | bytes | kept | hash low | hash high | lower | … ]     one group of 6 words a key
 * names    [ kept bytes of key 0 | of key 1 | … ]
 * info     [ hits | late | lost | unseen ]                                         what merge tells
 * ```
 */

/** How the memory is divided; absent means the default. */
export interface HitsOptions {
  /** Threads that can use it at once, 1 to 254; 64 by default. Each takes 386 KiB by default once it records. */
  readonly maxThreads?: number;
  /**
   * Sets of 8 counters, 1 to 65,536; 1,024 by default. The bounds are at most hits per second ÷ 8 ÷ sets apart as long as
   * hits spread evenly: 244/s at 2,000,000 hits/s.
   */
  readonly sets?: number;
  /** Bytes of keys that a thread can name between two merges, 0 to 1 MiB; 64 KiB by default. */
  readonly nameBytes?: number;
  /** Plain counters, 0 to 65,536; 256 by default. */
  readonly cells?: number;
}

/** Words of a row of `top`. Rates are hits a second. */
export const HOT_LOWER = 0;
export const HOT_UPPER = 1;
/** Bytes of the whole key. */
export const HOT_BYTES = 2;
/** Bytes of it that are in `names`: all, but at most `HOT_KEPT_MAX`. */
export const HOT_KEPT = 3;
/** xxh3-64 of the whole key, lower and upper half. */
export const HOT_HASH_LOW = 4;
export const HOT_HASH_HIGH = 5;
export const HOT_WORDS = 6;

/** Bytes of a key that are kept; of a longer one these are the first. */
export const HOT_KEPT_MAX = 256;
/** Most keys that `top` gives. */
export const HOT_MAX = 1000;

/** Words of `info`. Hits that were taken from the threads. */
export const MERGED_HITS = 0;
/** Threads that were in the middle of a batch; their hits come with the next merge. */
export const MERGED_LATE = 1;
/** Names that found no room; their keys are named at a later merge, or left out of `top`. */
export const MERGED_LOST = 2;
/** Most hits a second of any key that is not followed. */
export const MERGED_UNSEEN = 3;
export const MERGED_WORDS = 4;

/** Milliseconds between two merges. */
export const MERGE_MS = 100;

/** One thread's use of the memory. */
export interface HitsSession {
  /** Word of the memory (as `Int32Array`) at which this thread's own plain counters begin: two words each, low and high. */
  readonly ownCells: number;
  /** Number of plain counters. */
  readonly cells: number;
  /** Bytes of one thread's seat. */
  readonly seatBytes: number;
  /**
   * Records a batch: `count` keys joined into `text`, their lengths in UTF-16 units, and how often each was hit (null: once).
   *
   * @throws RangeError when lengths and text do not agree, or a weight is negative; nothing is recorded then
   */
  record(text: string, lengths: Int32Array, count: number, weights: Int32Array | null): void;
  /** As `record`, for keys that are bytes, joined into one array; lengths are bytes. */
  recordBytes(keys: Uint8Array, lengths: Int32Array, count: number, weights: Int32Array | null): void;
  /**
   * Records one hit of the key of each of `count` operations, described as for `NativeCore.encode`; those without a key or
   * with `FLAG_UNCOUNTED` are left out. Ends at one that is not well formed.
   */
  recordFrames(scratch: Uint8Array, desc: Int32Array, count: number): void;
  /**
   * Records what the caller has counted by itself: the hits of each of `size` keys that has `least` or more (0 counts as 1), and
   * sets these counts to 0. `hashes` are the xxh3-64 of the keys' UTF-8, lower and upper half. Writes to `wanted` the places of
   * keys whose names are to be told by `name`, the hottest first, and returns how many these are. O(size), some 0.2 ns a key
   * that is not recorded.
   */
  recordCounts(counts: Int32Array, hashes: Int32Array, size: number, least: number, wanted: Int32Array): number;
  /** Tells what a hash stands for, without a hit. False when there is no room for more names until the next merge. */
  name(key: string | Uint8Array): boolean;
  /** Adds to one of this thread's plain counters. */
  count(cell: number, amount: number): void;
  /** The plain counters summed over all threads, past ones included. O(cells × threads). */
  totals(): Float64Array;
  /**
   * Takes what all threads recorded since the last merge, to be called every `MERGE_MS` by any thread. The first session to
   * call it has this part until it ends; false tells the others that they have not. O(sets × threads).
   *
   * @param nowMs milliseconds of a clock that does not go back, such as `performance.now()`
   */
  merge(nowMs: number, info: Int32Array): boolean;
  /**
   * The hottest keys, the surest first, as many as `limit`, `rows` and `names` have room for; those whose `upper` is below
   * `least` are left out. Returns how many. None in a session that does not merge.
   */
  top(limit: number, least: number, rows: Int32Array, names: Uint8Array): number;
  /** Leaves the seat; what it recorded is still merged. Again: nothing. */
  end(): void;
}

/** What the addon offers. */
export interface HitsCore {
  /** Bytes of memory that these options take. */
  hitsBytes(options: HitsOptions): number;
  /** Lays out zeroed memory and takes a seat. Throws when it is too small. */
  createHits(memory: Int32Array, options: HitsOptions): HitsSession;
  /** Takes a seat in memory that another thread of this process laid out. Throws when it is not such, or all are taken. */
  attachHits(memory: Int32Array): HitsSession;
}
