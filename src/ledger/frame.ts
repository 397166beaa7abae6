/**
 * The bytes of the spool. One frame is one group commit: it is whole, with the right checksum, or it was never acknowledged.
 * A record within can be read by its place alone.
 *
 * ```text
 * frame   0        4        8        12       16
 *         ┌────────┬────────┬────────┬────────┬─────────────┐   little endian; length: of the records;
 *         │ magic  │ length │ CRC-32 │ count  │ records …   │   CRC-32 over length, count and records
 *         └────────┴────────┴────────┴────────┴─────────────┘
 * record  0        2      3        4           6          8         16       24
 *         ┌────────┬──────┬────────┬───────────┬──────────┬─────────┬────────┬──────────┬─────────┬────┬────────┬──────┐
 *         │ length │ kind │ id len │ acct. len │ bud. len │ seq f64 │ at f64 │ amount   │ account │ id │ budget │ more │
 *         └────────┴──────┴────────┴───────────┴──────────┴─────────┴────────┴──────────┴─────────┴────┴────────┴──────┘
 * kind 1, an entry. Kinds 2 and 3 open a segment and tell what earlier ones held of an account (2) or budget (3):
 * seq is the last one, at the number of entries, and id the sum in decimal, which may need more than 64 bits.
 * kind 4, an entry of an impression; more: what is to be counted for it (JSON). kind 5, an impression that was
 * denied, no entry; more: the answer.
 * ```
 */
import { crc32 } from "node:zlib";
import type { Entry } from "./entry.js";

export const FRAME_HEAD = 16;
/** "KLSP" */
export const MAGIC = 0x50_53_4c_4b;
const RECORD_HEAD = 32;
/** Longest record without `more`: 32 bytes, an account, an id and a budget. */
export const MAX_RECORD = RECORD_HEAD + 512 + 255 + 512;
/** Bytes of `more` at most: with them, a record's length still fits its two bytes. */
export const MAX_MORE = 64_000;

export const ENTRY = 1;
export const ACCOUNT_TOTAL = 2;
export const BUDGET_TOTAL = 3;
export const IMPRESSION = 4;
export const DENIAL = 5;

/** Records in the making, with room for the frame's head in front. */
export class FrameWriter {
  #bytes = Buffer.allocUnsafe(64 << 10);
  #end = FRAME_HEAD;
  #count = 0;

  /** Adds a record; gives its place in the frame. */
  add(kind: number, { seq, account, id, amount, at, budget }: Entry, more = ""): number {
    // A UTF-16 unit has three bytes at most.
    while (this.#bytes.length - this.#end < MAX_RECORD + 3 * more.length) this.#grow();
    const start = this.#end;
    const bytes = this.#bytes;
    let end = start + RECORD_HEAD;
    const accountLength = bytes.write(account, end);
    end += accountLength;
    const idLength = bytes.write(id, end);
    end += idLength;
    const budgetLength = budget === "" ? 0 : bytes.write(budget, end);
    end += budgetLength;
    if (more !== "") end += bytes.write(more, end);
    bytes.writeUInt16LE(end - start, start);
    bytes[start + 2] = kind;
    bytes[start + 3] = idLength;
    bytes.writeUInt16LE(accountLength, start + 4);
    bytes.writeUInt16LE(budgetLength, start + 6);
    bytes.writeDoubleLE(seq, start + 8);
    bytes.writeDoubleLE(at, start + 16);
    bytes.writeBigInt64LE(amount, start + 24);
    this.#end = end;
    this.#count += 1;
    return start;
  }

  /** The finished frame; valid until the next `add`. */
  seal(): Buffer {
    const frame = this.#bytes.subarray(0, this.#end);
    frame.writeUInt32LE(MAGIC, 0);
    frame.writeUInt32LE(this.#end - FRAME_HEAD, 4);
    frame.writeUInt32LE(this.#count, 12);
    frame.writeUInt32LE(checksum(frame), 8);
    return frame;
  }

  #grow(): void {
    const wider = Buffer.allocUnsafe(this.#bytes.length * 2);
    this.#bytes.copy(wider, 0, 0, this.#end);
    this.#bytes = wider;
  }
}

function checksum(frame: Buffer): number {
  return crc32(frame.subarray(12), crc32(frame.subarray(4, 8)));
}

/** Length of the whole frame at `from`, or 0 when there is none with the right checksum. */
export function frameAt(bytes: Buffer, from: number): number {
  if (bytes.length - from < FRAME_HEAD || bytes.readUInt32LE(from) !== MAGIC) return 0;
  const length = FRAME_HEAD + bytes.readUInt32LE(from + 4);
  if (length > bytes.length - from) return 0;
  const frame = bytes.subarray(from, from + length);
  return frame.readUInt32LE(8) === checksum(frame) ? length : 0;
}

/** Where the next whole frame begins, at or after `from`; -1 when there is none. O(bytes). */
export function nextFrame(bytes: Buffer, from: number): number {
  const magic = Buffer.alloc(4);
  magic.writeUInt32LE(MAGIC, 0);
  for (let at = bytes.indexOf(magic, from); at !== -1; at = bytes.indexOf(magic, at + 1)) {
    if (frameAt(bytes, at) > 0) return at;
  }
  return -1;
}

/** Length of the record at `from`. */
export function recordLength(bytes: Buffer, from: number): number {
  return bytes.readUInt16LE(from);
}

export function recordKind(bytes: Buffer, from: number): number {
  return bytes[from + 2]!;
}

/** What the record at `from` holds behind its entry. */
export function readMore(bytes: Buffer, from: number): string {
  const behind = RECORD_HEAD + bytes.readUInt16LE(from + 4) + bytes[from + 3]! + bytes.readUInt16LE(from + 6);
  return bytes.toString("utf8", from + behind, from + recordLength(bytes, from));
}

/** The record at `from`. */
export function readRecord(bytes: Buffer, from: number): Entry {
  const account = from + RECORD_HEAD;
  const id = account + bytes.readUInt16LE(from + 4);
  const budget = id + bytes[from + 3]!;
  const budgetLength = bytes.readUInt16LE(from + 6);
  return {
    seq: bytes.readDoubleLE(from + 8),
    account: bytes.toString("utf8", account, id),
    id: bytes.toString("utf8", id, budget),
    amount: bytes.readBigInt64LE(from + 24),
    at: bytes.readDoubleLE(from + 16),
    budget: budgetLength === 0 ? "" : bytes.toString("utf8", budget, budget + budgetLength),
  };
}
