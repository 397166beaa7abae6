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

/** Loads a value within `timeoutMs`, and notes its ticket in `flight` before it asks for it. */
export type LoadWithin = (timeoutMs: number, flight: Flight) => Promise<unknown>;

/** One load under way, as the callers of this thread wait for it. */
export class Flight {
  /** The load's ticket; null as long as another thread loads, or nobody does yet. */
  ticket: number | null = null;
  readonly #value: Promise<unknown>;
  #waiting = 0;

  constructor(fly: (flight: Flight) => Promise<unknown>) {
    this.#value = fly(this);
  }

  /** The value for one caller more. The last of them gets what was loaded, the others what `copy` makes of it. */
  join(copy: (value: unknown) => unknown): Promise<unknown> {
    this.#waiting += 1;
    return this.#value.then((value) => {
      this.#waiting -= 1;
      return this.#waiting === 0 ? value : copy(value);
    });
  }

  /** Calls `landed` when it is over, whatever came of it. */
  end(landed: () => void): void {
    this.#value.then(landed, landed);
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

  /** Begins a flight for `key`: by `load` if this caller is elected, else as `look` finds it once the elected one is done. */
  run(key: string, look: () => unknown, load: LoadWithin): Flight {
    const begun = new Flight((flight) => this.#fly(key, look, load, flight));
    this.#flying.set(key, begun);
    begun.end(() => {
      if (this.#flying.get(key) === begun) this.#flying.delete(key);
    });
    return begun;
  }

  async #fly(key: string, look: () => unknown, load: LoadWithin, flight: Flight): Promise<unknown> {
    const { session, words } = this.#region;
    const end = performance.now() + this.#deadlineMs;
    for (let left = this.#deadlineMs; left >= 1; left = Math.floor(end - performance.now())) {
      const kind = this.#region.ended ? CacheClaim.CROWDED : session.claim(key, this.#deadlineMs, claim);
      const [index, value] = claim as unknown as [number, number];
      if (kind === CacheClaim.CROWDED) return load(left, flight);
      if (kind === CacheClaim.ELECTED) {
        // Between the miss and the claim another thread may have loaded it.
        const found = look();
        try {
          return found === undefined ? await load(left, flight) : found;
        } finally {
          const ours = !this.#region.ended && session.release(index, value);
          if (ours) Atomics.notify(words, session.base + index);
        }
      }
      const wait = Atomics.waitAsync(words, session.base + index, value, Math.min(left, LOOK_MS));
      if (wait.async) await wait.value;
      const found = look();
      if (found !== undefined) return found;
    }
    const message = "GET: another thread did not load the key before the deadline";
    const context = { command: "GET", domain: this.#domain, outcome: "not-sent" } as const;
    throw new KeylaneError("KEYLANE_ERR_TIMEOUT", message, context);
  }
}
