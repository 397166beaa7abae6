/** Values in the cache are given to many callers: objects are frozen to the bottom before the first one sees them. */

/** Freezes a decoded value (plain objects, arrays, maps stay as decoded) and returns it. O(size). */
export function freeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const item of Object.values(value)) freeze(item);
  return value;
}
