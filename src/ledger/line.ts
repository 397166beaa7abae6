/**
 * The entries of one account in one spool, oldest first: where each is written, which are booked, and what all of them together
 * come to. The invariant: entries are booked in order, and leave the spool in order, so two indices tell everything.
 *
 * ```text
 * places   … left the spool │ booked, kept │ not booked
 *                           0              booked        length
 * ```
 */

/** The place of a record: segment number × 2^32 + offset. */
export type Place = number;

const SEGMENT = 2 ** 32;
/** Places that have left are cut off the list when there are so many. */
const CUT = 1024;

export function placeOf(segment: number, offset: number): Place {
  return segment * SEGMENT + offset;
}

export function segmentOf(place: Place): number {
  return Math.floor(place / SEGMENT);
}

export function offsetOf(place: Place): number {
  return place % SEGMENT;
}

export class Line {
  readonly account: string;
  /** Sum and number of all entries ever acknowledged. */
  sum = 0n;
  count = 0;
  /** Sequence number of the last entry. */
  last = 0;
  /** Up to this sequence number entries have left the spool, booked. */
  left = 0;
  /** Largest sequence number that was ever booked, be it lost since. */
  reached = 0;
  /** Entries at the head that are booked. */
  booked = 0;
  /** State of the booker: under way, waiting its turn, attempts, those that failed in a row, the last one's code, and the next one. */
  busy = false;
  queued = false;
  attempts = 0;
  failures = 0;
  code: string | null = null;
  retryAt = 0;
  /** Entries of the next booking at most. */
  width = Infinity;
  #places: Place[] = [];
  #head = 0;

  constructor(account: string) {
    this.account = account;
  }

  /** Entries in the spool. */
  get length(): number {
    return this.#places.length - this.#head;
  }

  /** Entries not booked. */
  get open(): number {
    return this.length - this.booked;
  }

  at(index: number): Place {
    return this.#places[this.#head + index]!;
  }

  push(place: Place, seq: number, amount: bigint): void {
    this.#places.push(place);
    this.last = seq;
    this.sum += amount;
    this.count += 1;
  }

  /** The first `count` entries leave; the last of them has this sequence number. They are booked. */
  leave(count: number, seq: number): void {
    this.#head += count;
    this.booked -= count;
    this.left = seq;
    if (this.#head < CUT || this.#head * 2 < this.#places.length) return;
    this.#places = this.#places.slice(this.#head);
    this.#head = 0;
  }

  /** Entries in segments up to `segment`. O(log n). */
  upTo(segment: number): number {
    return this.search((index) => segmentOf(this.at(index)) > segment);
  }

  /** Index of the first entry for which `past` holds; it holds for all behind it, too. O(log n). */
  search(past: (index: number) => boolean): number {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (past(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
