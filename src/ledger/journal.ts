/**
 * Impressions in the spool: which ids were billed or denied, and which of those billed the frequency servers have yet to count.
 * The invariant: an id whose record is in a segment is found while the segment stays, and a segment stays while one of its
 * impressions is not counted.
 *
 * ```text
 * written ──▶ open ──(counted)──▶ counted ──(its segment leaves)──▶ gone
 *              ▲                     │ the frequency servers may have lost it
 *              └─────────────────────┘
 * ```
 */
import { crc32 } from "node:zlib";
import type { Entry } from "./entry.js";
import { IMPRESSION } from "./frame.js";
import { placeOf, segmentOf } from "./line.js";
import type { Place } from "./line.js";

/** A record of an id. */
export interface Recorded {
  readonly kind: number;
  readonly entry: Entry;
  readonly more: string;
}

/** Marks offsets of denials; segments are far smaller. */
const DENIED = 0x8000_0000;
const LEAST = 64;

/** Ids of one segment: an open-addressing table from the id's hash to the offset of its record, 8 bytes a place. */
export class IdIndex {
  size = 0;
  /** Impressions that are not counted. */
  open = 0;
  #hashes = new Uint32Array(LEAST);
  #offsets = new Uint32Array(LEAST);

  add(id: string, offset: number, kind: number): void {
    if (this.size * 2 >= this.#hashes.length) this.#grow();
    this.#put(crc32(id), kind === IMPRESSION ? offset : (offset | DENIED) >>> 0);
    this.size += 1;
  }

  /** The first offset of a record with this hash for which `is` holds; 0 when there is none. */
  find(hashed: number, is: (offset: number) => boolean): number {
    const last = this.#hashes.length - 1;
    for (let at = hashed & last; this.#offsets[at] !== 0; at = (at + 1) & last) {
      const offset = this.#offsets[at]! & ~DENIED;
      if (this.#hashes[at] === hashed && is(offset)) return offset;
    }
    return 0;
  }

  /** Offsets of impressions, in order. O(n log n). */
  impressions(): Uint32Array {
    return this.#offsets.filter((offset) => offset !== 0 && offset < DENIED).toSorted();
  }

  #put(hashed: number, offset: number): void {
    const last = this.#hashes.length - 1;
    let at = hashed & last;
    while (this.#offsets[at] !== 0) at = (at + 1) & last;
    this.#hashes[at] = hashed;
    this.#offsets[at] = offset;
  }

  #grow(): void {
    const [hashes, offsets] = [this.#hashes, this.#offsets];
    this.#hashes = new Uint32Array(hashes.length * 2);
    this.#offsets = new Uint32Array(hashes.length * 2);
    for (const [at, offset] of offsets.entries()) if (offset !== 0) this.#put(hashes[at]!, offset);
  }
}

/** An impression to be counted. */
export interface Uncounted {
  readonly id: string;
  /** What is to be counted. */
  readonly more: string;
}

/** A call that waits until what was open when it came is counted. */
interface Wait {
  readonly places: Set<Place>;
  readonly end: () => void;
}

export class Journal {
  /** Hears of each impression that was written. */
  written: (place: Place) => void = () => undefined;
  readonly #read: (place: Place) => Recorded;
  /** By segment, oldest first. */
  readonly #indexes: Map<number, IdIndex>;
  /** Impressions that are not counted, and what is to be counted where it is at hand. */
  readonly #open = new Map<Place, Uncounted | null>();
  readonly #waits = new Set<Wait>();

  /** `read` gives the record at a place. */
  constructor(indexes: ReadonlyMap<number, IdIndex>, read: (place: Place) => Recorded) {
    this.#indexes = new Map(indexes);
    this.#read = read;
    this.reopen();
  }

  /** Impressions that are not counted. */
  get uncounted(): number {
    return this.#open.size;
  }

  /** Records in a segment. */
  count(segment: number): number {
    return this.#indexes.get(segment)?.size ?? 0;
  }

  isOpen(segment: number): boolean {
    return (this.#indexes.get(segment)?.open ?? 0) > 0;
  }

  put(segment: number, offset: number, id: string, kind: number, more: string): void {
    let index = this.#indexes.get(segment);
    if (index === undefined) this.#indexes.set(segment, (index = new IdIndex()));
    index.add(id, offset, kind);
    if (kind !== IMPRESSION) return;
    index.open += 1;
    const place = placeOf(segment, offset);
    this.#open.set(place, { id, more });
    this.written(place);
  }

  /** The record of an id; null when there is none. O(segments). */
  find(id: string): Recorded | null {
    const hashed = crc32(id);
    let found: Recorded | null = null;
    for (const [segment, index] of this.#indexes) {
      const is = (offset: number): boolean => {
        found = this.#read(placeOf(segment, offset));
        return found.entry.id === id;
      };
      if (index.find(hashed, is) !== 0) return found;
    }
    return null;
  }

  /** The impression at a place; null when it is counted. @throws KeylaneError `KEYLANE_ERR_SPOOL` when it cannot be read */
  at(place: Place): Uncounted | null {
    const known = this.#open.get(place);
    if (known === undefined) return null;
    if (known !== null) return known;
    const { entry, more } = this.#read(place);
    return { id: entry.id, more };
  }

  /** The frequency servers have counted the impression at a place. */
  settle(place: Place): void {
    if (!this.#open.delete(place)) return;
    this.#indexes.get(segmentOf(place))!.open -= 1;
    for (const { places, end } of this.#waits) if (places.delete(place) && places.size === 0) end();
  }

  /** The frequency servers may have lost counts: all impressions are open again. Gives them, oldest first. O(n log n). */
  reopen(): Place[] {
    for (const [segment, index] of this.#indexes) {
      const offsets = index.impressions();
      index.open = offsets.length;
      for (const offset of offsets) {
        const place = placeOf(segment, offset);
        if (!this.#open.has(place)) this.#open.set(place, null);
      }
    }
    return [...this.#open.keys()];
  }

  /** A segment has left the spool. */
  leave(segment: number): void {
    this.#indexes.delete(segment);
  }

  /** Resolves when what is open now is counted, or when the signal says that nobody waits any more. */
  async counted(signal: AbortSignal): Promise<void> {
    if (this.#open.size === 0 || signal.aborted) return;
    const { promise, resolve } = newPromise();
    const wait = { places: new Set(this.#open.keys()), end: resolve };
    signal.addEventListener("abort", resolve, { once: true });
    this.#waits.add(wait);
    await promise;
    this.#waits.delete(wait);
  }
}

function newPromise(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
