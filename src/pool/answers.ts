/**
 * Replies, written by a worker and read by the caller; the bytes are drawn in `protocol.ts`. What a server sent goes on as it
 * is: its bytes and the scanner's rows, so that the caller reads every reply by the very shape it would use on a connection of
 * its own. The bytes of a whole run of replies are copied at once.
 */
import { KeylaneError } from "../errors.js";
import type { SerializedError } from "../errors.js";
import { ReplyRows } from "../lane/replies.js";
import { KIND_HIGH, Kind, ROW_WORDS } from "../native/types.js";
import type { Reply } from "../types.js";
import { roundUp } from "./crates.js";
import type { Crates } from "./crates.js";
import type { Kept } from "./passed.js";
import { ERROR_ROWS, HEADER_BYTES, HEADER_WORDS, KEPT_WORDS, RP_AT, RP_COUNT, RP_TAKEN, RP_WORDS } from "./protocol.js";

const EMPTY = Buffer.alloc(0);
const NO_WORDS = new Int32Array(0);
/** Longer runs are not copied whole: many messages may hold replies of one run. */
const WHOLE_RUN = 256 << 10;
const FIRST_BYTES = 16 << 10;

export class AnswerWriter {
  count = 0;
  /** Whether runs are copied whole: they are when one caller gets all replies. */
  alone = true;
  readonly #crates: Crates;
  #crate: ArrayBuffer | null = null;
  #bytes: Buffer = Buffer.alloc(0);
  /** End of the bytes written. */
  #end = HEADER_BYTES;
  #words = new Int32Array(8192);
  #at = 0;
  /** The run whose bytes are in the message, and how far they moved. */
  #rows: ReplyRows | null = null;
  #run = 0;
  #moved = 0;

  constructor(crates: Crates) {
    this.#crates = crates;
  }

  /** The reply in `rows.table[from, to)`. */
  reply(id: number, rows: ReplyRows, from: number, to: number): void {
    this.#begin(id, to - from);
    this.#copy(rows, from, to);
  }

  /** As `reply`, behind where the value is kept. */
  loaded(id: number, { index, proof, check }: Kept, rows: ReplyRows, from: number, to: number): void {
    this.#begin(id, to - from + KEPT_WORDS);
    const words = this.#words;
    const at = this.#at;
    words[at] = index;
    words[at + 1] = proof;
    words[at + 2] = check;
    this.#at = at + KEPT_WORDS;
    this.#copy(rows, from, to);
  }

  /** A reply that is JavaScript already. */
  value(id: number, value: Reply): void {
    this.#begin(id, 0);
    const at = this.#at;
    this.#value(value);
    this.#words[at - 1] = this.#at - at;
  }

  error(id: number, error: unknown): void {
    const told =
      error instanceof KeylaneError
        ? error
        : new KeylaneError("KEYLANE_ERR_INTERNAL", String((error as Error)?.message ?? error), { cause: error });
    const text = JSON.stringify(told.toJSON());
    this.#begin(id, 2);
    this.#words[this.#at - 1] = ERROR_ROWS;
    const start = this.#end - HEADER_BYTES;
    const length = this.#text(text);
    this.#words[this.#at] = start;
    this.#words[this.#at + 1] = length;
    this.#at += 2;
  }

  /** The message; the writer is empty afterwards. `taken` counts the bytes of requests read so far. */
  finish(taken: number): ArrayBuffer {
    const answersAt = roundUp(this.#end, 4);
    this.#room(answersAt - this.#end + this.#at * 4);
    const crate = this.#crate!;
    const header = new Int32Array(crate, 0, HEADER_WORDS);
    header[RP_COUNT] = this.count;
    header[RP_WORDS] = this.#at;
    header[RP_AT] = answersAt;
    header[RP_TAKEN] = taken;
    new Int32Array(crate, answersAt, this.#at).set(this.#words.subarray(0, this.#at));
    this.#crate = null;
    this.#bytes = Buffer.alloc(0);
    this.#end = HEADER_BYTES;
    this.#at = 0;
    this.count = 0;
    this.#rows = null;
    return crate;
  }

  #begin(id: number, words: number): void {
    this.#fit(words + 2);
    this.#words[this.#at] = id;
    this.#words[this.#at + 1] = words;
    this.#at += 2;
    this.count += 1;
  }

  #fit(words: number): void {
    if (this.#at + words <= this.#words.length) return;
    const grown = new Int32Array(2 * (this.#at + words));
    grown.set(this.#words);
    this.#words = grown;
  }

  #copy(rows: ReplyRows, from: number, to: number): void {
    const { table } = rows;
    let moved = this.#moved;
    if (this.#rows !== rows || this.#run !== rows.run) {
      const whole = this.alone && rows.runEnd - rows.runStart <= WHOLE_RUN;
      moved = whole ? this.#takeRun(rows) : this.#takeReply(rows, from, to);
    }
    const words = this.#words;
    let at = this.#at;
    for (let row = from; row < to; row += ROW_WORDS) {
      words[at] = table[row]!;
      words[at + 1] = table[row + 1]! + moved;
      words[at + 2] = table[row + 2]!;
      at += ROW_WORDS;
    }
    this.#at = at;
  }

  #takeRun(rows: ReplyRows): number {
    this.#moved = this.#takeBytes(rows.buffer, rows.runStart, rows.runEnd);
    this.#rows = rows;
    this.#run = rows.run;
    return this.#moved;
  }

  #takeReply({ table, buffer }: ReplyRows, from: number, to: number): number {
    let start = 0x7fff_ffff;
    let end = 0;
    for (let row = from; row < to; row += ROW_WORDS) {
      if (WITHOUT_TEXT.has(table[row]! & ~KIND_HIGH)) continue;
      start = Math.min(start, table[row + 1]!);
      end = Math.max(end, table[row + 1]! + table[row + 2]!);
    }
    return end > start ? this.#takeBytes(buffer, start, end) : 0;
  }

  /** Copies bytes to the end of the message; returns how far they moved. */
  #takeBytes(source: Buffer, start: number, end: number): number {
    this.#room(end - start);
    this.#bytes.set(source.subarray(start, end), this.#end);
    const moved = this.#end - HEADER_BYTES - start;
    this.#end += end - start;
    return moved;
  }

