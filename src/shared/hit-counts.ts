/**
 * This thread's seat among the counters of hot keys (`native/hits-types.ts`). The invariant: each operation that a caller makes
 * on a key is one hit, wherever it is answered — a lane counts what it sends, when its turn is flushed; caches count what they
 * answer — and nothing that keylane does by itself is one.
 *
 * Hits of caches are gathered and told together, at the latest `TELL_MS` after the first.
 */
import { KeylaneError } from "../errors.js";
import { hitsCore } from "../native/index.js";
import type { HitsSession } from "../native/hits-types.js";

/** Threads that count at once; others that join do not. */
const MAX_THREADS = 128;
/** Hits that are told together, and how long they wait for others. */
const BATCH = 256;
const TELL_MS = 50;
/** Names that are told together: as many as there can be room for until the next merge. */
const NAMES = 4096;
/** How the addon says that all seats are taken (`RegionError::Full`). */
const ALL_TAKEN = "as many threads";

export class HitCounts {
  readonly buffer: SharedArrayBuffer;
  readonly session: HitsSession;
  /** Gives `add` what it has gathered itself; called before hits are told. */
  gather: () => void = () => {};
  readonly #keys: string[] = [];
  readonly #lengths = new Int32Array(BATCH);
  readonly #weights = new Int32Array(BATCH);
  readonly #wanted = new Int32Array(NAMES);
  readonly #told = (): void => {
    this.#timer = null;
    this.gather();
    this.#flush();
  };
  #timer: NodeJS.Timeout | null = null;
  #ended = false;

  private constructor(buffer: SharedArrayBuffer, session: HitsSession) {
    this.buffer = buffer;
    this.session = session;
  }

  /**
   * Counters of their own, or a seat at another thread's. Null where there is no addon, and when all seats are taken.
   *
   * @throws KeylaneError `KEYLANE_ERR_ARGUMENT` when `buffer` holds no counters
   */
  static open(buffer?: SharedArrayBuffer): HitCounts | null {
    if (hitsCore === undefined) return null;
    if (buffer === undefined) {
      const options = { maxThreads: MAX_THREADS };
      const memory = new SharedArrayBuffer(hitsCore.hitsBytes(options));
      return new HitCounts(memory, hitsCore.createHits(new Int32Array(memory), options));
    }
    try {
      return new HitCounts(buffer, hitsCore.attachHits(new Int32Array(buffer)));
    } catch (cause) {
      const { message } = cause as Error;
      if (message.startsWith(ALL_TAKEN)) return null;
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `the handle's hot keys: ${message}`, { cause });
    }
  }

  /** Counts the keys of a turn's operations, as the encoder has packed them. */
  frames(scratch: Uint8Array, desc: Int32Array, count: number): void {
    if (!this.#ended) this.session.recordFrames(scratch, desc, count);
  }

  /** Counts `weight` hits of a key. */
  add(key: string | Uint8Array, weight: number): void {
    if (this.#ended) return;
    if (typeof key !== "string") {
      this.session.recordBytes(key, Int32Array.of(key.length), 1, Int32Array.of(weight));
      return;
    }
    const at = this.#keys.push(key) - 1;
    this.#lengths[at] = key.length;
    this.#weights[at] = weight;
    if (at + 1 === BATCH) this.#flush();
    else this.soon();
  }

  /**
   * Counts the hits that the caller has counted by itself of the first `keys.length` keys, `least` at least of a key, and sets
   * them to 0. `hashes` are those that the cache tells, two words a key.
   */
  addCounted(keys: readonly string[], hashes: Int32Array, counts: Int32Array, least: number): void {
    if (this.#ended) return;
    const { session } = this;
    const wanted = this.#wanted;
    const names = session.recordCounts(counts, hashes, keys.length, least, wanted);
    for (let i = 0; i < names && session.name(keys[wanted[i]!]!); i += 1);
  }

  /** Something is there to be told. */
  soon(): void {
    if (this.#ended) return;
    this.#timer ??= setTimeout(this.#told, TELL_MS).unref();
  }

  /** Leaves the seat. What was told still counts. Idempotent. */
  end(): void {
    if (this.#ended) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#told();
    this.#ended = true;
    this.session.end();
  }

  #flush(): void {
    const keys = this.#keys;
    if (keys.length === 0 || this.#ended) return;
    this.session.record(keys.join(""), this.#lengths, keys.length, this.#weights);
    keys.length = 0;
  }
}
