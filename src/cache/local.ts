/**
 * L0: this thread's own map from key to decoded value, in front of the shared region. An entry is proven by one word: every
 * overwrite, invalidation, eviction or recycling of its way in the region counts that word up, in whichever thread it happens,
 * so a hit is one Map lookup, one proof word, the clock word and a hit counter — no crossing, no decoding.
 *
 * Plain reads of the proof and clock words are enough: a stale read is a delay of visibility, never a wrong proof.
 */
import type { HitCounts } from "../shared/hit-counts.js";
import type { SharedRegion } from "../shared/region.js";

/** Hits beyond this make no difference to eviction (`HIT_CAP` of the Rust table). */
const HIT_CAP = 3;
/** Most entries held; the oldest leave first (the region still has them). */
const MAX_ENTRIES = 65_536;
/**
 * Hits of an entry that are told together, as one; the rest waits for more. That keeps what counting costs a hit below its
 * share of a call, also when hits spread over many keys.
 */
const TOLD_HITS = 32;
/** Entries that are told together. */
const TOLD_ENTRIES = 256;
/** Hits are counted from here when nobody is told. */
const UNTOLD = -0x3fff_ffff;

export class LocalEntry {
  value: unknown;
  index: number;
  proof: number;
  /** When to ask the region again, on its clock. */
  check: number;
  /** Hits that the counters of hot keys have not been told. */
  untold = 0;

  constructor(value: unknown, index: number, proof: number, check: number) {
    this.value = value;
    this.index = index;
    this.proof = proof;
    this.check = check;
  }
}

/** Fills places where no entry is. */
const NONE = new LocalEntry(undefined, 0, 0, 0);

export class LocalCache {
  /** Answers given by this thread's map. */
  hits = 0;
  /** What `get` found last when it could not tell: an entry to be brought up to date, or null. */
  stale: LocalEntry | null = null;
  readonly #entries = new Map<string, LocalEntry>();
  /** Keys from the oldest on. One iterator for all: a new one would walk every place that a removed key has left. */
  readonly #oldest = this.#entries.keys();
  readonly #proofs: Int32Array;
  readonly #hitWords: Int32Array;
  readonly #words: Int32Array;
  readonly #clock: number;
  readonly #counts: HitCounts | null;
  /** Entries with hits to be told, their keys, and how many they are. The arrays keep their length: no hit makes them grow. */
  readonly #hit: LocalEntry[] = Array.from({ length: TOLD_ENTRIES }, () => NONE);
  readonly #hitKeys: string[] = Array.from({ length: TOLD_ENTRIES }, () => "");
  readonly #weights = new Int32Array(TOLD_ENTRIES);
  #told = 0;
  #closed = false;

  /** `counts` hears of the hits of keys, if anybody does. */
  constructor({ proofs, hits, words, clock }: SharedRegion, counts: HitCounts | null) {
    this.#counts = counts;
    if (counts !== null) counts.gather = () => this.#tell(counts);
    this.#proofs = proofs;
    this.#hitWords = hits;
    this.#words = words;
    this.#clock = clock;
  }

  /** The value, null when the key is known to be absent, undefined when this map cannot tell. */
  get(key: string): unknown {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      this.stale = null;
      return undefined;
    }
    const { index } = entry;
    if (this.#proofs[index] !== entry.proof || ((this.#words[this.#clock]! - entry.check) | 0) >= 0) {
      this.stale = entry;
      return undefined;
    }
    // Counted up to what eviction looks at, so that the line stays shared between cores.
    if (this.#hitWords[index]! < HIT_CAP) this.#hitWords[index]! += 1;
    this.hits += 1;
    if ((entry.untold += 1) === TOLD_HITS) this.#gather(entry, key);
    return entry.value;
  }

  /** Whether there is an entry, be it a stale one. */
  has(key: string): boolean {
    return this.#entries.has(key);
  }

  set(key: string, value: unknown, index: number, proof: number, check: number): void {
    if (this.#closed) return;
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      this.renew(entry, value, index, proof, check);
      return;
    }
    if (this.#entries.size >= MAX_ENTRIES) this.#entries.delete(this.#oldest.next().value!);
    this.#entries.set(key, new LocalEntry(value, index, proof, check));
  }

  /** Brings an entry up to date. */
  renew(entry: LocalEntry, value: unknown, index: number, proof: number, check: number): void {
    if (this.#closed) return;
    entry.value = value;
    entry.index = index;
    entry.proof = proof;
    entry.check = check;
  }

  #gather(entry: LocalEntry, key: string): void {
    const counts = this.#counts;
    if (counts === null) {
      entry.untold = UNTOLD;
      return;
    }
    const at = this.#told;
    this.#hit[at] = entry;
    this.#hitKeys[at] = key;
    this.#told = at + 1;
    if (at === 0) counts.soon();
    else if (at + 1 === TOLD_ENTRIES) this.#tell(counts);
  }

  #tell(counts: HitCounts): void {
    const hit = this.#hit;
    const weights = this.#weights;
    const told = this.#told;
    if (told === 0) return;
    for (let at = 0; at < told; at += 1) {
      const entry = hit[at]!;
      weights[at] = entry.untold;
      entry.untold = 0;
      // Nothing is kept alive by having been hit.
      hit[at] = NONE;
    }
    counts.addAll(this.#hitKeys, weights, told);
    this.#told = 0;
    this.#hitKeys.fill("");
  }

  /** Answers nothing any more. */
  close(): void {
    this.#closed = true;
    this.stale = null;
    this.#entries.clear();
  }
}
