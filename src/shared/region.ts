/**
 * The shared memory of one `Keylane.open`, as this thread sees it: the cache region that Rust lays out, and a few words of our
 * own. Handed to another thread as it is; both sides compare the layout's digest before a word is read.
 *
 * ```text
 * region    [ header | clock | … | proofs | hits | … | arena ]       laid out by crates/core/src/layout.rs
 * control   [ feeders given out | … 16 words ]
 * ```
 */
import { KeylaneError } from "../errors.js";
import type { CacheCore, CacheSession } from "../native/cache-types.js";

const CONTROL_WORDS = 16;
const FEEDERS = 0;
/** Feeder numbers are 16 bits and 0 means "none". */
const MAX_FEEDER = 0xffff;

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
  readonly #control: Int32Array;
  readonly #owner: boolean;

  private constructor(region: SharedArrayBuffer, control: SharedArrayBuffer, session: CacheSession, owner: boolean) {
    const { layout, base } = session;
    this.session = session;
    this.words = new Int32Array(region);
    this.proofs = this.words.subarray(base + layout["proofs"]!, base + layout["proofs"]! + layout["ways"]!);
    this.hits = this.words.subarray(base + layout["hits"]!, base + layout["hits"]! + layout["ways"]!);
    this.clock = base + layout["clock"]!;
    this.#control = new Int32Array(control);
    this.#owner = owner;
  }

  /** Allocates and lays out a region of `bytes`. @throws KeylaneError `KEYLANE_ERR_OPTIONS` when it is too small. */
  static create(core: CacheCore, bytes: number, maxValueBytes: number): SharedRegion {
    const region = new SharedArrayBuffer(Math.ceil(bytes / 64) * 64);
    try {
      const session = core.createCache(new Int32Array(region), { maxValueBytes });
      return new SharedRegion(region, new SharedArrayBuffer(CONTROL_WORDS * 4), session, true);
    } catch (cause) {
      throw new KeylaneError("KEYLANE_ERR_OPTIONS", `cacheBytes: ${(cause as Error).message}`, { cause });
    }
  }

  /** Joins a region made by another thread. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` when it is none, or another version's. */
  static attach(core: CacheCore, { region, control, digest }: RegionHandle): SharedRegion {
    let session: CacheSession;
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

  /** A feeder number that no connection of the process uses now. */
  nextFeeder(): number {
    return 1 + ((Atomics.add(this.#control, FEEDERS, 1) >>> 0) % MAX_FEEDER);
  }

  /** Leaves the region; the thread that made it ends it for all. */
  end(): void {
    this.session.end(this.#owner);
  }
}
