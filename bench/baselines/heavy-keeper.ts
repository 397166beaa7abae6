/**
 * HeavyKeeper as its authors describe it (Gong, Yang, Zhang, Li, Uhlig, Chen, Uden and Li, "HeavyKeeper: An accurate algorithm for
 * finding top-k elephant flows", USENIX ATC 2018), in TypeScript: rows of buckets whose counters decay, the rarer the larger they
 * are, when another key meets them, and a heap of the `k` keys with the largest estimates.
 *
 * ```text
 * bucket   [ fingerprint | count ]      same key: count + 1      another: with probability 1.08^-count, count − 1; at 0 it moves in
 * estimate the largest count among the key's buckets; a key enters a full heap when it is one above the smallest
 * ```
 */

const BASE = 1.08;
/** From this count on a bucket does not decay for practical purposes. */
const DECAYING = 256;

export class HeavyKeeper {
  readonly #rows: number;
  readonly #mask: number;
  readonly #prints: Uint16Array;
  readonly #counts: Uint32Array;
  /** Chances to decay, of 2³². */
  readonly #chances = Float64Array.from({ length: DECAYING }, (_, count) => BASE ** -count * 2 ** 32);
  readonly #heap: MinHeap;
  readonly #k: number;
  #random = 0x9e3779b9;

  /** `width` buckets a row, a power of two. */
  constructor(k: number, rows: number, width: number) {
    this.#k = k;
    this.#rows = rows;
    this.#mask = width - 1;
    this.#prints = new Uint16Array(rows * width);
    this.#counts = new Uint32Array(rows * width);
    this.#heap = new MinHeap();
  }

  add(key: string): void {
    const hash = hashOf(key);
    const print = hash >>> 16;
    let estimate = 0;
    let mixed = hash;
    for (let row = 0; row < this.#rows; row += 1) {
      mixed = Math.imul(mixed ^ (mixed >>> 15), 0x85ebca6b);
      const at = row * (this.#mask + 1) + ((mixed ^ (mixed >>> 13)) & this.#mask);
      const count = this.#counts[at];
      if (count === 0 || this.#prints[at] === print) {
        this.#prints[at] = print;
        this.#counts[at] = count + 1;
        if (count + 1 > estimate) estimate = count + 1;
      } else if (count < DECAYING && this.#draw() < this.#chances[count]) {
        this.#counts[at] = count - 1;
        if (count === 1) {
          this.#prints[at] = print;
          this.#counts[at] = 1;
          if (estimate === 0) estimate = 1;
        }
      }
    }
    const heap = this.#heap;
    const full = heap.size === this.#k;
    // A key of the heap has at least its smallest count, unless its buckets were lost to others.
    if (full && estimate < heap.least) return;
    if (heap.raise(key, estimate)) return;
    if (!full) heap.push(key, estimate);
    else if (estimate === heap.least + 1) heap.replaceLeast(key, estimate);
  }

  /** The keys of the heap with their estimates. */
  top(): [key: string, estimate: number][] {
    return this.#heap.entries();
  }

  clear(): void {
    this.#counts.fill(0);
    this.#heap.clear();
  }

  /** Xorshift (Marsaglia, 2003). */
  #draw(): number {
    let x = this.#random;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#random = x;
    return x >>> 0;
  }
}

/** FNV-1a of the UTF-16 units, mixed. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i += 1) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
  return hash ^ (hash >>> 15);
}

/** Keys by their estimates, the smallest first; where each key is, is known. */
class MinHeap {
  readonly #keys: string[] = [];
  readonly #estimates: number[] = [];
  readonly #places = new Map<string, number>();

  get size(): number {
    return this.#keys.length;
  }

  /** The smallest estimate. */
  get least(): number {
    return this.#estimates[0];
  }

  /** Raises a key's estimate. False when it is not there. */
  raise(key: string, estimate: number): boolean {
    const at = this.#places.get(key);
    if (at === undefined) return false;
    if (estimate > this.#estimates[at]) {
      this.#estimates[at] = estimate;
      this.#down(at);
    }
    return true;
  }

  push(key: string, estimate: number): void {
    let at = this.#keys.length;
    while (at > 0 && this.#estimates[(at - 1) >> 1] > estimate) {
      this.#put(at, this.#keys[(at - 1) >> 1], this.#estimates[(at - 1) >> 1]);
      at = (at - 1) >> 1;
    }
    this.#put(at, key, estimate);
  }

  replaceLeast(key: string, estimate: number): void {
    this.#places.delete(this.#keys[0]);
    this.#put(0, key, estimate);
    this.#down(0);
  }

  entries(): [string, number][] {
    return this.#keys.map((key, at) => [key, this.#estimates[at]]);
  }

  clear(): void {
    this.#keys.length = 0;
    this.#estimates.length = 0;
    this.#places.clear();
  }

  #down(from: number): void {
    const [key, estimate, size] = [this.#keys[from], this.#estimates[from], this.#keys.length];
    let at = from;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && this.#estimates[child + 1] < this.#estimates[child]) child += 1;
      if (this.#estimates[child] >= estimate) break;
      this.#put(at, this.#keys[child], this.#estimates[child]);
      at = child;
    }
    this.#put(at, key, estimate);
  }

  #put(at: number, key: string, estimate: number): void {
    this.#keys[at] = key;
    this.#estimates[at] = estimate;
    this.#places.set(key, at);
  }
}
