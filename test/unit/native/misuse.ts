/** Values that calls of the addon must refuse, and how a test says them past the compiler. */

/** A value the compiler would not let through. */
export const wrong = (value: unknown): never => value as never;

export const words = (...values: number[]): Int32Array => Int32Array.from(values);

/** Neither strings nor bytes. */
export const NOT_KEYS = [undefined, null, 1, true, 1n, Symbol("key"), {}, [], new ArrayBuffer(8), new Uint16Array(4)];

/** Neither a number of things nor an offset. */
export const NOT_COUNTS = [-1, 0.5, Number.NaN, 2 ** 32, Number.MAX_SAFE_INTEGER, Infinity, -Infinity];
