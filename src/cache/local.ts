/**
 * L0: this thread's own map from key to decoded value, in front of the shared region. An entry is proven by one word: every
 * overwrite, invalidation, eviction or recycling of its way in the region counts that word up, in whichever thread it happens,
 * so a hit is one Map lookup, one proof word, the clock word and a hit counter — no crossing, no decoding.
 *
 * Plain reads of the proof and clock words are enough: a stale read is a delay of visibility, never a wrong proof.
 *
 * Hits are counted key by key in an array, for the counters of hot keys, which are told every so often of the keys that were hit
 * often enough. No hit decides by its key's count whether to tell: a processor cannot guess that, and a wrong guess, which it
 * finds out when the count has come from memory, costs more than all else that counting does.
 */
import { INFO_CHECK, INFO_HASH_HIGH, INFO_HASH_LOW, INFO_PROOF, INFO_PROOF_INDEX } from "../native/cache-types.js";
import type { HitCounts } from "../shared/hit-counts.js";
import type { SharedRegion } from "../shared/region.js";

/** Hits beyond this make no difference to eviction (`HIT_CAP` of the Rust table). */
const HIT_CAP = 3;
/** Most entries held; the oldest leave first (the region still has them). */
const MAX_ENTRIES = 65_536;
/** Hits of an entry that are told; fewer wait for more, so that telling costs little a hit also when hits spread over many keys. */
const TOLD_HITS = 32;
/** A thread that leaves its timers no time tells after so many hits, or so many an entry, whichever is more. */
const DUE_HITS = 8192;
const DUE_HITS_AN_ENTRY = 64;
/** Hits after which to look again where nobody is told. */
const NEVER = 0x3fff_ffff;

/** Who is told of hits. */
export type Told = Pick<HitCounts, "gather" | "soon" | "add" | "addCounted">;

export class LocalEntry {
  value: unknown;
  index: number;
  proof: number;
  /** When to ask the region again, on its clock. */
  check: number;
  /** Its place among the entries' counts and keys. */
  readonly place: number;

  constructor(value: unknown, index: number, proof: number, check: number, place: number) {
    this.value = value;
    this.index = index;
    this.proof = proof;
    this.check = check;
    this.place = place;
  }
}

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
  readonly #counts: Told | null;
  /** By the entries' places: hits that the counters have not been told, hashes in two halves, and keys. */
  readonly #untold = new Int32Array(MAX_ENTRIES);
  readonly #hashes: Int32Array;
  readonly #keys: string[] = [];
  /** When `hits` is more than this, there is something to tell. */
  #due: number;
  /** Whether the counters will ask for what there is to tell. */
  #asked = false;
  #closed = false;

  /** `counts` hears of the hits of keys, if anybody does. */
  constructor({ proofs, hits, words, clock }: SharedRegion, counts: Told | null) {
    this.#counts = counts;
    if (counts !== null) counts.gather = () => this.#gather(counts);
    this.#due = counts === null ? NEVER : 0;
    this.#hashes = new Int32Array(counts === null ? 0 : 2 * MAX_ENTRIES);
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
    this.#untold[entry.place]! += 1;
    if ((this.hits += 1) > this.#due) this.#tellOrAsk();
    return entry.value;
  }

  /** The entry of a key, be it a stale one. */
  find(key: string): LocalEntry | undefined {
    return this.#entries.get(key);
  }

  /** Takes over what a lookup has found and told by `info`. */
  set(key: string, value: unknown, info: Int32Array): void {
    if (this.#closed) return;
    const [index, proof, check] = [info[INFO_PROOF_INDEX]!, info[INFO_PROOF]!, info[INFO_CHECK]!];
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      this.renew(entry, value, index, proof, check);
      return;
    }
    const place = this.#entries.size < MAX_ENTRIES ? this.#entries.size : this.#dropOldest();
    this.#keys[place] = key;
    this.#untold[place] = 0;
    if (this.#counts !== null) {
      this.#hashes[2 * place] = info[INFO_HASH_LOW]!;
      this.#hashes[2 * place + 1] = info[INFO_HASH_HIGH]!;
    }
    this.#entries.set(key, new LocalEntry(value, index, proof, check, place));
  }

  /** Brings an entry up to date. */
  renew(entry: LocalEntry, value: unknown, index: number, proof: number, check: number): void {
    if (this.#closed) return;
    entry.value = value;
    entry.index = index;
    entry.proof = proof;
    entry.check = check;
  }

  /** Gives the place of the oldest entry, which goes. */
  #dropOldest(): number {
    const key = this.#oldest.next().value!;
    const { place } = this.#entries.get(key)!;
    this.#entries.delete(key);
    if (this.#untold[place]! >= TOLD_HITS) this.#counts?.add(key, this.#untold[place]!);
    return place;
  }

  #tellOrAsk(): void {
    const counts = this.#counts;
    if (counts === null) {
      this.#due = this.hits + NEVER;
      return;
    }
    if (this.#asked) this.#tell(counts);
    else counts.soon();
    this.#asked = true;
    this.#due = this.hits + Math.max(DUE_HITS, DUE_HITS_AN_ENTRY * this.#keys.length);
  }

  /** The counters ask: the next hit has them ask again. */
  #gather(counts: Told): void {
    if (this.#asked) this.#tell(counts);
    this.#asked = false;
    this.#due = this.hits;
  }

  #tell(counts: Told): void {
    counts.addCounted(this.#keys, this.#hashes, this.#untold, TOLD_HITS);
  }

  /** Answers nothing any more. */
  close(): void {
    this.#closed = true;
    this.stale = null;
    this.#entries.clear();
    if (this.#counts !== null) this.#gather(this.#counts);
    this.#keys.length = 0;
  }
}
