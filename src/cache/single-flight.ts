/**
 * Single flight: of all callers in the process that miss a key, one loads it. In a thread they share the loader's promise;
 * across threads a claim word in the region elects the loader, and the others wait on it with `Atomics.waitAsync`, then look
 * again. A loader that fails tells its own thread's callers, caches nothing, and frees the others to try; one whose thread died
 * is noticed at the next look. Nobody waits past the deadline, and nobody is given a value that was asked for before the last
 * invalidation of its key: a flight that one overtook is joined no more.
 */
import { KeylaneError } from "../errors.js";
import { CacheClaim } from "../native/cache-types.js";
import type { SharedRegion } from "../shared/region.js";

/** Longest wait for another thread before its claim is looked at again, in milliseconds. */
const LOOK_MS = 50;

const claim = new Int32Array(2);

/** What the flights of a cache call. */
export interface Loader {
  /** The value when another thread has stored it meanwhile; undefined when not. */
  look(key: string): unknown;
  /** Asks for the value within `timeoutMs`; notes the load's ticket in `flight` before. */
  load(key: string, timeoutMs: number, flight: Flight): Promise<unknown>;
}

/** One load under way, as the callers of this thread wait for it. */
export class Flight {
  /** The load's ticket; null as long as another thread loads, or nobody does yet. */
  ticket: number | null = null;
  value!: Promise<unknown>;
  #waiting = 0;

  /** The value for one caller more. The last of them gets what was loaded, the others what `copy` makes of it. */
  join(copy: (value: unknown) => unknown): Promise<unknown> {
    this.#waiting += 1;
    return this.value.then((value) => {
      this.#waiting -= 1;
      return this.#waiting === 0 ? value : copy(value);
    });
  }
}

export class SingleFlight {
  readonly #region: SharedRegion;
  readonly #domain: string;
  readonly #deadlineMs: number;
  readonly #flying = new Map<string, Flight>();

  /** `deadlineMs` bounds a whole call: waiting and loading. */
  constructor(region: SharedRegion, domain: string, deadlineMs: number) {
    this.#region = region;
    this.#domain = domain;
    this.#deadlineMs = deadlineMs;
  }

  /** The load of `key` that this thread has under way, unless an invalidation overtook it. */
  joined(key: string): Flight | undefined {
    const flight = this.#flying.get(key);
    if (flight === undefined || flight.ticket === null || this.#region.ended) return flight;
    return this.#region.session.ticket(key) === flight.ticket ? flight : undefined;
  }

  /** Begins a flight for `key`: a load if this caller is elected, else what is found once the elected one is done. */
  run(key: string, loader: Loader): Flight {
    const flight = new Flight();
    const kind = this.#claim(key);
    const [index, value] = claim as unknown as [number, number];
    if (kind === CacheClaim.ELECTED) flight.value = lead(key, loader, this.#deadlineMs, flight);
    else if (kind === CacheClaim.CROWDED) flight.value = loader.load(key, this.#deadlineMs, flight);
    else flight.value = this.#follow(key, loader, flight, index, value);
    this.#flying.set(key, flight);
    const landed = (): void => {
      if (this.#flying.get(key) === flight) this.#flying.delete(key);
      if (kind === CacheClaim.ELECTED) this.#release(index, value);
    };
    flight.value.then(landed, landed);
    return flight;
  }

  #claim(key: string): number {
    return this.#region.ended ? CacheClaim.CROWDED : this.#region.session.claim(key, this.#deadlineMs, claim);
  }

  #release(index: number, value: number): void {
    const { session, words, ended } = this.#region;
    if (!ended && session.release(index, value)) Atomics.notify(words, session.base + index);
  }

  /** Waits for another thread's load, and loads itself when nothing came of that. */
  async #follow(key: string, loader: Loader, flight: Flight, index: number, value: number): Promise<unknown> {
    const { session, words } = this.#region;
    const end = performance.now() + this.#deadlineMs;
    for (let left = this.#deadlineMs; left >= 1; left = Math.floor(end - performance.now())) {
      const wait = Atomics.waitAsync(words, session.base + index, value, Math.min(left, LOOK_MS));
      if (wait.async) await wait.value;
      const found = loader.look(key);
      if (found !== undefined) return found;
      const kind = this.#claim(key);
      [index, value] = claim as unknown as [number, number];
      if (kind === CacheClaim.CROWDED) return loader.load(key, left, flight);
      if (kind !== CacheClaim.ELECTED) continue;
      try {
        return await lead(key, loader, left, flight);
      } finally {
        this.#release(index, value);
      }
    }
    const message = "GET: another thread did not load the key before the deadline";
    const context = { command: "GET", domain: this.#domain, outcome: "not-sent" } as const;
    throw new KeylaneError("KEYLANE_ERR_TIMEOUT", message, context);
  }
}

/** The elected caller's part. Between its miss and its claim another thread may have loaded the key. */
function lead(key: string, loader: Loader, timeoutMs: number, flight: Flight): Promise<unknown> {
  const found = loader.look(key);
  return found === undefined ? loader.load(key, timeoutMs, flight) : Promise.resolve(found);
}
