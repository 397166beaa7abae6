/**
 * Requests, written by the caller and read by a worker; the bytes are drawn in `protocol.ts`. All arguments of a turn are joined
 * and written at once when they are ASCII, else one by one.
 */
import type { WireArg } from "../lane/op.js";
import type { Crates } from "./crates.js";
import {
  DOMAIN_SHIFT,
  HEADER_BYTES,
  HEADER_WORDS,
  KIND_BITS,
  OpKind,
  RQ_ASCII,
  RQ_BASE,
  RQ_BYTES,
  RQ_CANCELLED,
  RQ_COUNT,
  RQ_DOMAIN_SHIFT,
  RQ_FETCHES,
  RQ_FLAGS,
  RQ_GETS,
  RQ_LENGTHS,
  RQ_STAMP,
  RQ_WORDS,
} from "./protocol.js";

/** Longer requests are not joined: it would be one more copy, and no string holds more than 2^29 units. */
const JOIN_UNITS = 32 << 20;
/** UTF-8 bytes a UTF-16 unit can take. */
const EXPANSION = 3;

/** What a request carries besides its operations. */
export interface Envelope {
  readonly stamp: number;
  readonly cancelled: readonly number[];
  /** Id of the first operation. */
  readonly base: number;
}

/** A message, and what it takes of the queue's bound. */
export interface Request {
  readonly crate: ArrayBuffer;
  readonly bytes: number;
}

/** Lengths of a message's arguments, and words of its operations; used by one message after the other. */
let scratch = new Int32Array(8192);

export class RequestWriter {
  count = 0;
  readonly #crates: Crates;
  #words = new Int32Array(4096);
  #at = 0;
  #args: WireArg[] = [];
  #texts = true;

  constructor(crates: Crates) {
    this.#crates = crates;
  }

  /** A GET or FETCH, by the domain's codec and deadline. */
  get(domain: number, key: string, kind: typeof OpKind.GET | typeof OpKind.FETCH = OpKind.GET): void {
    this.#fit(1);
    this.#words[this.#at] = kind | (domain << DOMAIN_SHIFT);
    this.#at += 1;
    this.count += 1;
    this.#args.push(key);
  }

