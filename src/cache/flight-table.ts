/**
 * Loads or misses under way, found by the hashes of their keys. A Map would hash each key once more, and, worse: as keys come and
 * go it is copied again and again, and its old copies, once one of them has grown old, keep all that was in them from being
 * collected young.
 *
 * ```text
 * places   [ – | youngest → … → oldest | – | … ]      by the hash's low bits; a power of two
 * ```
 *
 * The invariant: of those with one key the youngest comes first, and one that is removed refers to no other.
 */

/** What can be in a table: `hash` stays as it is while it is. */
export interface Flying<Self> {
  readonly hash: number;
  next: Self | null;
}

const FIRST_PLACES = 1024;

export class FlightTable<F extends Flying<F>> {
  #places = placesOf<F>(FIRST_PLACES);
  #count = 0;

  /** The first that may have a hash; others follow by `next`. */
  first(hash: number): F | null {
    const places = this.#places;
    return places[hash & (places.length - 1)]!;
  }

  add(flying: F): void {
    const places = this.#places;
    const place = flying.hash & (places.length - 1);
    flying.next = places[place]!;
    places[place] = flying;
    this.#count += 1;
    if (this.#count > places.length) this.#grow();
  }

  /** It is in the table. */
  remove(flying: F): void {
    const places = this.#places;
    const place = flying.hash & (places.length - 1);
    const first = places[place]!;
    if (first === flying) places[place] = flying.next;
    else {
      let before = first;
      while (before.next !== flying) before = before.next!;
      before.next = flying.next;
    }
    // Else one that has grown old would keep those behind it.
    flying.next = null;
    this.#count -= 1;
  }

  #grow(): void {
    const old = this.#places;
    const grown = placesOf<F>(old.length * 2);
    for (const first of old) {
      // From the last on, so that their order stays.
      const chain: F[] = [];
      for (let flying: F | null = first; flying !== null; flying = flying.next) chain.push(flying);
      for (const flying of chain.toReversed()) {
        const place = flying.hash & (grown.length - 1);
        flying.next = grown[place]!;
        grown[place] = flying;
      }
    }
    this.#places = grown;
  }
}

function placesOf<F>(places: number): (F | null)[] {
  return Array.from({ length: places }, () => null);
}
