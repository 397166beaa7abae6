/**
 * The rows of the reply in progress, and what of it is open: aggregates, attributes and streams whose children are still to
 * come. Invariant: a reply is whole exactly when a value ends and nothing is open; an attribute is no value, so it ends
 * without being a child of what surrounds it. Starts count from the reply's first byte.
 *
 * ```text
 * rows    kind | start | length            one group an item that makes a row, in pre-order
 * open    first word of a row | children still to come, or STREAMED        one pair a level of nesting
 * ```
 */
import { Kind, ROWS_BASE, ROW_WORDS, ScanStatus } from "../types.js";
import type { ScanLimits } from "../types.js";
import { STREAMED } from "./numbers.js";

/** What an item came to, next to `ScanStatus.MORE` and `ScanStatus.BAD`: another must follow, or the reply is whole. */
export const NEXT = 3;
export const WHOLE = 4;

/** Type bytes of the two items that make no row of their own: a piece of a streamed string, the end of what is streamed. */
export const PIECE = 0x3b;
export const END = 0x2e;

/** Type byte → kind of the row it makes, 0 for bytes that are no type. */
export const KINDS = new Int32Array(256);
for (const [type, kind] of [
  ["+", Kind.SIMPLE],
  ["-", Kind.ERROR],
  [":", Kind.INT],
  ["$", Kind.BULK],
  ["*", Kind.ARRAY],
  ["%", Kind.MAP],
  ["~", Kind.SET],
  [">", Kind.PUSH],
  ["#", Kind.BOOL],
  [",", Kind.DOUBLE],
  ["(", Kind.BIGNUM],
  ["!", Kind.BLOB_ERROR],
  ["=", Kind.VERBATIM],
  ["|", Kind.ATTRIBUTE],
  ["_", Kind.NULL],
] as const) {
  KINDS[type.charCodeAt(0)] = kind;
}

export class Nest {
  readonly #limits: ScanLimits;
  #rows = new Int32Array(ROW_WORDS * 64);
  readonly #open: number[] = [];
  /** An attribute is complete and what it annotates has not begun. */
  #annotated = false;
  /** Rows so far. */
  count = 0;

  constructor(limits: ScanLimits) {
    this.#limits = limits;
  }

  clear(): void {
    this.count = this.#open.length = 0;
    this.#annotated = false;
  }

  /** Copies the rows into a table that already holds `filled` of them, for a reply that begins at `base`. */
  deliver(table: Int32Array, filled: number, base: number): void {
    let to = ROWS_BASE + filled * ROW_WORDS;
    for (let at = 0; at < this.count * ROW_WORDS; at += ROW_WORDS) {
      table[to++] = this.#rows[at];
      table[to++] = this.#rows[at + 1] + base;
      table[to++] = this.#rows[at + 2];
    }
  }

  /** Whether an item of this type may come now. Pushes stand between replies, never inside one. */
  expects(type: number): boolean {
    const depth = this.#open.length;
    if (depth > 0 && this.#rows[this.#open[depth - 2]] === Kind.STREAM) return type === PIECE;
    if (type === END) return depth > 0 && this.#open[depth - 1] === STREAMED && !this.#annotated;
    if (KINDS[type] === Kind.PUSH) return depth === 0 && !this.#annotated;
    return KINDS[type] !== 0;
  }

  /** A row without children, and with it perhaps the last child of what is open. */
  value(kind: number, start: number, length: number): number {
    if (this.count >= this.#limits.maxRows) return ScanStatus.BAD;
    this.#annotated = false;
    this.#push(kind, start, length);
    return this.#close();
  }

  /** A row that so many children follow, or children until an end when it is `STREAMED`; other negative counts are bad. */
  aggregate(kind: number, start: number, children: number): number {
    const streamed = children === STREAMED && kind !== Kind.PUSH && kind !== Kind.ATTRIBUTE;
    if (children < 0 && !streamed) return ScanStatus.BAD;
    if (this.count + Math.max(children, 0) >= this.#limits.maxRows) return ScanStatus.BAD;
    if (this.#open.length >= this.#limits.maxDepth * 2) return ScanStatus.BAD;
    this.#annotated = false;
    this.#open.push(this.count * ROW_WORDS, children);
    this.#push(kind, start, Math.max(children, 0));
    return children === 0 ? this.#shut() : NEXT;
  }

  /** The end of what is streamed. */
  end(): number {
    const row = this.#open[this.#open.length - 2];
    if (this.#rows[row] === Kind.MAP && this.#rows[row + 2] % 2 === 1) return ScanStatus.BAD;
    return this.#shut();
  }

  #push(kind: number, start: number, length: number): void {
    const at = this.count++ * ROW_WORDS;
    if (at === this.#rows.length) {
      const grown = new Int32Array(at * 2);
      grown.set(this.#rows);
      this.#rows = grown;
    }
    this.#rows[at] = kind;
    this.#rows[at + 1] = start;
    this.#rows[at + 2] = length;
  }

  /** The innermost open row is complete. */
  #shut(): number {
    const row = this.#open[this.#open.length - 2];
    this.#open.length -= 2;
    if (this.#rows[row] !== Kind.ATTRIBUTE) return this.#close();
    this.#annotated = true;
    return NEXT;
  }

  /** A value is complete: the innermost open row has one child more. */
  #close(): number {
    const depth = this.#open.length;
    if (depth === 0) return WHOLE;
    if (this.#open[depth - 1] === STREAMED) {
      this.#rows[this.#open[depth - 2] + 2]++;
      return NEXT;
    }
    return --this.#open[depth - 1] === 0 ? this.#shut() : NEXT;
  }
}
