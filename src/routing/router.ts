/**
 * Key → domain. The longest configured prefix wins whatever the order; a key without one goes to the fallback.
 *
 * Strings take a walk over a dense automaton on UTF-16 units (one array read a unit, cost bound by the prefix's length);
 * where a prefix goes on beyond ASCII, and for byte keys and fallbacks, the native router decides on the UTF-8 bytes. Both
 * give the same answer for every key: a property test holds them together.
 */
import { native } from "../native/index.js";
import { DOMAIN_NONE, PREFIX_NONE } from "../native/types.js";
import type { FallbackSpec, NativeRouter } from "../native/types.js";
import type { Key } from "../types.js";

/** Returned by `Router.domain` for a key that no prefix matches and the fallback rejects. */
export const NO_DOMAIN = -1;

export interface RoutePrefix {
  readonly prefix: string;
  /** Index of the domain. */
  readonly domain: number;
}

const UNITS = 128;
const SLOT_BITS = 14;
const SLOT_MASK = (1 << SLOT_BITS) - 1;

export class Router {
  readonly #native: NativeRouter;
  readonly #prefixes: readonly RoutePrefix[];
  /** `#next[state * 128 + unit]` is the next state, 0 when none: no edge leads back to the root. */
  readonly #next: Int32Array;
  /** Domain + 1 where a prefix ends at this state. */
  readonly #accept: Int32Array;
  /** 1 where some prefix goes on with a unit beyond ASCII. */
  readonly #wide: Uint8Array;

  constructor(prefixes: readonly RoutePrefix[], fallback: FallbackSpec) {
    this.#prefixes = prefixes;
    this.#native = native.createRouter({ prefixes: prefixes.map((p) => ({ ...p })), fallback });
    const states = 1 + prefixes.reduce((sum, p) => sum + p.prefix.length, 0);
    this.#next = new Int32Array(states * UNITS);
    this.#accept = new Int32Array(states);
    this.#wide = new Uint8Array(states);
    let last = 0;
    for (const { prefix, domain } of prefixes) {
      let state = 0;
      let ascii = true;
      for (let i = 0; i < prefix.length && ascii; i += 1) {
        const unit = prefix.charCodeAt(i);
        ascii = unit < UNITS;
        if (!ascii) this.#wide[state] = 1;
        else state = this.#next[state * UNITS + unit] ||= last += 1;
      }
      if (ascii) this.#accept[state] = domain + 1;
    }
  }

  /** Index of the domain that owns `key`, or `NO_DOMAIN`. */
  domain(key: Key): number {
    if (typeof key !== "string") return this.#slowDomain(key);
    const next = this.#next;
    const accept = this.#accept;
    let state = 0;
    let found = accept[0]!;
    // Strings have many hidden classes, so their length is looked up, at some 5 ns: once.
    const { length } = key;
    for (let i = 0; i < length; i += 1) {
      const unit = key.charCodeAt(i);
      if (unit >= UNITS) {
        if (this.#wide[state] === 1) return this.#slowDomain(key);
        break;
      }
      state = next[(state << 7) | unit]!;
      if (state === 0) break;
      const here = accept[state]!;
      if (here !== 0) found = here;
    }
    return found === 0 ? this.#slowDomain(key) : found - 1;
  }

  /** Domain (or `NO_DOMAIN`), slot and matched prefix of a key. */
  route(key: Key): { domain: number; slot: number; matched: string | null } {
    const packed = this.#native.route(key);
    const index = this.#native.matched(key);
    return {
      domain: packed >> SLOT_BITS === DOMAIN_NONE ? NO_DOMAIN : packed >> SLOT_BITS,
      slot: packed & SLOT_MASK,
      matched: index === PREFIX_NONE ? null : this.#prefixes[index]!.prefix,
    };
  }

  #slowDomain(key: Key): number {
    const domain = this.#native.route(key) >> SLOT_BITS;
    return domain === DOMAIN_NONE ? NO_DOMAIN : domain;
  }
}
