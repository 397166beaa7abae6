/**
 * Every user of a run, with how many of its ad requests were counted and acknowledged: a hash table on two typed arrays, so
 * that millions of users cost 8 bytes a place and no garbage.
 *
 * ```text
 * users   [ 32-bit user number | … ]
 * states  [ 0: the place is free, else 1 + acknowledged counts | … ]         power of two, linear probing, half full at most
 * ```
 */
import { mix32 } from "./random.js";

const FIRST_PLACES = 1024;

/** A set of 32-bit user numbers, each with a count. */
export class UserTable {
  #users = new Uint32Array(FIRST_PLACES);
  #states = new Uint32Array(FIRST_PLACES);
  #size = 0;

  /** Users held. */
  get size(): number {
    return this.#size;
  }

  /** Puts a user in, with a count of 0, unless it is in already. O(1) amortised. */
  add(user: number): void {
    const place = this.#placeOf(user);
    if (this.#states[place] !== 0) return;
    this.#users[place] = user;
    this.#states[place] = 1;
    this.#size += 1;
    if (this.#size * 2 > this.#users.length) this.#grow();
  }

  /** Adds 1 to the count of a user that is in. */
  acknowledge(user: number): void {
    this.#states[this.#placeOf(user)]! += 1;
  }

  /** The count of a user that is in. */
  acknowledged(user: number): number {
    return this.#states[this.#placeOf(user)]! - 1;
  }

  /** All counts back to 0. */
  reset(): void {
    for (const [place, state] of this.#states.entries()) if (state !== 0) this.#states[place] = 1;
  }

  /** All users in no particular order, up to `length` at a time. */
  *batches(length: number): Generator<number[]> {
    let batch: number[] = [];
    for (const [place, state] of this.#states.entries()) {
      if (state === 0) continue;
      batch.push(this.#users[place]!);
      if (batch.length < length) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0) yield batch;
  }

  /** Where a user is, or the free place where it belongs. */
  #placeOf(user: number): number {
    const mask = this.#users.length - 1;
    let place = mix32(user) & mask;
    while (this.#states[place] !== 0 && this.#users[place] !== user) place = (place + 1) & mask;
    return place;
  }

  #grow(): void {
    const [users, states] = [this.#users, this.#states];
    this.#users = new Uint32Array(users.length * 2);
    this.#states = new Uint32Array(users.length * 2);
    for (const [place, state] of states.entries()) {
      if (state === 0) continue;
      const moved = this.#placeOf(users[place]!);
      this.#users[moved] = users[place]!;
      this.#states[moved] = state;
    }
  }
}
