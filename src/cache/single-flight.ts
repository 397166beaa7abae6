/**
 * Single flight: of all callers in the process that miss a key, one loads it. In a thread they share the loader's promise;
 * across threads a claim word in the region elects the loader, and the others wait on it with `Atomics.waitAsync`, then look
 * again. A loader that fails tells its own thread's callers, caches nothing, and frees the others to try.
 */
import { CacheClaim } from "../native/cache-types.js";
import type { SharedRegion } from "../shared/region.js";

const claim = new Int32Array(2);

export class SingleFlight {
  readonly #region: SharedRegion;
  readonly #patienceMs: number;
  readonly #flying = new Map<string, Promise<unknown>>();

  /** A loader that takes longer than `patienceMs` is superseded. */
  constructor(region: SharedRegion, patienceMs: number) {
    this.#region = region;
    this.#patienceMs = patienceMs;
  }

  /** The value of `key`: by `load` if this caller is elected, else as `look` finds it once the elected one is done. */
  run(key: string, look: () => unknown, load: () => Promise<unknown>): Promise<unknown> {
    const flying = this.#flying.get(key);
    if (flying !== undefined) return flying;
    const flight = this.#fly(key, look, load);
    this.#flying.set(key, flight);
    const landed = (): void => {
      this.#flying.delete(key);
    };
    flight.then(landed, landed);
    return flight;
  }

  async #fly(key: string, look: () => unknown, load: () => Promise<unknown>): Promise<unknown> {
    const { session, words } = this.#region;
    const end = performance.now() + this.#patienceMs;
    for (;;) {
      const left = end - performance.now();
      const kind = left <= 0 ? CacheClaim.CROWDED : session.claim(key, this.#patienceMs, claim);
      const [index, value] = claim as unknown as [number, number];
      if (kind === CacheClaim.CROWDED) return load();
      if (kind === CacheClaim.ELECTED) {
        // Between the miss and the claim another thread may have loaded it.
        const found = look();
        try {
          return found === undefined ? await load() : found;
        } finally {
          if (session.release(index, value)) Atomics.notify(words, session.base + index);
        }
      }
      const wait = Atomics.waitAsync(words, session.base + index, value, left);
      if (wait.async) await wait.value;
      const found = look();
      if (found !== undefined) return found;
    }
  }
}
