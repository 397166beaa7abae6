/**
 * Keys of the route suite with the answers that must come back, computed here bit by bit from the definitions: CRC16/XMODEM
 * of the hash tag or the whole key, modulo 16,384, and the longest prefix by trying each. Slow, independent of everything
 * under test.
 */
import type { RouterSpec } from "#dist/native/types.js";
import { numberedPrefixes } from "./keys.js";

/** Keys in a pass: small enough to stay in the processor's cache, so that the code is measured and not the memory. */
export const KEYS = 4096;

/** Keys, a router for their prefixes and the answers. */
export interface RouteKeys {
  readonly keys: readonly string[];
  readonly spec: RouterSpec;
  /** Slot of key i. */
  readonly slots: Int32Array;
  /** Words 2i and 2i + 1: `slot | domain << 14` and the prefix's index, as `routeBatch` writes them. */
  readonly words: Int32Array;
}

/** CRC16/XMODEM: polynomial 0x1021, initial value 0, most significant bit first. */
export function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : crc << 1;
  }
  return crc;
}

/** Slot of a key: the bytes between the first `{` and the next `}` when there are any, else the whole key. */
export function slotByDefinition(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  return crc16(Buffer.from(close > open + 1 ? key.slice(open + 1, close) : key)) % 16_384;
}

/** 25 bytes; every eighth key has a hash tag, as keys of frequency counters do. */
function routeKey(prefix: string, i: number): string {
  if (i % 8 === 0) return `${prefix}{user_${String(i).padStart(10, "0")}}:c1`;
  return `${prefix}user_${String(i).padStart(15, "0")}`;
}

/** `KEYS` keys over `count` prefixes that belong to three domains. */
export function routeKeys(count: number): RouteKeys {
  const names = numberedPrefixes(count);
  const prefixes = names.map((prefix, i) => ({ prefix, domain: i % 3 }));
  const keys = Array.from({ length: KEYS }, (_, i) =>
    Buffer.from(routeKey(names[i % count], i), "latin1").toString("latin1"),
  );
  const slots = Int32Array.from(keys, slotByDefinition);
  const words = new Int32Array(KEYS * 2);
  for (let i = 0; i < KEYS; i += 1) {
    const matched = prefixes.findIndex(({ prefix }) => keys[i].startsWith(prefix));
    words[i * 2] = slots[i] | (prefixes[matched].domain << 14);
    words[i * 2 + 1] = matched;
  }
  return { keys, spec: { prefixes, fallback: { kind: "reject" } }, slots, words };
}