  #text(text: string): number {
    this.#room(text.length * 3);
    const length = this.#bytes.utf8Write(text, this.#end);
    this.#end += length;
    return length;
  }

  #room(bytes: number): void {
    if (this.#crate !== null && this.#end + bytes <= this.#crate.byteLength) return;
    const crate = this.#crates.take(
      this.#crate === null ? Math.max(FIRST_BYTES, this.#end + bytes) : 2 * (this.#end + bytes),
    );
    const grown = Buffer.from(crate);
    if (this.#crate !== null) {
      this.#bytes.copy(grown, 0, 0, this.#end);
      this.#crates.give(this.#crate);
    }
    this.#crate = crate;
    this.#bytes = grown;
  }

  #row(kind: number, start: number, length: number): void {
    this.#fit(ROW_WORDS);
    this.#words[this.#at] = kind;
    this.#words[this.#at + 1] = start;
    this.#words[this.#at + 2] = length;
    this.#at += ROW_WORDS;
  }

  #textRow(kind: number, text: string): void {
    const start = this.#end - HEADER_BYTES;
    this.#row(kind | KIND_HIGH, start, this.#text(text));
  }

  #value(value: Reply): void {
    if (value === null) this.#row(Kind.NULL, 0, 0);
    else if (typeof value === "string") this.#textRow(Kind.BULK, value);
    else if (typeof value === "bigint") this.#textRow(Kind.INT, value.toString());
    else if (typeof value === "boolean") this.#row(Kind.BOOL, 0, value ? 1 : 0);
    else if (typeof value === "number") {
      if ((value | 0) === value) this.#row(Kind.INT32, 0, value);
      else this.#textRow(Kind.DOUBLE, String(value));
    } else if (value instanceof Uint8Array) {
      const start = this.#end - HEADER_BYTES;
      this.#takeBytes(value as Buffer, 0, value.length);
      this.#row(Kind.BULK | KIND_HIGH, start, value.length);
    } else if (Array.isArray(value)) {
      this.#row(Kind.ARRAY, 0, value.length);
      for (const item of value) this.#value(item);
    } else if (value instanceof Error) this.#textRow(Kind.ERROR, value.message);
    else {
      const entries = Object.entries(value);
      this.#row(Kind.MAP, 0, entries.length * 2);
      for (const [field, item] of entries) {
        this.#textRow(Kind.BULK, field);
        this.#value(item);
      }
    }
  }
}

const WITHOUT_TEXT: ReadonlySet<number> = new Set([
  Kind.INT32,
  Kind.NULL,
  Kind.BOOL,
  Kind.ARRAY,
  Kind.MAP,
  Kind.SET,
  Kind.PUSH,
  Kind.ATTRIBUTE,
  Kind.STREAM,
]);

/** Reads reply messages of one worker; `rows` stands at the answer's reply when `next` says that it is one. */
export class AnswerReader {
  readonly rows = new ReplyRows(EMPTY, { feeder: 0, healthy: true });
  /** Answers of the message that are not read. */
  left = 0;
  taken = 0;
  #crate: ArrayBuffer | null = null;
  #next = 0;

  /** Begins with a message. */
  open(crate: ArrayBuffer): void {
    const header = new Int32Array(crate, 0, HEADER_WORDS);
    const at = header[RP_AT]!;
    this.#crate = crate;
    this.left = header[RP_COUNT]!;
    this.taken = header[RP_TAKEN]!;
    this.rows.table = new Int32Array(crate, at, header[RP_WORDS]);
    this.rows.buffer = Buffer.from(crate, HEADER_BYTES, at - HEADER_BYTES);
    this.#next = 0;
  }

  /** Moves to the next answer; gives its id. */
  next(): number {
    const { table } = this.rows;
    const at = this.#next;
    const words = table[at + 1]!;
    this.rows.at = at + 2;
    this.left -= 1;
    this.#next = at + 2 + (words === ERROR_ROWS ? 2 : words);
    return table[at]!;
  }

  /** Whether the answer is an error of keylane's own. */
  get failed(): boolean {
    return this.rows.table[this.rows.at - 1] === ERROR_ROWS;
  }

  error(): KeylaneError {
    const { table, at, buffer } = this.rows;
    const start = table[at]!;
    const told = JSON.parse(buffer.utf8Slice(start, start + table[at + 1]!)) as SerializedError;
    const cause = told.cause === undefined ? undefined : new Error(told.cause);
    return new KeylaneError(told.code, told.message, { ...told, cause });
  }

  /** Forgets the message; gives its memory. */
  close(): ArrayBuffer {
    const crate = this.#crate!;
    this.#crate = null;
    this.rows.buffer = EMPTY;
    this.rows.table = NO_WORDS;
    return crate;
  }
}
