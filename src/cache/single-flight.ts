/**
 * Single flight: of all callers in the process that miss a key, one loads it. In a thread all wait for that one load; across
 * threads a claim word in the region elects the loader, and the others wait on it with `Atomics.waitAsync`, then look
 * again. A loader that fails tells its own thread's callers, caches nothing, and frees the others to try; one whose thread died
 * is noticed at the next look. Nobody waits past the deadline, and nobody is given a value that was asked for before the last
 * invalidation of its key: a flight that one overtook is joined no more.
 *
 * A miss costs one promise, the caller's own: the load settles all of them by one function.
 */
import { KeylaneError } from "../errors.js";
import type { Settle } from "../lane/op.js";
import { CLAIM_WORDS, CacheClaim } from "../native/cache-types.js";
import type { SharedRegion } from "../shared/region.js";

/** Longest wait for another thread before its claim is looked at again, in milliseconds. */
const LOOK_MS = 50;

const claim = new Int32Array(CLAIM_WORDS);

let grabbed: Settle = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Settle): void => {
  grabbed = resolve;
};

/** What the flights of a cache call. */
export interface Loader {
  /** The cached value; undefined when there is none. */
  look(key: string): unknown;
  /** Asks for the value within `timeoutMs` and settles by it (errors as rejected promises); `ticket` is the load's. */
  load(key: string, timeoutMs: number, ticket: number, settle: Settle): void;
  /** What one more caller gets of a loaded value. */
  copy(value: unknown): unknown;
}

/** One load under way, and the callers of this thread that wait for it. */
class Flight {
  /** The load's ticket; null as long as another thread loads. */
  ticket: number | null = null;
  /** The claim's word, -1 without a claim, and its value. */
  index = -1;
  value = 0;
  readonly #first: Settle;
  #others: Settle[] | null = null;

  constructor(first: Settle) {
    this.#first = first;
  }

  add(settle: Settle): void {
    this.#others ??= [];
    this.#others.push(settle);
  }

  /** Gives what was loaded to the first caller, and to the others what `copy` makes of it. */
  land(value: unknown, loader: Loader): void {
    this.#first(value);
    if (this.#others === null) return;
    for (const settle of this.#others) settle(value instanceof Promise ? value : copied(value, loader));
  }
}

function copied(value: unknown, loader: Loader): unknown {
  try {
    return loader.copy(value);
  } catch (error) {
    return Promise.reject(error as Error);
  }
}

export class SingleFlight {
  readonly #region: SharedRegion;
  readonly #loader: Loader;
  readonly #domain: string;
  readonly #deadlineMs: number;
  readonly #flying = new Map<string, Flight>();

  /** `deadlineMs` bounds a whole call: waiting and loading. */
  constructor(region: SharedRegion, loader: Loader, domain: string, deadlineMs: number) {
    this.#region = region;
    this.#loader = loader;
    this.#domain = domain;
    this.#deadlineMs = deadlineMs;
  }

  /** The value of a key that is not cached, by the load that is under way or by one of its own. */
  get(key: string): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    this.take(key, this.#deadlineMs, grabbed);
    return promise;
  }

  /** As `get`, within `timeoutMs` where it is the first to ask, for a caller that is no promise. */
  take(key: string, timeoutMs: number, settle: Settle): void {
    const flying = this.#flying.get(key);
    if (flying !== undefined && this.#isCurrent(key, flying)) flying.add(settle);
    else this.#begin(key, new Flight(settle), timeoutMs);
  }

  /** Whether no invalidation has overtaken a flight. */
  #isCurrent(key: string, { ticket }: Flight): boolean {
    return ticket === null || this.#region.ended || this.#region.session.ticket(key) === ticket;
  }

  /** A load if this caller is elected, else what is found once the elected one is done. */
  #begin(key: string, flight: Flight, timeoutMs: number): void {
    this.#flying.set(key, flight);
    const kind = this.#claim(key);
    if (kind === CacheClaim.WAIT) void this.#follow(key, flight, timeoutMs, claim[0]!, claim[1]!);
    else if (kind === CacheClaim.HELD) this.#lookOrLoad(key, flight, timeoutMs);
    else this.#load(key, flight, kind, timeoutMs);
  }

  /** What the last claim allows. */
  #load(key: string, flight: Flight, kind: number, timeoutMs: number): void {
    flight.ticket = claim[2]!;
    if (kind === CacheClaim.ELECTED) {
      flight.index = claim[0]!;
      flight.value = claim[1]!;
    }
    this.#loader.load(key, timeoutMs, flight.ticket, (value) => this.#land(key, flight, value));
  }

  /** Another thread has stored the key; if it is gone again it is loaded without a claim. */
  #lookOrLoad(key: string, flight: Flight, timeoutMs: number): void {
    this.#wake(claim[0]!);
    const found = this.#loader.look(key);
    if (found !== undefined) {
      this.#land(key, flight, found);
      return;
    }
    claim[2] = this.#region.session.beginLoad(key);
    this.#load(key, flight, CacheClaim.CROWDED, timeoutMs);
  }

  #land(key: string, flight: Flight, value: unknown): void {
    if (this.#flying.get(key) === flight) this.#flying.delete(key);
    if (flight.index !== -1) {
      // A load that fails because its thread ends frees the others when that is over: what the thread fed takes loads with it.
      const release = (): void => this.#release(flight);
      if (value instanceof Promise) value.then(release, release);
      else release();
    }
    flight.land(value, this.#loader);
  }

  #claim(key: string): number {
    if (!this.#region.ended) return this.#region.session.claim(key, this.#deadlineMs, claim);
    claim[2] = 0;
    return CacheClaim.CROWDED;
  }

  #release({ index, value }: Flight): void {
    const { session, ended } = this.#region;
    if (!ended && session.release(index, value)) this.#wake(index);
  }

  #wake(index: number): void {
    const { session, words } = this.#region;
    Atomics.notify(words, session.base + index);
  }

  /** Waits for another thread's load, and loads itself when nothing came of that. */
  async #follow(key: string, flight: Flight, timeoutMs: number, index: number, value: number): Promise<void> {
    const { session, words } = this.#region;
    const end = performance.now() + timeoutMs;
    for (let left = timeoutMs; left >= 1; left = Math.floor(end - performance.now())) {
      const wait = Atomics.waitAsync(words, session.base + index, value, Math.min(left, LOOK_MS));
      if (wait.async) await wait.value;
      const found = this.#loader.look(key);
      if (found !== undefined) {
        this.#land(key, flight, found);
        return;
      }
      const kind = this.#claim(key);
      if (kind === CacheClaim.HELD) this.#wake(claim[0]!);
      else if (kind !== CacheClaim.WAIT) {
        this.#load(key, flight, kind, left);
        return;
      }
      index = claim[0]!;
      value = claim[1]!;
    }
    const message = "GET: another thread did not load the key before the deadline";
    const context = { command: "GET", domain: this.#domain, outcome: "not-sent" } as const;
    this.#land(key, flight, Promise.reject(new KeylaneError("KEYLANE_ERR_TIMEOUT", message, context)));
  }
}
