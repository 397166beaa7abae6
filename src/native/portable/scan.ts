/**
 * Replies → rows. A scanner reads one connection's bytes item by item, an item being a line and, for texts that announce
 * their length, a payload behind it.
 *
 * Invariant: rows of the reply in progress are kept apart, with offsets from its first byte, and reach the caller's table
 * only when it is complete; so a reply may be cut anywhere and moved anywhere, and no byte is read twice.
 *
 * ```text
 *            base                    base + mark  base + at
 *             v                        v          v
 * buf   … ok  |  *2\r\n  $3\r\nfoo\r\n  $1000\r\nba                  to
 *             ^ consumed                       ^ base + body, `size` bytes long
 *
 * open        row of an aggregate | children still to come, or STREAMED      one pair a level of nesting
 * ```
 */
import {
  Kind,
  KIND_HIGH,
  ROWS_BASE,
  ROW_WORDS,
  SCAN_BAD_AT,
  SCAN_CONSUMED,
  SCAN_NEEDED,
  SCAN_ROWS,
  SCAN_ROWS_NEEDED,
  SCAN_STATUS,
  ScanStatus,
} from "../types.js";
import type { ScanLimits, Scanner } from "../types.js";
import { MINUS_ONE, STREAMED, countOf, integerOf, isDouble, isInteger } from "./numbers.js";

const CR = 0x0d;
const LF = 0x0a;
const HIGH = 0x80;

/** What reading an item came to, next to `ScanStatus.MORE` and `ScanStatus.BAD`. */
const NEXT = 3;
const WHOLE = 4;

/** Type byte → kind of the row it makes; the two that make none of their own are the piece and the end of a stream. */
const PIECE = 0x3b;
const END = 0x2e;
const KINDS = new Int32Array(256);
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
  [";", Kind.STREAM],
  [".", Kind.STREAM],
] as const) {
  KINDS[type.charCodeAt(0)] = kind;
}

/** Resumable scanner of RESP2 and RESP3. Cost is linear in the bytes, however they are cut. */
export class PortableScanner implements Scanner {
  readonly #limits: ScanLimits;
  #rows = new Int32Array(ROW_WORDS * 64);
  #count = 0;
  #open: number[] = [];
  #at = 0;
  #mark = 0;
  #body = 0;
  #size = -1;
  /** Kind of the payload in progress. */
  #kind = 0;
  /** OR of the text bytes read of the item in progress. */
  #bits = 0;
  /** An attribute is complete and what it annotates has not begun. */
  #annotated = false;
  #whole = false;

  constructor(limits: ScanLimits) {
    this.#limits = { ...limits };
  }

  reset(): void {
    this.#count = this.#at = this.#mark = 0;
    this.#open.length = 0;
    this.#size = -1;
    this.#annotated = this.#whole = false;
  }

  scan(buf: Uint8Array, from: number, to: number, rows: Int32Array): number {
    const capacity = Math.floor((rows.length - ROWS_BASE) / ROW_WORDS);
    let base = from;
    let replies = 0;
    let filled = 0;
    let status: number = ScanStatus.MORE;
    rows[SCAN_NEEDED] = rows[SCAN_ROWS_NEEDED] = rows[SCAN_BAD_AT] = 0;
    for (;;) {
      if (!this.#whole) {
        status = this.#read(buf, base, to);
        if (status !== WHOLE) break;
        this.#whole = true;
      }
      if (filled + this.#count > capacity) {
        status = ScanStatus.TABLE_FULL;
        if (replies === 0) rows[SCAN_ROWS_NEEDED] = this.#count;
        break;
      }
      this.#deliver(rows, filled, base);
      filled += this.#count;
      base += this.#at;
      replies++;
      this.reset();
    }
    rows[SCAN_CONSUMED] = base;
    rows[SCAN_ROWS] = filled;
    rows[SCAN_STATUS] = status;
    if (status === ScanStatus.BAD) rows[SCAN_BAD_AT] = base + this.#at;
    if (status === ScanStatus.MORE && this.#size >= 0) rows[SCAN_NEEDED] = base + this.#body + this.#size + 2 - to;
    return replies;
  }

  #deliver(rows: Int32Array, filled: number, base: number): void {
    let to = ROWS_BASE + filled * ROW_WORDS;
    for (let at = 0; at < this.#count * ROW_WORDS; at += ROW_WORDS) {
      rows[to++] = this.#rows[at];
      rows[to++] = this.#rows[at + 1] + base;
      rows[to++] = this.#rows[at + 2];
    }
  }

