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
  RQ_BYTES,
  RQ_CANCELLED,
  RQ_COUNT,
  RQ_FLAGS,
  RQ_LENGTHS,
  RQ_PLAIN,
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
}

export class RequestWriter {
  count = 0;
  #words = new Int32Array(4096);
  #at = 0;
  #args: WireArg[] = [];
  #units = 0;
  #joinable = true;

  /** The commonest operation. */
  get(id: number, domain: number, key: WireArg): void {
    if (this.#at + 2 > this.#words.length) this.#grow();
    this.#words[this.#at] = id;
    this.#words[this.#at + 1] = OpKind.GET | (domain << DOMAIN_SHIFT);
    this.#at += 2;
    this.count += 1;
    this.#arg(key);
  }

  /** Any operation. Its arguments are `first`, `rest` and, with `OP_SCRIPT`, `script`. */
  add(
    id: number,
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
    if (this.#at + 6 > this.#words.length) this.#grow();
    const words = this.#words;
    words[this.#at] = id;
    words[this.#at + 1] = kind | (flags << KIND_BITS) | (domain << DOMAIN_SHIFT);
    words[this.#at + 2] = head;
    words[this.#at + 3] = timeoutMs;
    words[this.#at + 4] = extra;
    words[this.#at + 5] = 1 + (rest === null ? 0 : rest.length) + (script === null ? 0 : 1);
    this.#at += 6;
    this.count += 1;
    this.#arg(first);
    if (rest !== null) for (let i = 0; i < rest.length; i += 1) this.#arg(rest[i]!);
    if (script !== null) this.#arg(script);
  }

  /** The message; the writer is empty afterwards. `bytes` is what it takes of the queue's bound. */
  finish(crates: Crates, { stamp, cancelled }: Envelope): { crate: ArrayBuffer; bytes: number } {
    const args = this.#args;
    const front = HEADER_BYTES + 4 * (this.#at + args.length + cancelled.length);
    let plain = false;
    let crate: ArrayBuffer | null = null;
    let bytes = this.#units;
    if (this.#joinable && this.#units <= JOIN_UNITS) {
      const text = args.join("");
      crate = crates.take(front + this.#units * EXPANSION);
      plain = Buffer.from(crate, front).utf8Write(text, 0) === this.#units;
    }
    const lengths = new Int32Array(args.length);
    if (plain) for (let i = 0; i < args.length; i += 1) lengths[i] = args[i]!.length << 1;
    else {
      for (let i = 0; i < args.length; i += 1) lengths[i] = measure(args[i]!);
      bytes = lengths.reduce((sum, length) => sum + (length >> 1), 0);
      if (crate === null || crate.byteLength < front + bytes) crate = crates.take(front + bytes);
      writeEach(args, lengths, Buffer.from(crate, front));
    }
    const words = new Int32Array(crate!, 0, front / 4);
    words[RQ_COUNT] = this.count;
    words[RQ_WORDS] = this.#at;
    words[RQ_LENGTHS] = args.length;
    words[RQ_CANCELLED] = cancelled.length;
    words[RQ_FLAGS] = plain ? RQ_PLAIN : 0;
    words[RQ_STAMP] = stamp;
    words[RQ_BYTES] = bytes;
    words.set(this.#words.subarray(0, this.#at), HEADER_WORDS);
    words.set(lengths, HEADER_WORDS + this.#at);
    words.set(cancelled, HEADER_WORDS + this.#at + args.length);
    this.#reset();
    return { crate: crate!, bytes: front + bytes };
  }

  #arg(arg: WireArg): void {
    this.#args.push(arg);
    this.#units += arg.length;
    if (typeof arg !== "string") this.#joinable = false;
  }

  #grow(): void {
    const grown = new Int32Array(this.#words.length * 2);
    grown.set(this.#words);
    this.#words = grown;
  }

  #reset(): void {
    this.count = 0;
    this.#at = 0;
    this.#args.length = 0;
    this.#units = 0;
    this.#joinable = true;
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
    this.size = words * 4 + header[RQ_BYTES]!;
    this.#words = new Int32Array(crate, 0, words);
    this.#bytes = Buffer.from(crate, words * 4, header[RQ_BYTES]);
    this.#text = header[RQ_FLAGS] === RQ_PLAIN ? this.#bytes.latin1Slice(0, this.#bytes.length) : null;
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
