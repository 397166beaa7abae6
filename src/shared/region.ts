/**
 * The shared memory of one `Keylane.open`, as this thread sees it: the cache region that Rust lays out, and a few words of our
 * own. Handed to another thread as it is; both sides compare the layout's digest before a word is read.
 *
 * ```text
 * region    [ header | clock | … | proofs | hits | … | arena ]       laid out by crates/core/src/layout.rs
 * control   [ last beat of the thread in seat 0 | … seat 127 | until when hash 0 is marked | … hash 65,535 ]
 *                                                                    ms of the region's clock, 0: nobody's, or not marked
 * ```
 *
 * A thread hears of changes for what its connections fed. The invariant: when it hears nothing any more, because it died or
 * because its event loop stands still, what it fed is dropped, by the addon's hook or by the next thread that beats.
 */
import { KeylaneError } from "../errors.js";
import { FEEDER_BITS, MAX_SEATS } from "../native/cache-types.js";
import type { CacheCore, CacheSession } from "../native/cache-types.js";

/** A thread that did not beat for so long hears too late of changes, in milliseconds. */
const SILENT_MS = 1000;
const MAX_NUMBER = (1 << FEEDER_BITS) - 1;
/** How much longer a mark stands, in milliseconds: the clock may move between it and the store. */
const MARGIN_MS = 1000;
/** Marks by hash, a power of two. */
const MARKS = 1 << 16;
const CONTROL_BYTES = (MAX_SEATS + MARKS) * 4;
/** Below, a segment of the arena holds a key and no value. */
const SMALLEST_BYTES = (128 << 10) + 64;
/** Positions are word indices of 30 bits; the last line stays unused. */
const LARGEST_BYTES = 2 ** 32;

/** The memories of a region; what another thread needs to attach. */
export interface RegionHandle {
  readonly region: SharedArrayBuffer;
  readonly control: SharedArrayBuffer;
  readonly digest: string;
}

export class SharedRegion {
  readonly session: CacheSession;
  /** The region as words; index with the offsets below. */
  readonly words: Int32Array;
  /** Proof words by proof index. */
  readonly proofs: Int32Array;
  /** Hit words by proof index. */
  readonly hits: Int32Array;
  /** `words[clock]` is the region's clock in milliseconds; it wraps. */
  readonly clock: number;
  /** The session is over: it refuses every call. */
  ended = false;
  readonly #control: Int32Array;
  readonly #marks: Int32Array;
  readonly #owner: boolean;
  readonly #seat: number;
  readonly #fed = new Set<number>();
  #number = 0;

  private constructor(region: SharedArrayBuffer, control: SharedArrayBuffer, session: CacheSession, owner: boolean) {
    const { layout, base } = session;
    this.session = session;
    this.words = new Int32Array(region);
    this.proofs = this.words.subarray(base + layout["proofs"]!, base + layout["proofs"]! + layout["ways"]!);
    this.hits = this.words.subarray(base + layout["hits"]!, base + layout["hits"]! + layout["ways"]!);
    this.clock = base + layout["clock"]!;
    this.#control = new Int32Array(control, 0, MAX_SEATS);
    this.#marks = new Int32Array(control, MAX_SEATS * 4);
    this.#owner = owner;
    this.#seat = layout["ownSeat"]!;
    this.beat();
  }

  /** Allocates and lays out a region of `bytes`. @throws KeylaneError `KEYLANE_ERR_OPTIONS` when it is too small or too large. */
  static create(core: CacheCore, bytes: number, maxValueBytes: number): SharedRegion {
    if (bytes < SMALLEST_BYTES || bytes > LARGEST_BYTES) {
      const message = `cacheBytes: must be from ${SMALLEST_BYTES} to ${LARGEST_BYTES}, not ${bytes}`;
      throw new KeylaneError("KEYLANE_ERR_OPTIONS", message);
    }
    try {
      const region = new SharedArrayBuffer(Math.min(Math.ceil(bytes / 64) * 64, LARGEST_BYTES - 64));
      const session = core.createCache(new Int32Array(region), { maxValueBytes, maxThreads: MAX_SEATS });
      return new SharedRegion(region, new SharedArrayBuffer(CONTROL_BYTES), session, true);
    } catch (cause) {
      throw new KeylaneError("KEYLANE_ERR_OPTIONS", `cacheBytes: ${(cause as Error).message}`, { cause });
    }
  }

