/**
 * Single flight: of all callers in the process that miss a key, one loads it. In a thread they share the loader's promise;
 * across threads a claim word in the region elects the loader, and the others wait on it with `Atomics.waitAsync`, then look
 * again. A loader that fails tells its own thread's callers, caches nothing, and frees the others to try; one whose thread died
 * is noticed at the next look. Nobody waits past the deadline.
 */
import { KeylaneError } from "../errors.js";
import { CacheClaim } from "../native/cache-types.js";
import type { SharedRegion } from "../shared/region.js";

/** Longest wait for another thread before its claim is looked at again, in milliseconds. */
const LOOK_MS = 50;

const claim = new Int32Array(2);

/** Loads a value within `timeoutMs`. */
export type LoadWithin = (timeoutMs: number) => Promise<unknown>;

export class SingleFlight {
  readonly #region: SharedRegion;
  readonly #domain: string;
  readonly #deadlineMs: number;
  readonly #flying = new Map<string, Promise<unknown>>();

  /** `deadlineMs` bounds a whole call: waiting and loading. */
  constructor(region: SharedRegion, domain: string, deadlineMs: number) {
    this.#region = region;
    this.#domain = domain;
    this.#deadlineMs = deadlineMs;
  }

  /** The load of `key` that this thread has under way. */
  joined(key: string): Promise<unknown> | undefined {
    return this.#flying.get(key);
  }

  /** The value of `key`: by `load` if this caller is elected, else as `look` finds it once the elected one is done. */
  run(key: string, look: () => unknown, load: LoadWithin): Promise<unknown> {
    const flight = this.#fly(key, look, load);
    this.#flying.set(key, flight);
    const landed = (): void => {
      this.#flying.delete(key);
    };
    flight.then(landed, landed);
    return flight;
  }

  async #fly(key: string, look: () => unknown, load: LoadWithin): Promise<unknown> {
    const { session, words } = this.#region;
    const end = performance.now() + this.#deadlineMs;
    for (let left = this.#deadlineMs; left >= 1; left = Math.floor(end - performance.now())) {
      const kind = this.#region.ended ? CacheClaim.CROWDED : session.claim(key, this.#deadlineMs, claim);
      const [index, value] = claim as unknown as [number, number];
      if (kind === CacheClaim.CROWDED) return load(left);
      if (kind === CacheClaim.ELECTED) {
        // Between the miss and the claim another thread may have loaded it.
        const found = look();
        try {
          return found === undefined ? await load(left) : found;
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
