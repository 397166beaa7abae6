/** A flight of this thread's callers (`single-flight.ts`): each waits by a promise of its own, and none but it is made for them. */
import type { Settle } from "../lane/op.js";
import type { Flight, SingleFlight } from "./single-flight.js";

let grabbed: Settle = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Settle): void => {
  grabbed = resolve;
};

/** Whose flights they are. */
export interface CallersCache {
  /** Loads the value of the flight's key. */
  depart(flight: Callers, timeoutMs: number): void;
  /** What one more caller gets of a loaded value. */
  copy(value: unknown): unknown;
}

export class Callers implements Flight<Callers> {
  readonly key: string;
  hash = 0;
  next: Callers | null = null;
  ticket: number | null = null;
  claim = -1;
  claimed = 0;
  readonly #cache: CallersCache;
  readonly #first: Settle;
  #others: Settle[] | null = null;

  constructor(cache: CallersCache, key: string, first: Settle) {
    this.#cache = cache;
    this.key = key;
    this.#first = first;
  }

  depart(timeoutMs: number): void {
    this.#cache.depart(this, timeoutMs);
  }

  join(other: Callers): void {
    this.#others ??= [];
    this.#others.push(other.#first);
  }

  land(value: unknown): void {
    this.#first(value);
    if (this.#others !== null) for (const settle of this.#others) settle(copied(value, this.#cache));
  }
}

/** The value of a key that is not cached, by the load that is under way or by one of its own. */
export function fly(
  flights: SingleFlight<Callers>,
  cache: CallersCache,
  key: string,
  timeoutMs: number,
): Promise<unknown> {
  const promise = new Promise<unknown>(executor);
  flights.take(new Callers(cache, key, grabbed), timeoutMs);
  return promise;
}

/** A copy of what was loaded; errors are passed on. */
export function copied(value: unknown, from: { copy(value: unknown): unknown }): unknown {
  if (value instanceof Promise) return value;
  try {
    return from.copy(value);
  } catch (error) {
    return Promise.reject(error as Error);
  }
}
