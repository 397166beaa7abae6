/**
 * The grammar of what stands on a RESP line: counts, integers, doubles. Each function judges the bytes of `buf` from
 * `start` up to `end`, and none of them guesses: what is not a number of its kind is refused.
 */

/** Answer of `countOf` for bytes that are no count. */
const INVALID = -1;
/** Answer of `countOf` for `-1`, by which RESP2 says null. */
export const MINUS_ONE = -2;
/** Answer of `countOf` for `?`, by which RESP3 announces a stream. */
export const STREAMED = -3;

const PLUS = 0x2b;
const MINUS = 0x2d;
const QUESTION = 0x3f;
const ZERO = 0x30;
const MOST = 0x7fff_ffff;

/** A declared length: decimal digits up to 2^31 - 1, or one of the special forms; at most `MOST`. */
export function countOf(buf: Uint8Array, start: number, end: number): number {
  if (end === start + 1 && buf[start] === QUESTION) return STREAMED;
  if (end === start + 2 && buf[start] === MINUS && buf[start + 1] === ZERO + 1) return MINUS_ONE;
  if (!isDigits(buf, start, end)) return INVALID;
  const value = magnitude(buf, start, end);
  return value > MOST ? INVALID : value;
}

/** Whether the bytes are an integer of any size: a sign or none, and digits. */
export function isInteger(buf: Uint8Array, start: number, end: number): boolean {
  return isDigits(buf, behindSign(buf, start, end), end);
}

/** Value of an integer, exact up to 2^53 and of the right order above. */
export function integerOf(buf: Uint8Array, start: number, end: number): number {
  const value = magnitude(buf, behindSign(buf, start, end), end);
  return buf[start] === MINUS ? -value : value;
}

/** Whether the bytes are `inf` or `nan`, signed or not, or digits with an optional fraction and exponent. */
export function isDouble(buf: Uint8Array, start: number, end: number): boolean {
  const text = Buffer.from(buf.buffer, buf.byteOffset + start, end - start).toString("latin1");
  return /^[+-]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)$/.test(text);
}

function behindSign(buf: Uint8Array, start: number, end: number): number {
  return start < end && (buf[start] === MINUS || buf[start] === PLUS) ? start + 1 : start;
}

function isDigits(buf: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (buf[at] < ZERO || buf[at] > ZERO + 9) return false;
  return end > start;
}

function magnitude(buf: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at++) value = value * 10 + (buf[at] - ZERO);
  return value;
}
