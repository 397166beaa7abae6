/**
 * Single flight: of all callers in the process that miss a key, one loads it. In a thread all wait for that one load; across
 * threads a claim word in the region elects the loader, and the others wait on it with `Atomics.waitAsync`, then look
 * again. A loader that fails tells its own thread's callers, caches nothing, and frees the others to try; one whose thread died
 * is noticed at the next look. Nobody waits past the deadline, and nobody is given a value that was asked for before the last
 * invalidation of its key: a flight that one overtook is joined no more.
 */
import { KeylaneError } from "../errors.js";
import { CLAIM_HASH, CLAIM_WORDS, CacheClaim } from "../native/cache-types.js";
import type { SharedRegion } from "../shared/region.js";
import { FlightTable } from "./flight-table.js";
import type { Flying } from "./flight-table.js";

/** Longest wait for another thread before its claim is looked at again, in milliseconds. */
const LOOK_MS = 50;

const claim = new Int32Array(CLAIM_WORDS);

/** A caller that missed a key, and all others of this thread that wait for the same load. */
export interface Flight<Self> extends Flying<Self> {
  readonly key: string;
  hash: number;
  /** The load's ticket; null as long as another thread loads. */
  ticket: number | null;
  /** The claim's word, -1 without a claim, and its value. */
  claim: number;
  claimed: number;
  /** Asks for the value within `timeoutMs`; then `SingleFlight.landed` is called, once. */
  depart(timeoutMs: number): void;
  /** Tells all that wait; errors are rejected promises. */
  land(value: unknown): void;
  /** Waits with this one. */
  join(other: Self): void;
}

export class SingleFlight<F extends Flight<F>> {
  readonly #region: SharedRegion;
  /** The cached value of a key; undefined when there is none. */
  readonly #look: (key: string) => unknown;
  readonly #domain: string;
  /** A claim is taken from who has not loaded within so many milliseconds. */
  readonly #patienceMs: number;
  readonly #flights = new FlightTable<F>();

  constructor(region: SharedRegion, look: (key: string) => unknown, domain: string, patienceMs: number) {
    this.#region = region;
    this.#look = look;
    this.#domain = domain;
    this.#patienceMs = patienceMs;
  }

  /** Has a flight land within `timeoutMs`: by a load of its own if it is elected, else with another, or by what that has left. */
  take(flight: F, timeoutMs: number): void {
    const kind = this.#claim(flight.key);
    flight.hash = claim[CLAIM_HASH]!;
    if (kind === CacheClaim.HELD) {
      this.#flights.add(flight);
      this.#lookOrLoad(flight, timeoutMs);
      return;
    }
    const flying = this.#flying(flight);
    if (flying !== null) {
      if (kind === CacheClaim.ELECTED) this.#release(claim[0]!, claim[1]!);
      flying.join(flight);
      return;
    }
    this.#flights.add(flight);
    if (kind === CacheClaim.WAIT) void this.#follow(flight, timeoutMs, claim[0]!, claim[1]!);
    else this.#load(flight, kind, timeoutMs);
  }

  /** A load is over. */
  landed(flight: F, value: unknown): void {
    this.#flights.remove(flight);
    const { claim: index, claimed } = flight;
    if (index !== -1) {
      // A load that fails because its thread ends frees the others when that is over: what the thread fed takes loads with it.
      if (value instanceof Promise) {
        const release = (): void => this.#release(index, claimed);
        value.then(release, release);
      } else this.#release(index, claimed);
    }
    flight.land(value);
  }

  /** The youngest flight of the same key, unless an invalidation has overtaken it. */
  #flying({ hash, key }: F): F | null {
    for (let flying = this.#flights.first(hash); flying !== null; flying = flying.next) {
      if (flying.hash === hash && flying.key === key) return this.#isCurrent(flying) ? flying : null;
    }
    return null;
  }

  #isCurrent({ ticket, key }: F): boolean {
    return ticket === null || this.#region.ended || this.#region.session.ticket(key) === ticket;
  }

  /** What the last claim allows. */
  #load(flight: F, kind: number, timeoutMs: number): void {
    flight.ticket = claim[2]!;
    if (kind === CacheClaim.ELECTED) {
      flight.claim = claim[0]!;
      flight.claimed = claim[1]!;
    }
    flight.depart(timeoutMs);
  }

  /** Another thread has stored the key; if it is gone again it is loaded without a claim. */
  #lookOrLoad(flight: F, timeoutMs: number): void {
    this.#wake(claim[0]!);
    const found = this.#look(flight.key);
    if (found !== undefined) {
      this.landed(flight, found);
      return;
    }
    claim[2] = this.#region.session.beginLoad(flight.key);
    this.#load(flight, CacheClaim.CROWDED, timeoutMs);
  }

  #claim(key: string): number {
    if (!this.#region.ended) return this.#region.session.claim(key, this.#patienceMs, claim);
    claim[2] = 0;
    claim[CLAIM_HASH] = 0;
    return CacheClaim.CROWDED;
  }

  #release(index: number, value: number): void {
    const { session, ended } = this.#region;
    if (!ended && session.release(index, value)) this.#wake(index);
  }

  #wake(index: number): void {
    const { session, words } = this.#region;
    Atomics.notify(words, session.base + index);
  }

  /** Waits for another thread's load, and loads itself when nothing came of that. */
  async #follow(flight: F, timeoutMs: number, index: number, value: number): Promise<void> {
    const { session, words } = this.#region;
    const { key } = flight;
    const end = performance.now() + timeoutMs;
    for (let left = timeoutMs; left >= 1; left = Math.floor(end - performance.now())) {
      const wait = Atomics.waitAsync(words, session.base + index, value, Math.min(left, LOOK_MS));
      if (wait.async) await wait.value;
      const found = this.#look(key);
      if (found !== undefined) {
        this.landed(flight, found);
        return;
      }
      const kind = this.#claim(key);
      if (kind === CacheClaim.HELD) this.#wake(claim[0]!);
      else if (kind !== CacheClaim.WAIT) {
        this.#load(flight, kind, left);
        return;
      }
      index = claim[0]!;
      value = claim[1]!;
    }
    const message = "GET: another thread did not load the key before the deadline";
    const context = { command: "GET", domain: this.#domain, outcome: "not-sent" } as const;
    this.landed(flight, Promise.reject(new KeylaneError("KEYLANE_ERR_TIMEOUT", message, context)));
  }
}
