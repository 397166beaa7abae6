/**
 * A turn's operations → bytes, grouped by node, in one native call. The text of all arguments is joined into one string and
 * written once: when its UTF-8 is as long as its UTF-16, everything was ASCII and the lengths already in `desc` are right;
 * otherwise (binary or non-ASCII arguments) the batch is written argument by argument.
 *
 * Write buffers are pooled: `Outgoing` counts the socket writes that still refer to it and goes back when the last is done.
 */
import { native } from "../native/index.js";
import type { EncodeTables } from "../native/types.js";
import type { HitCounts } from "../shared/hit-counts.js";
import { FLAG_SAME, HEAD_FLAGS_SHIFT } from "../native/types.js";
import { OP_STAMP, SETTLED } from "./op.js";
import type { Op, Stamper, Template, WireArg } from "./op.js";

const POOL_BYTES = 256 << 10;
const POOL_SIZE = 16;
const SCRATCH_BYTES = 256 << 10;
/** Scratch memory beyond this is given back when the next batch is packed. */
const SCRATCH_KEPT = 64 << 20;
/** Longer batches are not joined: it would be one more copy, and no string holds more than 2^29 units. */
const JOIN_UNITS = 32 << 20;
const HEAD_SAME = FLAG_SAME << HEAD_FLAGS_SHIFT;
const pool: Outgoing[] = [];

/** A write buffer. `release` is created once with it and given to every socket write of it. */
export class Outgoing {
  readonly bytes: Buffer;
  /** Holders: whoever encoded into it, and every write not finished yet. Each calls `release` once. */
  uses = 1;
  readonly release = (): void => {
    this.uses -= 1;
    if (this.uses === 0 && this.bytes.length === POOL_BYTES && pool.length < POOL_SIZE) pool.push(this);
  };

  constructor(size: number) {
    this.bytes = Buffer.allocUnsafeSlow(size);
  }
}

function outgoing(size: number): Outgoing {
  if (size > POOL_BYTES) return new Outgoing(size);
  const pooled = pool.pop();
  if (pooled === undefined) return new Outgoing(POOL_BYTES);
  pooled.uses = 1;
  return pooled;
}

/** Encoder of one thread: its scratch memory is used inside one call only, so all lanes share it. */
class FrameEncoder {
  place = new Int32Array(8192);
  sections = new Int32Array(4 * 512);
  #scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  #desc = new Int32Array(3 * 8192);
  #parts: string[] = [];
  #joinable = true;
  /** All flags of the operations packed last. */
  #flags = 0;
  /** Length of their arguments, in UTF-16 units. */
  #units = 0;

