/**
 * Values in the cache are given to many callers. What is made of plain objects and arrays is frozen to the bottom before the
 * first one sees it; what cannot be frozen (bytes, dates, maps) is never shared: every caller gets one of its own.
 */
import type { Codec } from "../lane/codec.js";

/** Freezes a decoded value where that makes it safe to share. False when it must not be shared. O(size). */
export function share(value: unknown, codec: Codec): boolean {
  if (typeof value !== "object" || value === null) return true;
  // JSON knows nothing but plain objects and arrays.
  if (codec.name !== "json" && !isPlain(value)) return false;
  freeze(value);
  return true;
}

/** The value itself when it may be shared, else a copy. O(size). */
export function copyOf(value: unknown, codec: Codec): unknown {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  const encoded = codec.encode(value);
  const bytes = typeof encoded === "string" ? Buffer.from(encoded) : Buffer.from(encoded);
  return codec.decode(bytes, 0, bytes.length, true);
}

function isPlain(value: object): boolean {
  const items = Array.isArray(value) ? (value as unknown[]) : Object.values(value);
  if (!Array.isArray(value) && Object.getPrototypeOf(value) !== Object.prototype) return false;
  return items.every((item) => typeof item !== "object" || item === null || isPlain(item));
}

function freeze(value: object): void {
  Object.freeze(value);
  if (Array.isArray(value)) {
    for (const item of value as unknown[]) if (typeof item === "object" && item !== null) freeze(item);
    return;
  }
  for (const name in value) {
    const item = (value as Record<string, unknown>)[name];
    if (typeof item === "object" && item !== null) freeze(item);
  }
}
