/**
 * S3-FIFO as its authors describe it (Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction", SOSP
 * 2023): a small queue of a tenth, a main queue, and a queue of ghosts as long as the main one.
 *
 * ```text
 * miss, no ghost → small ── hit at least twice → main ── hit since → main again
 *                    └ else → ghost                └ else → gone                 miss, ghost → main
 * ```
 */

/** Most hits that are counted. */
const HIT_CAP = 3;

/** Numbers, first in first out. O(1) amortised. */
class Queue {
  #items: number[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: number): void {
    this.#items.push(item);
  }

  shift(): number {
    const item = this.#items[this.#head];
    this.#head += 1;
    if (this.#head * 2 > this.#items.length && this.#head > 1024) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

/** Which objects a cache of `capacity` holds. */
export class S3Fifo {
  readonly #capacity: number;
  readonly #smallShare: number;
  /** Object held → hits since it was last looked at. */
  readonly #hits = new Map<number, number>();
  readonly #small = new Queue();
  readonly #main = new Queue();
  readonly #ghosts = new Queue();
  readonly #ghostly = new Set<number>();

  constructor(capacity: number) {
    this.#capacity = capacity;
    this.#smallShare = Math.max(1, Math.floor(capacity / 10));
  }

  /** Objects held. */
  get size(): number {
    return this.#hits.size;
  }

  /** Asks for an object, and puts it in when it is not there. True for a hit. */
  ask(object: number): boolean {
    const hits = this.#hits.get(object);
    if (hits !== undefined) {
      if (hits < HIT_CAP) this.#hits.set(object, hits + 1);
      return true;
    }
    while (this.#hits.size >= this.#capacity) {
      if (this.#small.length >= this.#smallShare || this.#main.length === 0) this.#evictSmall();
      else this.#evictMain();
    }
    this.#hits.set(object, 0);
    (this.#ghostly.has(object) ? this.#main : this.#small).push(object);
    return false;
  }

  #evictSmall(): void {
    const object = this.#small.shift();
    if (this.#hits.get(object)! > 1) {
      this.#hits.set(object, 0);
      this.#main.push(object);
      return;
    }
    this.#hits.delete(object);
    this.#ghosts.push(object);
    this.#ghostly.add(object);
    if (this.#ghosts.length > this.#capacity - this.#smallShare) this.#ghostly.delete(this.#ghosts.shift());
  }

  #evictMain(): void {
    const object = this.#main.shift();
    const hits = this.#hits.get(object)!;
    if (hits === 0) {
      this.#hits.delete(object);
      return;
    }
    this.#hits.set(object, hits - 1);
    this.#main.push(object);
  }
}
