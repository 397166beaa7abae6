/**
 * Key → domain: the longest configured prefix, else the fallback.
 *
 * Invariant: the answer depends on the bytes of the key and the spec only, never on the order in which prefixes were
 * given. The prefixes form a trie whose edges live in one map, so a lookup stops at the first byte that no prefix has.
 *
 * ```text
 * edges     node << 8 | byte → node          node 0 is the empty prefix
 * terminal  node → index of the prefix that ends there, or PREFIX_NONE
 * ```
 */
import { createHash } from "node:crypto";

import { DOMAIN_NONE, PREFIX_NONE } from "../types.js";
import type { FallbackSpec, NativeRouter, RouterSpec } from "../types.js";
import { hash64, keyBytes, slotOf, splitBatch } from "./keys.js";

const SLOTS = 16_384;
const DOMAIN_SHIFT = 14;

/** Domain of a key that no prefix matches, from its bytes and slot. */
type Fallback = (bytes: Uint8Array, slot: number) => number;

/** @throws RangeError when the spec names an impossible domain, repeats a prefix or leaves a fallback without domains. */
export function createRouter(spec: RouterSpec): NativeRouter {
  return new Router(spec);
}

class Router implements NativeRouter {
  readonly #edges = new Map<number, number>();
  readonly #terminal = [PREFIX_NONE];
  readonly #domains: number[];
  readonly #fallback: Fallback;

  constructor(spec: RouterSpec) {
    this.#domains = spec.prefixes.map(({ domain }) => checkDomain(domain));
    this.#fallback = fallbackOf(spec.fallback);
    for (const [index, { prefix }] of spec.prefixes.entries()) this.#add(prefix, index);
  }

  #add(prefix: string, index: number): void {
    let node = 0;
    for (const byte of keyBytes(prefix)) {
      const edge = (node << 8) | byte;
      let next = this.#edges.get(edge);
      if (next === undefined) {
        next = this.#terminal.push(PREFIX_NONE) - 1;
        this.#edges.set(edge, next);
      }
      node = next;
    }
    if (this.#terminal[node] !== PREFIX_NONE) throw new RangeError(`prefix ${index} is a duplicate`);
    this.#terminal[node] = index;
  }

  #longest(bytes: Uint8Array): number {
    let node: number | undefined = 0;
    let best = this.#terminal[0];
    for (const byte of bytes) {
      node = this.#edges.get((node << 8) | byte);
      if (node === undefined) break;
      if (this.#terminal[node] !== PREFIX_NONE) best = this.#terminal[node];
    }
    return best;
  }

  #word(bytes: Uint8Array, prefix: number): number {
    const slot = slotOf(bytes);
    const domain = prefix === PREFIX_NONE ? this.#fallback(bytes, slot) : this.#domains[prefix];
    return slot | (domain << DOMAIN_SHIFT);
  }

  route(key: string | Uint8Array): number {
    const bytes = keyBytes(key);
    return this.#word(bytes, this.#longest(bytes));
  }

  matched(key: string | Uint8Array): number {
    return this.#longest(keyBytes(key));
  }

  routeBatch(text: string, lengths: Int32Array, count: number, out: Int32Array): void {
    for (const [i, key] of splitBatch(text, lengths, count, out.length >> 1).entries()) {
      const bytes = keyBytes(key);
      const prefix = this.#longest(bytes);
      out[2 * i] = this.#word(bytes, prefix);
      out[2 * i + 1] = prefix;
    }
  }
}

function checkDomain(domain: number): number {
  if (Number.isInteger(domain) && domain >= 0 && domain < DOMAIN_NONE) return domain;
  throw new RangeError(`domain ${domain} is not within 0..${DOMAIN_NONE - 1}`);
}

function checkDomains(domains: number[]): number[] {
  if (domains.length === 0) throw new RangeError("the fallback lists no domain");
  return domains.map(checkDomain);
}

function fallbackOf(spec: FallbackSpec): Fallback {
  switch (spec.kind) {
    case "reject":
      return () => DOMAIN_NONE;
    case "domain": {
      const domain = checkDomain(spec.domain);
      return () => domain;
    }
    case "hash": {
      const table = rendezvous(checkDomains(spec.domains), spec.names);
      return (_bytes, slot) => table[slot];
    }
    case "md5-modulo": {
      const domains = checkDomains(spec.domains);
      return (bytes) => domains[md5Modulo(bytes, domains.length)];
    }
  }
}

/**
 * Slot → domain by highest random weight (Thaler and Ravishankar, 1998): each slot goes to the name that scores highest
 * with it, so a further name takes slots from the others and moves none between them.
 */
function rendezvous(domains: number[], names: string[]): Uint16Array {
  if (names.length !== domains.length) throw new RangeError("the fallback needs one name for each domain");
  const table = new Uint16Array(SLOTS);
  const best = new BigUint64Array(SLOTS);
  for (const [index, name] of names.entries()) {
    const message = Buffer.from(`${name}\0..`);
    for (let slot = 0; slot < SLOTS; slot++) {
      message.writeUInt16LE(slot, message.length - 2);
      const score = hash64(message);
      if (index > 0 && score <= best[slot]) continue;
      best[slot] = score;
      table[slot] = domains[index];
    }
  }
  return table;
}

/** MD5 of the bytes as a big-endian integer, modulo `count`. */
function md5Modulo(bytes: Uint8Array, count: number): number {
  const digest = createHash("md5").update(bytes).digest();
  let rest = 0;
  for (let at = 0; at < digest.length; at += 4) rest = (rest * 0x1_0000_0000 + digest.readUInt32BE(at)) % count;
  return rest;
}
