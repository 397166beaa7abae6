/**
 * Operations → frames, grouped by node. Two passes: the first finds each operation's node and the size of its frame, the
 * second writes, so an `out` that is too small is noticed before a byte of it changes.
 *
 * ```text
 * frame     *3\r\n $3\r\nSET\r\n $2\r\nup\r\n $1\r\n1\r\n            count, name, arguments
 * asking    *1\r\n$6\r\nASKING\r\n before the frame                 when FLAG_ASKING is set
 * raw       argument 1 as it is                                  opcode RAW: argument 0 only decides the slot
 * same      the frame before it with another key                 when FLAG_SAME is set: the key is all that is given
 * ```
 */
import {
  FLAG_ASKING,
  FLAG_READ,
  FLAG_SAME,
  HEAD_FLAGS_SHIFT,
  HEAD_KEY_SHIFT,
  KEY_NONE,
  Opcode,
  PLACE_HELD,
  PLACE_KEYLESS,
  PLACE_UNASSIGNED,
  SECTION_WORDS,
} from "../types.js";
import type { EncodeTables } from "../types.js";
import { checkCount, slotOf } from "./keys.js";

/** Names by opcode, as bulks; empty for GENERIC, whose name is its first argument, and RAW, whose frame is its second. */
const HEADS = Object.keys(Opcode).map((name) =>
  name === "GENERIC" || name === "RAW" ? Buffer.alloc(0) : Buffer.from(`$${name.length}\r\n${name}\r\n`),
);
const ASKING = Buffer.from("*1\r\n$6\r\nASKING\r\n");

const SLOTS = 16_384;
const MOST = 0x7fff_ffff;
const CR = 0x0d;
const LF = 0x0a;
const ZERO = 0x30;
const STAR = 0x2a;
const DOLLAR = 0x24;
/** Longest argument copied by a loop; above it a bulk copy is cheaper. */
const LOOP_MAX = 48;

/** Reads `desc` group by group and writes frames; a cursor over one call's input, so that a batch allocates it once. */
class Frames {
  readonly #scratch: Uint8Array;
  readonly #desc: Int32Array;
  #at = 0;
  #bytes = 0;
  #opcode = 0;
  #argc = 0;
  /** Opcode and key of the last operation that was given in full, if it can serve as model, else -1; where its lengths and bytes are. */
  #model = -1;
  #modelAt = 0;
  #modelArgc = 0;
  #modelBytes = 0;
  #same = false;
  /** Flags, argument that holds the key, bytes of the frame and the key's place in scratch, of the current operation. */
  flags = 0;
  key = KEY_NONE;
  size = 0;
  keyStart = 0;
  keyEnd = 0;

  constructor(scratch: Uint8Array, desc: Int32Array) {
    this.#scratch = scratch;
    this.#desc = desc;
  }

  rewind(): void {
    this.#at = 0;
    this.#bytes = 0;
    this.#model = -1;
  }

