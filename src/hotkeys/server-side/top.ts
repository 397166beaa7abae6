/**
 * The hottest of many keys, in bounded memory: at most twice `limit` are held. A key that is offered again, as `SCAN` may do, is
 * held once, with its highest rank. O(1) amortised an offer.
 */

/** Something that has a key. */
interface Keyed {
  readonly key: Buffer;
}

export class TopList<T extends Keyed> {
  readonly #limit: number;
  readonly #rank: (item: T) => number;
  /** By the key's bytes as Latin-1 text. */
  readonly #held = new Map<string, T>();
  /** What ranks no higher than this cannot enter. */
  #floor = -Infinity;

  constructor(limit: number, rank: (item: T) => number) {
    this.#limit = limit;
    this.#rank = rank;
  }

  offer(item: T): void {
    const rank = this.#rank(item);
    if (rank <= this.#floor) return;
    const name = item.key.toString("latin1");
    const known = this.#held.get(name);
    if (known !== undefined && this.#rank(known) >= rank) return;
    this.#held.set(name, item);
    if (this.#held.size > this.#limit * 2) this.#trim();
  }

  /** Hottest first; equal ones by their key's bytes. */
  items(): T[] {
    const sorted = [...this.#held.values()].toSorted(
      (a, b) => this.#rank(b) - this.#rank(a) || Buffer.compare(a.key, b.key),
    );
    return sorted.slice(0, this.#limit);
  }

  #trim(): void {
    const kept = this.items();
    this.#held.clear();
    for (const item of kept) this.#held.set(item.key.toString("latin1"), item);
    this.#floor = this.#rank(kept.at(-1)!);
  }
}
