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
import { checkCount } from "./keys.js";
import { END, KINDS, NEXT, Nest, PIECE, WHOLE } from "./nest.js";
import { MINUS_ONE, STREAMED, countOf, integerOf, isDouble, isInteger } from "./numbers.js";

const CR = 0x0d;
const LF = 0x0a;
const COLON = 0x3a;
const MOST = 0x7fff_ffff;
const HIGH = 0x80;
const TRUE = 0x74;
const FALSE = 0x66;
/** Bytes of a verbatim text's format and the colon behind it. */
const FORMAT = 4;

/**
 * Resumable scanner of RESP2 and RESP3. Cost is linear in the bytes, however they are cut. Once it said `BAD` it keeps
 * saying so until `reset`.
 */
export class PortableScanner implements Scanner {
  readonly #limits: ScanLimits;
  readonly #nest: Nest;
  /** First byte not yet read; first byte of the item in progress. */
  #at = 0;
  #mark = 0;
  /** Start and length of the payload in progress, the length negative when there is none. */
  #body = 0;
  #size = -1;
  /** Kind of the payload in progress. */
  #kind = 0;
  /** OR of the text bytes read of the item in progress. */
  #bits = 0;
  #isWhole = false;
  /** The bytes were found bad at `#at`. */
  #isBad = false;

  /** @throws RangeError when a limit is no whole number; Infinity is one. */
  constructor(limits: ScanLimits) {
    for (const [name, limit] of Object.entries(limits)) checkCount(Math.min(limit, MOST), MOST, name);
    this.#limits = { ...limits };
    this.#nest = new Nest(this.#limits);
  }

  reset(): void {
    this.#clear();
    this.#isBad = false;
  }

  #clear(): void {
    this.#nest.clear();
    this.#at = this.#mark = 0;
    this.#size = -1;
    this.#isWhole = false;
  }

  scan(buf: Uint8Array, from: number, to: number, rows: Int32Array): number {
    this.#checkCall(buf, from, to, rows);
    const capacity = Math.floor((rows.length - ROWS_BASE) / ROW_WORDS);
    let base = from;
    let replies = 0;
    let filled = 0;
    let status: number = ScanStatus.MORE;
    rows.fill(0, 0, ROWS_BASE);
    for (;;) {
      if (!this.#isWhole) {
        status = this.#read(buf, base, to);
        if (status !== WHOLE) break;
        this.#isWhole = true;
      }
      const count = this.#nest.count;
      if (filled + count > capacity) {
        status = ScanStatus.TABLE_FULL;
        if (replies === 0) rows[SCAN_ROWS_NEEDED] = count;
        break;
      }
      this.#nest.deliver(rows, filled, base);
      filled += count;
      base += this.#at;
      replies++;
      this.#clear();
    }
    rows[SCAN_CONSUMED] = base;
    rows[SCAN_ROWS] = filled;
    rows[SCAN_STATUS] = status;
    if (status === ScanStatus.BAD) rows[SCAN_BAD_AT] = base + this.#at;
    if (status === ScanStatus.MORE && this.#size >= 0) rows[SCAN_NEEDED] = base + this.#body + this.#size + 2 - to;
    return replies;
  }

  #checkCall(buf: Uint8Array, from: number, to: number, rows: Int32Array): void {
    checkCount(to, Math.min(buf.length, MOST), "to");
    checkCount(from, to, "from");
    if (rows.length < ROWS_BASE) throw new RangeError("the table of rows is shorter than its header");
    if (!this.#isBad && to - from < this.#at) throw new RangeError("bytes of the reply in progress are missing");
  }

  /** Reads items until the reply is whole, the bytes before `to` run out, or one of them is wrong (at `#at`). */
  #read(buf: Uint8Array, base: number, to: number): number {
    if (this.#isBad) return ScanStatus.BAD;
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
      if (!this.#nest.expects(buf[at])) return this.#bad(at - base);
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
    this.#at = this.#body = at + 2 - base;
    if (this.#size < 0) this.#mark = this.#at;
    return status;
  }

  #bad(at: number): number {
    this.#isBad = true;
    this.#at = at;
    return ScanStatus.BAD;
  }

  /** An item whose line is complete: its type byte is at `mark`, the line ends before `end`. */
  #item(buf: Uint8Array, base: number, mark: number, end: number): number {
    const start = mark + 1;
    const type = buf[mark];
    const kind = KINDS[type];
    switch (kind) {
      case Kind.SIMPLE:
      case Kind.ERROR:
        return this.#nest.value(this.#bits >= HIGH ? kind | KIND_HIGH : kind, start - base, end - start);
      case Kind.INT: {
        if (!isInteger(buf, start, end)) return ScanStatus.BAD;
        const value = integerOf(buf, start, end);
        if (value === (value | 0)) return this.#nest.value(Kind.INT32, start - base, value);
        return this.#nest.value(Kind.INT, start - base, end - start);
      }
      case Kind.BIGNUM:
        return isInteger(buf, start, end) ? this.#nest.value(kind, start - base, end - start) : ScanStatus.BAD;
      case Kind.DOUBLE:
        return isDouble(buf, start, end) ? this.#nest.value(kind, start - base, end - start) : ScanStatus.BAD;
      case Kind.BOOL:
        if (end !== start + 1 || (buf[start] !== TRUE && buf[start] !== FALSE)) return ScanStatus.BAD;
        return this.#nest.value(kind, start - base, buf[start] === TRUE ? 1 : 0);
      case Kind.NULL:
        return end === start ? this.#nest.value(kind, start - base, 0) : ScanStatus.BAD;
    }
    if (type === END) return end === start ? this.#nest.end() : ScanStatus.BAD;
    const count = countOf(buf, start, end);
    if (type === PIECE) return count === 0 ? this.#nest.end() : this.#announce(Kind.BULK, count);
    switch (kind) {
      case Kind.BULK:
        if (count === MINUS_ONE) return this.#nest.value(Kind.NULL, start - base, 0);
        return count === STREAMED
          ? this.#nest.aggregate(Kind.STREAM, start - base, count)
          : this.#announce(kind, count);
      case Kind.BLOB_ERROR:
      case Kind.VERBATIM:
        return this.#announce(kind, count);
      case Kind.ARRAY:
        if (count === MINUS_ONE) return this.#nest.value(Kind.NULL, start - base, 0);
        return this.#nest.aggregate(kind, start - base, count);
      case Kind.MAP:
      case Kind.ATTRIBUTE:
        return this.#nest.aggregate(kind, start - base, count > 0 ? count * 2 : count);
      default:
        return this.#nest.aggregate(kind, start - base, count);
    }
  }

  /** A payload of `size` bytes follows. */
  #announce(kind: number, size: number): number {
    if (size < 0 || size > this.#limits.maxBulk || (kind === Kind.VERBATIM && size < FORMAT)) return ScanStatus.BAD;
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
    const skip = this.#kind === Kind.VERBATIM ? FORMAT : 0;
    if (skip > 0 && buf[base + this.#body + 3] !== COLON) return this.#bad(this.#body + 3);
    const kind = bits >= HIGH ? this.#kind | KIND_HIGH : this.#kind;
    const status = this.#nest.value(kind, this.#body + skip, this.#size - skip);
    if (status === ScanStatus.BAD) return this.#bad(this.#mark);
    this.#size = -1;
    this.#at = this.#mark = end + 2 - base;
    return status;
  }
}