  /** Joins a region made by another thread. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` when it is none, or another version's. */
  static attach(core: CacheCore, { region, control, digest }: RegionHandle): SharedRegion {
    let session: CacheSession;
    if (!(control instanceof SharedArrayBuffer) || control.byteLength !== CONTROL_BYTES) {
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "the handle's cache: it lacks its control words");
    }
    try {
      session = core.attachCache(new Int32Array(region));
    } catch (cause) {
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `the handle's cache: ${(cause as Error).message}`, { cause });
    }
    if (session.digest !== digest) {
      session.end(false);
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "the handle comes from another version of keylane");
    }
    return new SharedRegion(region, control, session, false);
  }

  get handle(): RegionHandle {
    const { words, session } = this;
    return {
      region: words.buffer as SharedArrayBuffer,
      control: this.#control.buffer as SharedArrayBuffer,
      digest: session.digest,
    };
  }

  /** A feeder number that no other connection of the process uses; 0 when this thread has none left. */
  takeFeeder(): number {
    if (this.ended || this.#fed.size === MAX_NUMBER) return 0;
    do this.#number = (this.#number % MAX_NUMBER) + 1;
    while (this.#fed.has(this.#number));
    this.#fed.add(this.#number);
    return (this.#seat << FEEDER_BITS) | this.#number;
  }

  freeFeeder(feeder: number): void {
    this.#fed.delete(feeder & MAX_NUMBER);
  }

  /** Shows that this thread's event loop runs, and drops what threads fed whose loop stands still. O(seats). */
  beat(): void {
    if (this.ended) return;
    const now = this.words[this.clock]! || 1;
    Atomics.store(this.#control, this.#seat, now);
    for (let seat = 0; seat < MAX_SEATS; seat += 1) {
      const last = Atomics.load(this.#control, seat);
      if (last === 0 || ((now - last) | 0) <= SILENT_MS) continue;
      if (Atomics.compareExchange(this.#control, seat, last, 0) === last) this.session.invalidateSeat(seat);
    }
  }

  /**
   * Marks a hash for all threads, for at least `ms` (up to 2^30) milliseconds: told before something is stored under it that
   * those who find no mark need not look for. Hashes share marks.
   */
  mark(hash: number, ms: number): void {
    const at = hash & (MARKS - 1);
    const now = this.words[this.clock]!;
    const until = (now + Math.ceil(ms) + MARGIN_MS) | 0 || 1;
    // One that has passed counts for nothing, however far the clock has wrapped since.
    const lower = (mark: number): boolean => ((now - mark) | 0) >= 0 || ((mark - until) | 0) < 0;
    for (let last = Atomics.load(this.#marks, at); last === 0 || lower(last);) {
      const found = Atomics.compareExchange(this.#marks, at, last, until);
      if (found === last) return;
      last = found;
    }
  }

  /** Whether a hash may be marked: one plain read. */
  marked(hash: number): boolean {
    const until = this.#marks[hash & (MARKS - 1)]!;
    return until !== 0 && ((this.words[this.clock]! - until) | 0) < 0;
  }

  /** Entries and bytes in use, and the counters of all threads; zeros once it is over. O(index). */
  usage(): { entries: number; bytes: number; counters: Record<string, number> } {
    if (this.ended) return { entries: 0, bytes: 0, counters: {} };
    return { ...this.session.usage(), counters: this.session.counters() };
  }

  /** Leaves the region; the thread that made it ends it for all. Idempotent. */
  end(): void {
    if (this.ended) return;
    this.ended = true;
    Atomics.store(this.#control, this.#seat, 0);
    this.session.end(this.#owner);
  }
}