  /**
   * Steps to operation `index`, checks it and measures its frame.
   * @throws RangeError when its words or bytes are missing or wrong.
   */
  measure(index: number): void {
    if (!this.#head() || !(this.#same ? this.#keyLength() : this.#lengths()))
      throw new RangeError(`operation ${index} does not match its bytes`);
  }

  /** Sums up the lengths of the arguments; whether all of them are there. */
  #lengths(): boolean {
    let size = HEADS[this.#opcode].length + 3 + digits(this.#words());
    for (let i = 0; i < this.#argc; i++) {
      const length = this.#desc[this.#at++];
      if (!(length >= 0 && this.#bytes + length <= this.#scratch.length)) return false;
      if (i === this.key) {
        this.keyStart = this.#bytes;
        this.keyEnd = this.#bytes + length;
      }
      this.#bytes += length;
      size += 5 + digits(length) + length;
    }
    if (this.#opcode === Opcode.RAW) size = this.#desc[this.#at - 1];
    this.size = this.flags & FLAG_ASKING ? size + ASKING.length : size;
    return true;
  }

  /** The same for an operation that is given by its key. */
  #keyLength(): boolean {
    const length = this.#desc[this.#at++];
    if (!(length >= 0 && this.#bytes + length <= this.#scratch.length)) return false;
    this.keyStart = this.#bytes;
    this.keyEnd = this.#bytes += length;
    let size = HEADS[this.#opcode].length + 3 + digits(this.#words());
    for (let i = 0; i < this.#modelArgc; i++) {
      const each = i === this.key ? length : this.#desc[this.#modelAt + i];
      size += 5 + digits(each) + each;
    }
    this.size = this.flags & FLAG_ASKING ? size + ASKING.length : size;
    return true;
  }

  /** Steps to the next operation without looking at its arguments. */
  skip(): void {
    this.#head();
    for (let i = 0; i < this.#argc; i++) this.#bytes += this.#desc[this.#at++];
  }

  /** Steps to the next operation and writes its frame at `at`; returns the offset behind it. */
  write(out: Uint8Array, at: number): number {
    this.#head();
    if (this.flags & FLAG_ASKING) {
      out.set(ASKING, at);
      at += ASKING.length;
    }
    if (this.#opcode === Opcode.RAW) return this.#writeRaw(out, at);
    at = writeCount(out, at, STAR, this.#words());
    const head = HEADS[this.#opcode];
    out.set(head, at);
    at += head.length;
    if (this.#same) return this.#writeSame(out, at);
    for (let i = 0; i < this.#argc; i++) {
      const length = this.#desc[this.#at++];
      at = this.#writeArgument(out, at, this.#bytes, length);
      this.#bytes += length;
    }
    return at;
  }

  /** Writes the arguments of the model with the key of this operation. */
  #writeSame(out: Uint8Array, at: number): number {
    let from = this.#modelBytes;
    for (let i = 0; i < this.#modelArgc; i++) {
      const length = this.#desc[this.#modelAt + i];
      if (i !== this.key) at = this.#writeArgument(out, at, from, length);
      else at = this.#writeArgument(out, at, this.#bytes, this.#desc[this.#at]);
      from += length;
    }
    this.#bytes += this.#desc[this.#at++];
    return at;
  }

  #writeArgument(out: Uint8Array, at: number, from: number, length: number): number {
    at = writeCount(out, at, DOLLAR, length);
    if (length > LOOP_MAX) out.set(this.#scratch.subarray(from, from + length), at);
    else for (let k = 0; k < length; k++) out[at + k] = this.#scratch[from + k];
    at += length;
    out[at++] = CR;
    out[at++] = LF;
    return at;
  }

  /** Words of the frame: the arguments, and the name where the opcode brings it. */
  #words(): number {
    const args = this.#same ? this.#modelArgc : this.#argc;
    return HEADS[this.#opcode].length > 0 ? args + 1 : args;
  }

  /** Writes argument 1 as it is and leaves argument 0 out. */
  #writeRaw(out: Uint8Array, at: number): number {
    const from = this.#bytes + this.#desc[this.#at];
    const length = this.#desc[this.#at + 1];
    out.set(this.#scratch.subarray(from, from + length), at);
    this.#at += 2;
    this.#bytes = from + length;
    return at + length;
  }

  /** Reads the head of the next operation; whether it is well formed. */
  #head(): boolean {
    const head = this.#desc[this.#at++];
    this.#argc = this.#desc[this.#at++];
    this.#opcode = head & 0xff;
    this.flags = (head >> HEAD_FLAGS_SHIFT) & 0xff;
    this.key = (head >> HEAD_KEY_SHIFT) & KEY_NONE;
    const alike = this.#opcode | (this.key << HEAD_KEY_SHIFT);
    this.#same = (this.flags & FLAG_SAME) !== 0;
    if (this.#same) return this.#argc === 1 && alike === this.#model;
    this.#model = this.key === KEY_NONE || this.#opcode === Opcode.RAW ? -1 : alike;
    this.#modelAt = this.#at;
    this.#modelArgc = this.#argc;
    this.#modelBytes = this.#bytes;
    const least = this.#opcode === Opcode.RAW ? 2 : this.#opcode === Opcode.GENERIC ? 1 : 0;
    const most = this.#opcode === Opcode.RAW ? 2 : MOST;
    const known = this.#opcode < HEADS.length && this.#argc >= least && this.#argc <= most;
    return known && (this.key === KEY_NONE || this.key < this.#argc);
  }
}

/** The part of the output that one node gets. */
interface Run {
  bytes: number;
  operations: number;
  cursor: number;
}

/**
 * As `NativeCore.encode`. An operation whose node is no index into `alias` counts as unassigned.
 * @throws RangeError when an array is too short or an operation does not match its bytes; nothing is written then.
 */
export function encode(
  scratch: Uint8Array,
  desc: Int32Array,
  count: number,
  tables: EncodeTables,
  out: Uint8Array,
  place: Int32Array,
  sections: Int32Array,
): number {
  checkCount(count, desc.length);
  checkRoom(count, tables, place, sections);
  const frames = new Frames(scratch, desc);
  const places = new Int32Array(count);
  const runs = new Map<number, Run>();
  let total = 0;
  for (let i = 0; i < count; i++) {
    frames.measure(i);
    const node = nodeOf(frames, scratch, tables);
    places[i] = node;
    if (node < 0) continue;
    let run = runs.get(node);
    if (run === undefined) runs.set(node, (run = { bytes: 0, operations: 0, cursor: 0 }));
    run.bytes += frames.size;
    run.operations++;
    total += frames.size;
  }
  if (total > MOST) throw new RangeError(`the frames exceed ${MOST} bytes`);
  if (total > out.length) return -total;

  place.set(places);
  let offset = 0;
  let section = 0;
  for (const [node, run] of runs) {
    run.cursor = offset;
    sections.set([node, offset, run.bytes, run.operations], section);
    section += SECTION_WORDS;
    offset += run.bytes;
  }
  frames.rewind();
  for (let i = 0; i < count; i++) {
    const run = runs.get(places[i]);
    if (run === undefined) frames.skip();
    else run.cursor = frames.write(out, run.cursor);
  }
  return total;
}

/**
 * As `NativeCore.encodeTo`.
 * @throws RangeError when an operation does not match its bytes; nothing is written then.
 */
export function encodeTo(scratch: Uint8Array, desc: Int32Array, count: number, out: Uint8Array): number {
  checkCount(count, desc.length);
  const frames = new Frames(scratch, desc);
  let total = 0;
  for (let i = 0; i < count; i++) {
    frames.measure(i);
    total += frames.size;
  }
  if (total > MOST) throw new RangeError(`the frames exceed ${MOST} bytes`);
  if (total > out.length) return -total;
  frames.rewind();
  let at = 0;
  for (let i = 0; i < count; i++) at = frames.write(out, at);
  return total;
}

function checkRoom(count: number, { slots, held, alias }: EncodeTables, place: Int32Array, sections: Int32Array): void {
  if (slots.length < SLOTS || held.length < SLOTS / 32) throw new RangeError("the slot tables are too short");
  if (place.length < count) throw new RangeError("place is shorter than the number of operations");
  if (sections.length < alias.length * SECTION_WORDS) {
    throw new RangeError("sections is shorter than four words a node");
  }
}

/** Node of the operation just measured, or why it has none. */
function nodeOf(frames: Frames, scratch: Uint8Array, { slots, held, alias }: EncodeTables): number {
  if (frames.key === KEY_NONE) return PLACE_KEYLESS;
  const slot = slotOf(scratch.subarray(frames.keyStart, frames.keyEnd));
  if ((held[slot >> 5] >>> (slot & 31)) & 1) return PLACE_HELD;
  const owner = Atomics.load(slots, slot);
  const node = frames.flags & FLAG_READ ? alias[owner] : owner;
  return node >= 0 && node < alias.length ? node : PLACE_UNASSIGNED;
}

/** Decimal digits of a non-negative 32-bit number. */
function digits(value: number): number {
  let digits = 1;
  for (let rest = value; rest > 9; rest = (rest / 10) | 0) digits++;
  return digits;
}

/** Writes `<type><value>\r\n` and returns the offset behind it. */
function writeCount(out: Uint8Array, at: number, type: number, value: number): number {
  out[at++] = type;
  const end = at + digits(value);
  for (let i = end, rest = value; i > at; rest = (rest / 10) | 0) out[--i] = ZERO + (rest % 10);
  out[end] = CR;
  out[end + 1] = LF;
  return end + 2;
}