  /** Any operation. Its arguments are `first`, `rest` and, with `OP_SCRIPT`, `script`. */
  add(
    kind: number,
    flags: number,
    domain: number,
    head: number,
    timeoutMs: number,
    extra: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    script: string | null,
  ): void {
    this.#fit(5);
    const words = this.#words;
    words[this.#at] = kind | (flags << KIND_BITS) | (domain << DOMAIN_SHIFT);
    words[this.#at + 1] = head;
    words[this.#at + 2] = timeoutMs;
    words[this.#at + 3] = extra;
    words[this.#at + 4] = 1 + (rest === null ? 0 : rest.length) + (script === null ? 0 : 1);
    this.#at += 5;
    this.count += 1;
    this.#arg(first);
    if (rest !== null) for (let i = 0; i < rest.length; i += 1) this.#arg(rest[i]!);
    if (script !== null) this.#arg(script);
  }

  /** The message; the writer is empty afterwards. */
  finish(envelope: Envelope): Request {
    const made = this.#make(this.#args, this.#texts, this.#at, this.count, 0, envelope);
    this.count = 0;
    this.#at = 0;
    this.#args = [];
    this.#texts = true;
    return made;
  }

  /** A message of GETs of one domain. */
  gets(keys: readonly string[], domain: number, envelope: Envelope): Request {
    return this.#make(keys, true, 0, keys.length, RQ_GETS | (domain << RQ_DOMAIN_SHIFT), envelope);
  }

  /** A message of FETCHes of one domain. */
  fetches(keys: readonly string[], domain: number, envelope: Envelope): Request {
    return this.#make(keys, true, 0, keys.length, RQ_FETCHES | (domain << RQ_DOMAIN_SHIFT), envelope);
  }

  #make(
    args: readonly WireArg[],
    texts: boolean,
    opWords: number,
    count: number,
    flags: number,
    { stamp, cancelled, base }: Envelope,
  ): Request {
    const most = args.length;
    if (scratch.length < most) scratch = new Int32Array(most * 2);
    const lengths = scratch;
    let units = 0;
    for (let i = 0; i < most; i += 1) {
      const { length } = args[i]!;
      units += length;
      lengths[i] = length << 1;
    }
    const front = HEADER_BYTES + 4 * (opWords + most + cancelled.length);
    let ascii = false;
    let crate: ArrayBuffer | null = null;
    if (texts && units <= JOIN_UNITS) {
      crate = this.#crates.take(front + units * EXPANSION);
      ascii = Buffer.from(crate, front).utf8Write(args.join(""), 0) === units;
    }
    let bytes = units;
    if (!ascii) {
      bytes = 0;
      for (let i = 0; i < most; i += 1) {
        lengths[i] = measure(args[i]!);
        bytes += lengths[i]! >> 1;
      }
      if (crate === null || crate.byteLength < front + bytes) crate = this.#crates.take(front + bytes);
      writeEach(args, lengths, Buffer.from(crate, front));
    }
    const words = new Int32Array(crate!, 0, front / 4);
    words[RQ_COUNT] = count;
    words[RQ_WORDS] = opWords;
    words[RQ_LENGTHS] = most;
    words[RQ_CANCELLED] = cancelled.length;
    words[RQ_FLAGS] = flags | (ascii ? RQ_ASCII : 0);
    words[RQ_STAMP] = stamp;
    words[RQ_BYTES] = bytes;
    words[RQ_BASE] = base;
    if (opWords > 0) words.set(this.#words.subarray(0, opWords), HEADER_WORDS);
    words.set(lengths.subarray(0, most), HEADER_WORDS + opWords);
    if (cancelled.length > 0) words.set(cancelled, HEADER_WORDS + opWords + most);
    return { crate: crate!, bytes: front + bytes };
  }

  #arg(arg: WireArg): void {
    this.#args.push(arg);
    if (typeof arg !== "string") this.#texts = false;
  }

  #fit(words: number): void {
    if (this.#at + words <= this.#words.length) return;
    const grown = new Int32Array(this.#words.length * 2);
    grown.set(this.#words);
    this.#words = grown;
  }
}

/** The length word of an argument. A text that is longer in UTF-8 than in UTF-16 is not ASCII. */
function measure(arg: WireArg): number {
  if (typeof arg !== "string") return (arg.length << 1) | 1;
  const bytes = Buffer.byteLength(arg);
  return (bytes << 1) | (bytes === arg.length ? 0 : 1);
}

function writeEach(args: readonly WireArg[], lengths: Int32Array, target: Buffer): void {
  let at = 0;
  for (let i = 0; i < args.length; i += 1) {
    const arg = args[i]!;
    if (typeof arg === "string") target.utf8Write(arg, at);
    else target.set(arg, at);
    at += lengths[i]! >> 1;
  }
}

/** Reads one request, from front to back. What it gives refers to the message no more. */
export class RequestReader {
  readonly count: number;
  readonly stamp: number;
  /** Id of the first operation. */
  readonly base: number;
  /** The domain of which all operations are GETs, and of which all are FETCHes, without words of their own; else -1. */
  readonly gets: number;
  readonly fetches: number;
  /** What the message takes of the queue's bound. */
  readonly size: number;
  readonly #words: Int32Array;
  readonly #bytes: Buffer;
  readonly #text: string | null;
  #at = HEADER_WORDS;
  #length: number;
  #from = 0;

  constructor(crate: ArrayBuffer) {
    const header = new Int32Array(crate, 0, HEADER_WORDS);
    const words = HEADER_WORDS + header[RQ_WORDS]! + header[RQ_LENGTHS]! + header[RQ_CANCELLED]!;
    this.count = header[RQ_COUNT]!;
    this.stamp = header[RQ_STAMP]!;
    this.base = header[RQ_BASE]!;
    const flags = header[RQ_FLAGS]!;
    this.gets = (flags & RQ_GETS) === 0 ? -1 : flags >> RQ_DOMAIN_SHIFT;
    this.fetches = (flags & RQ_FETCHES) === 0 ? -1 : flags >> RQ_DOMAIN_SHIFT;
    this.size = words * 4 + header[RQ_BYTES]!;
    this.#words = new Int32Array(crate, 0, words);
    this.#bytes = Buffer.from(crate, words * 4, header[RQ_BYTES]);
    this.#text = (flags & RQ_ASCII) !== 0 ? this.#bytes.latin1Slice(0, this.#bytes.length) : null;
    this.#length = HEADER_WORDS + header[RQ_WORDS]!;
  }

  /** Ids of operations whose caller aborted; they come before the request's own operations. */
  cancelled(): Int32Array {
    const count = this.#words[RQ_CANCELLED]!;
    return this.#words.subarray(this.#words.length - count);
  }

  /** The next word of the operations. */
  word(): number {
    const word = this.#words[this.#at]!;
    this.#at += 1;
    return word;
  }

  /** The next argument: a string where it is ASCII, else its bytes. */
  arg(): WireArg {
    const length = this.#words[this.#length]!;
    const from = this.#from;
    const to = from + (length >> 1);
    this.#length += 1;
    this.#from = to;
    if (this.#text !== null) return this.#text.substring(from, to);
    return (length & 1) === 0 ? this.#bytes.latin1Slice(from, to) : Buffer.from(this.#bytes.subarray(from, to));
  }

  args(count: number): WireArg[] | null {
    if (count === 0) return null;
    const args: WireArg[] = [];
    for (let i = 0; i < count; i += 1) args.push(this.arg());
    return args;
  }
}
