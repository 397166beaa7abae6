/**
 * What arrives over one connection: bytes are read into one reusable memory, scanned into a table of offsets, and each
 * complete reply is handed to the operation it answers.
 *
 * ```text
 * memory   [ delivered | parsed → incomplete reply | fill → room for the next read ]
 * ```
 *
 * The invariant: a reply is delivered exactly once and in order; the memory grows only as bytes really arrive, whatever
 * length the server announces, and shrinks again afterwards.
 */
import { KeylaneError } from "../errors.js";
import { native } from "../native/index.js";
import {
  Kind,
  ROW_WORDS,
  ROWS_BASE,
  SCAN_CONSUMED,
  SCAN_ROWS_NEEDED,
  SCAN_STATUS,
  ScanStatus,
} from "../native/types.js";
import type { ByteSink } from "./connector.js";
import { FIRST_TABLE, ReplyRows } from "./replies.js";
import type { Feed } from "./replies.js";

const READ_BYTES = 128 << 10;
/** A table of so many words is given back after use: 1 MiB. */
const LARGE_TABLE = 1 << 18;
const LIMITS = { maxBulk: 512 << 20, maxRows: 8 << 20, maxDepth: 128, maxLine: 64 << 10 };

/** Takes the replies of one connection. Each method reads the reply at the rows' cursor, whole. */
export interface ReplyTaker {
  /** An error reply. False when nothing asked for it. */
  error(rows: ReplyRows): boolean;
  /** Any other reply. False when nothing asked for it. */
  reply(rows: ReplyRows): boolean;
  pushed(rows: ReplyRows): void;
  /** Decoding the reply threw; the operation was taken off its queue already. False when the connection was dropped. */
  undecodable(cause: Error): boolean;
  /** All complete replies were handled. */
  handled(): void;
  /** The connection is beyond repair. */
  broken(error: KeylaneError): void;
}

export class Inbox implements ByteSink {
  bytesReceived = 0;
  /** When bytes last arrived, on the `performance.now` clock. */
  heardAt = 0;
  readonly #taker: ReplyTaker;
  readonly #scanner = native.createScanner(LIMITS);
  readonly #rows: ReplyRows;
  #memory = Buffer.allocUnsafeSlow(READ_BYTES);
  #fill = 0;
  #parsed = 0;

  constructor(taker: ReplyTaker, feed: Feed) {
    this.#taker = taker;
    this.#rows = new ReplyRows(this.#memory, feed);
  }

  /** A connection is over: what it left unfinished is forgotten, and its memory given back. */
  reset(): void {
    this.#fill = 0;
    this.#parsed = 0;
    this.#scanner.reset();
    this.#shrink();
  }

  memory(): Buffer {
    return this.#fill === 0 ? this.#memory : this.#memory.subarray(this.#fill);
  }

  received(memory: Uint8Array, count: number): void {
    if (memory.buffer !== this.#memory.buffer) {
      this.#reserve(count);
      this.#memory.set(memory.subarray(0, count), this.#fill);
    }
    this.bytesReceived += count;
    this.#fill += count;
    this.heardAt = performance.now();
    if (!this.#scan()) return;
    this.#compact();
    this.#taker.handled();
  }

  /** Scans and delivers all complete replies. False when the connection has to be dropped. */
  #scan(): boolean {
    const rows = this.#rows;
    for (;;) {
      const count = this.#scanner.scan(this.#memory, this.#parsed, this.#fill, rows.table);
      if (count > 0 && !this.#deliver(count)) return false;
      this.#parsed = rows.table[SCAN_CONSUMED]!;
      const status = rows.table[SCAN_STATUS]!;
      if (status === ScanStatus.MORE) return true;
      if (status === ScanStatus.BAD) return this.#drop("the server sent bytes that are not a reply");
      if (count === 0) rows.table = new Int32Array(ROWS_BASE + ROW_WORDS * 2 * rows.table[SCAN_ROWS_NEEDED]!);
    }
  }

  /**
   * One try block for the whole run: a reply that cannot be decoded is passed over and the run goes on. False when the
   * connection has been dropped.
   */
  #deliver(count: number): boolean {
    const rows = this.#rows;
    const taker = this.#taker;
    rows.run += 1;
    rows.runStart = this.#parsed;
    rows.runEnd = rows.table[SCAN_CONSUMED]!;
    rows.at = ROWS_BASE;
    let begin = ROWS_BASE;
    for (let done = 0; done < count;) {
      try {
        for (; done < count; done += 1) {
          const kind = rows.kind();
          begin = rows.at;
          if (kind === Kind.PUSH) {
            taker.pushed(rows);
            rows.at = begin;
            rows.skip();
          } else if (!(kind === Kind.ERROR || kind === Kind.BLOB_ERROR ? taker.error(rows) : taker.reply(rows))) {
            return this.#drop("the server sent a reply that nothing asked for");
          }
        }
      } catch (cause) {
        rows.at = begin;
        rows.skip();
        done += 1;
        if (!taker.undecodable(cause as Error)) return false;
      }
    }
    return true;
  }

  #drop(message: string): false {
    this.#taker.broken(new KeylaneError("KEYLANE_ERR_PROTOCOL", message));
    return false;
  }

  /** Moves an incomplete reply to the front of the memory. */
  #compact(): void {
    const left = this.#fill - this.#parsed;
    if (left === 0) this.#shrink();
    else if (left * 2 > this.#memory.length) this.#replace(this.#memory.length * 2, left);
    else if (this.#parsed > 0) this.#memory.copyWithin(0, this.#parsed, this.#fill);
    this.#fill = left;
    this.#parsed = 0;
  }

  #shrink(): void {
    if (this.#memory.length > READ_BYTES) this.#replace(READ_BYTES, 0);
    if (this.#rows.table.length > LARGE_TABLE) this.#rows.table = new Int32Array(FIRST_TABLE);
  }

  #reserve(bytes: number): void {
    if (this.#fill + bytes <= this.#memory.length) return;
    const left = this.#fill - this.#parsed;
    this.#replace(2 * (left + bytes), left);
    this.#fill = left;
    this.#parsed = 0;
  }

  #replace(size: number, left: number): void {
    const memory = Buffer.allocUnsafeSlow(size);
    if (left > 0) this.#memory.copy(memory, 0, this.#parsed, this.#parsed + left);
    this.#memory = memory;
    this.#rows.buffer = memory;
  }
}