  /**
   * Slots, places and encodes `ops`. On return `place[i]` tells op i's node and `sections` the runs of bytes; null when
   * nothing could be placed. The caller releases the buffer once its writes hold it, and marks `ops` as `HEAD_UNCOUNTED`: keys
   * not counted yet are counted here. Operations that the stamper withdraws leave `ops`.
   */
  encode(ops: Op[], tables: EncodeTables, hits: HitCounts | null, stamper: Stamper | null): Outgoing | null {
    this.#pack(ops);
    if ((this.#flags & OP_STAMP) !== 0 && stamper?.stamp(ops, this.#scratch, this.#desc) === true) {
      let kept = 0;
      for (const op of ops) if (op.state !== SETTLED) ops[kept++] = op;
      ops.length = kept;
      this.#pack(ops);
    }
    if (hits !== null) hits.frames(this.#scratch, this.#desc, ops.length);
    const { alias } = tables;
    if (this.place.length < ops.length) this.place = new Int32Array(ops.length * 2);
    if (this.sections.length < alias.length * 4) this.sections = new Int32Array(alias.length * 4);
    let target = outgoing(0);
    for (;;) {
      const bytes = native.encode(
        this.#scratch,
        this.#desc,
        ops.length,
        tables,
        target.bytes,
        this.place,
        this.sections,
      );
      if (bytes > 0) return target;
      target.release();
      if (bytes === 0) return null;
      target = outgoing(-bytes);
    }
  }

  /**
   * Encodes `ops` into one run, in order, for a node the caller knows. Returns the buffer, to be released by the caller, and
   * its length in bytes.
   */
  encodeTo(ops: readonly Op[]): { target: Outgoing; bytes: number } {
    this.#pack(ops);
    let target = outgoing(0);
    for (;;) {
      const bytes = native.encodeTo(this.#scratch, this.#desc, ops.length, target.bytes);
      if (bytes >= 0) return { target, bytes };
      target.release();
      target = outgoing(-bytes);
    }
  }

  #pack(ops: readonly Op[]): void {
    if (this.#scratch.length > SCRATCH_KEPT) this.#scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
    this.#joinable = true;
    this.#flags = 0;
    this.#units = 0;
    let units = 0;
    let words = 0;
    let flags = 0;
    for (let i = 0; i < ops.length; i += 1) {
      const op = ops[i]!;
      const { rest, template } = op;
      flags |= op.flags;
      if (template !== null) {
        units += op.weight;
        words = this.#packTemplate(op, template, words);
        let end = i + 1;
        while (end < ops.length && ops[end]!.template === template) end += 1;
        if (end > i + 1) words = this.#packRun(ops, i + 1, end, template, words);
        i = end - 1;
        continue;
      }
      const argc = rest === null ? 1 : rest.length + 1;
      if (words + 2 + argc > this.#desc.length) this.#growDesc(words + 2 + argc);
      const desc = this.#desc;
      desc[words] = op.head;
      desc[words + 1] = argc;
      words += 2;
      this.#add(op.first);
      units += desc[words++] = op.first.length;
      if (rest === null) continue;
      for (let j = 0; j < rest.length; j += 1) {
        const arg = rest[j]!;
        this.#add(arg);
        units += desc[words++] = arg.length;
      }
    }
    this.#flags |= flags;
    this.#units += units;
    if (this.#units > JOIN_UNITS || !this.#joinable || !this.#packJoined()) this.#packEach(ops);
    this.#parts.length = 0;
  }

  /** The first operation of a run, in full: of those behind it the key is enough. Gives the next word of `desc`. */
  #packTemplate(op: Op, template: Template, at: number): number {
    const args = template.with(op.first);
    if (at + 2 + args.length > this.#desc.length) this.#growDesc(at + 2 + args.length);
    const desc = this.#desc;
    let words = at;
    desc[words++] = op.head;
    desc[words++] = args.length;
    for (const arg of args) {
      this.#parts.push(arg);
      desc[words++] = arg.length;
    }
    return words;
  }

  /** Those behind it, up to `end`: their keys, what they share between the parts of two. Gives the next word of `desc`. */
  #packRun(ops: readonly Op[], begin: number, end: number, { head, tail, between }: Template, at: number): number {
    const count = end - begin;
    if (at + 3 * count > this.#desc.length) this.#growDesc(at + 3 * count);
    const desc = this.#desc;
    const run: string[] = [];
    run.length = count;
    let units = 0;
    let flags = 0;
    for (let i = 0, words = at; i < count; i += 1, words += 3) {
      const op = ops[begin + i]!;
      const part = op.first as string;
      const length = between.length + part.length;
      run[i] = part;
      flags |= op.flags;
      desc[words] = op.head | HEAD_SAME;
      desc[words + 1] = 1;
      desc[words + 2] = length;
      units += length;
    }
    this.#parts.push(head, run.join(between), tail);
    this.#units += units;
    this.#flags |= flags;
    return at + 3 * count;
  }

  #add(arg: WireArg): void {
    if (typeof arg === "string") this.#parts.push(arg);
    else this.#joinable = false;
  }

  /** The quick way: all arguments at once. False when they are not all ASCII. */
  #packJoined(): boolean {
    const text = this.#parts.join("");
    if (text.length * 3 > this.#scratch.length) this.#growScratch(text.length * 3);
    return this.#scratch.utf8Write(text, 0) === text.length;
  }

  /** The slow way: every argument by itself, lengths in bytes. */
  #packEach(ops: readonly Op[]): void {
    let words = 0;
    let at = 0;
    const write = (arg: WireArg): void => {
      const exact = arg.length > SCRATCH_BYTES;
      const room = typeof arg !== "string" ? arg.length : exact ? Buffer.byteLength(arg) : arg.length * 3;
      if (at + room > this.#scratch.length) this.#growScratch(at + room);
      let length = arg.length;
      if (typeof arg === "string") length = this.#scratch.utf8Write(arg, at);
      else this.#scratch.set(arg, at);
      this.#desc[words++] = length;
      at += length;
    };
    for (const op of ops) {
      const same = (this.#desc[words]! & HEAD_SAME) !== 0;
      words += 2;
      if (op.template === null) write(op.first);
      else if (same) write(op.template.keyOf(op.first));
      else for (const arg of op.template.with(op.first)) write(arg);
      if (op.rest !== null) for (const arg of op.rest) write(arg);
    }
  }

  #growDesc(words: number): void {
    const grown = new Int32Array(words * 2);
    grown.set(this.#desc);
    this.#desc = grown;
  }

  #growScratch(bytes: number): void {
    const grown = Buffer.allocUnsafeSlow(Math.ceil(bytes * 1.5));
    this.#scratch.copy(grown);
    this.#scratch = grown;
  }
}

/** This thread's encoder. */
export const encoder = new FrameEncoder();