  /** Reads items until the reply is whole, the bytes before `to` run out, or one of them is wrong (at `#at`). */
  #read(buf: Uint8Array, base: number, to: number): number {
    for (;;) {
      const status = this.#size < 0 ? this.#line(buf, base, to) : this.#payload(buf, base, to);
      if (status !== NEXT) return status;
    }
  }

  #line(buf: Uint8Array, base: number, to: number): number {
    let at = base + this.#at;
    if (at >= to) return ScanStatus.MORE;
    const mark = base + this.#mark;
    if (at === mark) {
      if (!this.#expects(buf[at])) return ScanStatus.BAD;
      this.#bits = 0;
      at++;
    }
    const longest = mark + 1 + this.#limits.maxLine;
    for (; at < to; at++) {
      const byte = buf[at];
      if (byte === CR) break;
      if (byte === LF || at === longest) return this.#bad(at - base);
      this.#bits |= byte;
    }
    this.#at = at - base;
    if (at + 1 >= to) return ScanStatus.MORE;
    if (buf[at + 1] !== LF) return this.#bad(at + 1 - base);
    const status = this.#item(buf, base, mark, at);
    if (status === ScanStatus.BAD) return this.#bad(this.#mark);
    this.#at = this.#body = this.#mark = at + 2 - base;
    return status;
  }

  #bad(at: number): number {
    this.#at = at;
    return ScanStatus.BAD;
  }

  /** Whether an item of this type may come now. */
  #expects(type: number): boolean {
    const depth = this.#open.length;
    const parent = depth === 0 ? 0 : this.#rows[this.#open[depth - 2]];
    if (parent === Kind.STREAM) return type === PIECE;
    if (type === END) return depth > 0 && this.#open[depth - 1] < 0 && !this.#annotated;
    if (KINDS[type] === Kind.PUSH) return depth === 0 && !this.#annotated;
    return type !== PIECE && KINDS[type] !== 0;
  }

  /** An item whose line is complete: its type byte is at `mark`, the line ends before `end`. */
  #item(buf: Uint8Array, base: number, mark: number, end: number): number {
    const start = mark + 1;
    const type = buf[mark];
    const kind = KINDS[type];
    if (kind !== Kind.ATTRIBUTE && type !== END) this.#annotated = false;
    switch (kind) {
      case Kind.SIMPLE:
      case Kind.ERROR:
        return this.#value(this.#bits >= HIGH ? kind | KIND_HIGH : kind, start - base, end - start);
      case Kind.INT: {
        if (!isInteger(buf, start, end)) return ScanStatus.BAD;
        const value = integerOf(buf, start, end);
        if (value === (value | 0)) return this.#value(Kind.INT32, start - base, value);
        return this.#value(Kind.INT, start - base, end - start);
      }
      case Kind.BIGNUM:
        return isInteger(buf, start, end) ? this.#value(kind, start - base, end - start) : ScanStatus.BAD;
      case Kind.DOUBLE:
        return isDouble(buf, start, end) ? this.#value(kind, start - base, end - start) : ScanStatus.BAD;
      case Kind.BOOL:
        if (end !== start + 1 || (buf[start] !== 0x74 && buf[start] !== 0x66)) return ScanStatus.BAD;
        return this.#value(kind, start - base, buf[start] === 0x74 ? 1 : 0);
      case Kind.NULL:
        return end === start ? this.#value(kind, start - base, 0) : ScanStatus.BAD;
    }
    if (type === END) return end === start ? this.#end() : ScanStatus.BAD;
    const count = countOf(buf, start, end);
    if (type === PIECE) return count === 0 ? this.#end() : this.#announce(Kind.BULK, count);
    switch (kind) {
      case Kind.BULK:
        if (count === MINUS_ONE) return this.#value(Kind.NULL, start - base, 0);
        return count === STREAMED ? this.#aggregate(Kind.STREAM, start - base, count) : this.#announce(kind, count);
      case Kind.BLOB_ERROR:
      case Kind.VERBATIM:
        return this.#announce(kind, count);
      case Kind.ARRAY:
        if (count === MINUS_ONE) return this.#value(Kind.NULL, start - base, 0);
        return this.#aggregate(kind, start - base, count);
      case Kind.MAP:
      case Kind.ATTRIBUTE:
        return this.#aggregate(kind, start - base, count > 0 ? count * 2 : count);
      default:
        return this.#aggregate(kind, start - base, count);
    }
  }

  /** A payload of `size` bytes follows. */
  #announce(kind: number, size: number): number {
    if (size < 0 || size > this.#limits.maxBulk || (kind === Kind.VERBATIM && size < 4)) return ScanStatus.BAD;
    this.#kind = kind;
    this.#size = size;
    this.#bits = 0;
    return NEXT;
  }

  #payload(buf: Uint8Array, base: number, to: number): number {
    const end = base + this.#body + this.#size;
    const stop = Math.min(end, to);
    let bits = this.#bits;
    for (let at = base + this.#at; at < stop; at++) bits |= buf[at];
    this.#bits = bits;
    this.#at = Math.max(this.#at, stop - base);
    if (to < end + 2) return ScanStatus.MORE;
    if (buf[end] !== CR) return this.#bad(end - base);
    if (buf[end + 1] !== LF) return this.#bad(end + 1 - base);
    const skip = this.#kind === Kind.VERBATIM ? 4 : 0;
    if (skip > 0 && buf[base + this.#body + 3] !== 0x3a) return this.#bad(this.#body + 3);
    const status = this.#value(
      bits >= HIGH ? this.#kind | KIND_HIGH : this.#kind,
      this.#body + skip,
      this.#size - skip,
    );
    this.#size = -1;
    this.#at = this.#mark = end + 2 - base;
    return status;
  }

  /** A row without children, and with it perhaps the last child of what is open. */
  #value(kind: number, start: number, length: number): number {
    return this.#push(kind, start, length) ? this.#close() : ScanStatus.BAD;
  }

  #push(kind: number, start: number, length: number): boolean {
    if (this.#count >= this.#limits.maxRows) return false;
    const at = this.#count++ * ROW_WORDS;
    if (at === this.#rows.length) {
      const grown = new Int32Array(at * 2);
      grown.set(this.#rows);
      this.#rows = grown;
    }
    this.#rows[at] = kind;
    this.#rows[at + 1] = start;
    this.#rows[at + 2] = length;
    return true;
  }

  /** `children` rows follow, or pieces until an end when they are `STREAMED`. */
  #aggregate(kind: number, start: number, children: number): number {
    const streamed = children === STREAMED && kind !== Kind.PUSH && kind !== Kind.ATTRIBUTE;
    if (children < 0 && !streamed) return ScanStatus.BAD;
    if (this.#count + children >= this.#limits.maxRows) return ScanStatus.BAD;
    if (this.#open.length >= this.#limits.maxDepth * 2) return ScanStatus.BAD;
    if (!this.#push(kind, start, streamed ? 0 : children)) return ScanStatus.BAD;
    this.#open.push((this.#count - 1) * ROW_WORDS, children);
    return children === 0 ? this.#shut() : NEXT;
  }

  /** The end of a streamed aggregate. */
  #end(): number {
    const row = this.#open[this.#open.length - 2];
    if (this.#rows[row] === Kind.MAP && this.#rows[row + 2] % 2 === 1) return ScanStatus.BAD;
    return this.#shut();
  }

  /** The innermost open aggregate is complete. */
  #shut(): number {
    const row = this.#open[this.#open.length - 2];
    this.#open.length -= 2;
    if (this.#rows[row] !== Kind.ATTRIBUTE) return this.#close();
    this.#annotated = true;
    return NEXT;
  }

  /** A value is complete: the innermost open aggregate has one child more. */
  #close(): number {
    const depth = this.#open.length;
    if (depth === 0) return WHOLE;
    if (this.#open[depth - 1] < 0) {
      this.#rows[this.#open[depth - 2] + 2]++;
      return NEXT;
    }
    return --this.#open[depth - 1] === 0 ? this.#shut() : NEXT;
  }
}
