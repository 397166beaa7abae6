/**
 * The shared cache (L1) as TypeScript sees it: one `CacheSession` is one thread's seat in a region of shared memory that all
 * threads of the process read and write. Only the Rust addon implements it.
 *
 * ```text
 * info     [ proof index | proof | expiry | check | feeder | value length | flags | ticket | slot | hash, low | high ]     what lookup, probe and store tell
 * claim    [ word index | value | ticket | hash, low ]                                       what claim tells
 * ```
 */

/** How a region is divided; zero or absent means the default. */
export interface CacheOptions {
  /** Mean bytes of key + value to plan the index for. */
  readonly entryBytes?: number;
  /** Longest value in bytes; longer ones are not cached. */
  readonly maxValueBytes?: number;
  /** Longest key in bytes; longer ones are not cached. */
  readonly maxKeyBytes?: number;
  /** Threads that can use the region at once. */
  readonly maxThreads?: number;
}

/** What `lookup` returns. */
export const CacheKind = {
  MISS: 0,
  /** The value was copied to the start of `out`. */
  HIT: 1,
  /** The key is known not to exist. */
  ABSENT: 2,
  /** `out` is too small; `INFO_LENGTH` says what it takes. */
  NO_ROOM: 3,
} as const;

/** What `store` returns. */
export const CacheStored = {
  KEPT: 0,
  /** The key was invalidated after the ticket was taken. */
  OVERTAKEN: 1,
  /** Key or value too long. */
  BYPASSED: 2,
  BUSY: 3,
  CLOSED: 4,
} as const;

/** What `claim` returns. */
export const CacheClaim = {
  /** The caller loads, and releases the claim. */
  ELECTED: 0,
  /** Another loads: wait while word `claim[0]` of the region equals `claim[1]`. */
  WAIT: 1,
  /** The caller loads without a claim. */
  CROWDED: 2,
  /** Nobody needs to load: the key is cached by now. Those who wait at the word are to be notified. */
  HELD: 3,
} as const;
/** Lower half of the key's xxh3-64. */
export const CLAIM_HASH = 3;
export const CLAIM_WORDS = 4;

/** Words of `info`. While the proof word `INFO_PROOF_INDEX` equals `INFO_PROOF`, the result stands until `INFO_CHECK`. */
export const INFO_PROOF_INDEX = 0;
export const INFO_PROOF = 1;
/** Milliseconds of the region's clock, wrapping; compare by signed difference. */
export const INFO_EXPIRY = 2;
/** When to look up again: at expiry, or when a refresher is to be elected. */
export const INFO_CHECK = 3;
export const INFO_FEEDER = 4;
export const INFO_LENGTH = 5;
/** Bit set of `FLAG_*`. */
export const INFO_FLAGS = 6;
/** What a load that begins now would carry; told by `lookup` and `probe`. */
export const INFO_TICKET = 7;
/** The key's slot; told by `probe` alone. */
export const INFO_SLOT = 8;
/** Halves of the key's xxh3-64; told by `lookup` and `probe`. */
export const INFO_HASH_LOW = 9;
export const INFO_HASH_HIGH = 10;
export const INFO_WORDS = 11;
/** Words an operation that `stamp` writes. */
export const STAMP_WORDS = 4;

/** The caller is the one to refresh the value. */
export const FLAG_ELECTED = 1;
/** The value is past its expiry and was returned because the caller allowed it. */
export const FLAG_STALE = 2;
/** The value holds a byte ≥ 0x80 (only told by `lookup`). */
export const FLAG_HIGH = 4;

/**
 * Feeders name the connection that keeps a value coherent: `seat << FEEDER_BITS | number`, the number from 1 on, 0 for none. Seats
 * past `MAX_SEATS` cannot be told apart.
 */
export const FEEDER_BITS = 9;
export const MAX_SEATS = 128;

/** One thread's use of a region. */
export interface CacheSession {
  /** Names → values of the layout, offsets in words from `base`; with `ownSeat`, this thread's seat. */
  readonly layout: Readonly<Record<string, number>>;
  /** Word of the region (as `Int32Array`) at which offset 0 of the layout lies. */
  readonly base: number;
  /** Digest of layout and version, 64 bits in hexadecimal. */
  readonly digest: string;
  /** Copies the value of `key` to `out`. `staleMs`: how long past its expiry it may be; `leaseMs`: 0 elects nobody. */
  lookup(key: string | Uint8Array, staleMs: number, leaseMs: number, out: Uint8Array, info: Int32Array): number;
  /** As `lookup` without stale values and elections, not counted; tells all words of `info`. */
  probe(key: string | Uint8Array, out: Uint8Array, info: Int32Array): number;
  /**
   * Of the key of each of `count` operations, described as for `NativeCore.encode`: ticket, slot, and halves of its xxh3-64, low
   * and high, `STAMP_WORDS` an operation. Words of an operation without a key stay as they are.
   */
  stamp(scratch: Uint8Array, desc: Int32Array, count: number, out: Int32Array): void;
  /** Begins a load: the ticket to hand to `store`. */
  beginLoad(key: string | Uint8Array): number;
  /** Whether a key is cached and fresh, without counting it as a lookup. */
  holds(key: string | Uint8Array): boolean;
  /** The ticket that a load would get now: another one than before when the key was invalidated since. */
  ticket(key: string | Uint8Array): number;
  /** Stores a loaded value (null: the key does not exist). */
  store(
    key: string | Uint8Array,
    value: Uint8Array | null,
    ttlMs: number,
    refreshMs: number,
    feeder: number,
    domain: number,
    ticket: number,
    info: Int32Array,
  ): number;
  /** Removes a key and makes loads of it that are under way be refused. */
  invalidate(key: string | Uint8Array): boolean;
  invalidateAll(): void;
  /** Removes all that one connection fed. Returns how many. O(index). */
  invalidateFeeder(feeder: number): number;
  /** Lets what one connection fed expire now: it is still found by lookups that allow stale values. O(index). */
  expireFeeder(feeder: number): number;
  /** Removes all that the connections of the thread in `seat` fed. O(index). */
  invalidateSeat(seat: number): number;
  /** Removes a domain's keys with a prefix (empty: all of them). Returns how many. O(index). */
  invalidatePrefix(domain: number, prefix: string | Uint8Array): number;
  /** Asks to be the one who loads; `claim[2]` is the ticket of the load, as by `beginLoad`, where the caller is to load. */
  claim(key: string | Uint8Array, patienceMs: number, claim: Int32Array): number;
  /** Ends a claim. True when it was still the caller's: then notify the waiters of its word. */
  release(index: number, value: number): boolean;
  /** Sums of the counters over all threads, by name. */
  counters(): Record<string, number>;
  /** Adds to one of this thread's counters, by its place in the layout's counter block. */
  count(counter: number, amount: number): void;
  /** Entries and bytes in use. O(index). */
  usage(): { entries: number; bytes: number };
  /** Leaves the seat. With `closeRegion`, ends the cache for all threads. */
  end(closeRegion: boolean): void;
}

/** What the addon offers. */
export interface CacheCore {
  /** Lays out zeroed memory and takes a seat; starts the clock. Throws when it is too small. */
  createCache(memory: Int32Array, options: CacheOptions): CacheSession;
  /** Takes a seat in a region that another thread of this process laid out. Throws when it is not one, or another version. */
  attachCache(memory: Int32Array): CacheSession;
}
