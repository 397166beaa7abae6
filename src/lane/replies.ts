/**
 * Rows of the reply scan → JavaScript values. A `ReplyRows` is one connection's cursor over the table the scanner filled:
 * every `read*` starts at `at` and leaves `at` just past the reply it read, so replies are judged one by one. Texts are
 * sliced from the connection's buffer, which is reused: nothing returned refers to it.
 */
import { KeylaneError } from "../errors.js";
import { KIND_HIGH, Kind, ROW_WORDS, ROWS_BASE } from "../native/types.js";
import type { Reply } from "../types.js";
import { setOwn } from "./codec.js";
import type { Codec } from "./codec.js";
import { replyError } from "./refusal.js";

/** Turns one non-error reply into what the caller gets. Kept few, so that the call site stays fast. */
export interface Shape {
  read(rows: ReplyRows): unknown;
}

/** A call that takes its own outcome: one promise less, and no closure, for calls that make something of their reply. */
export interface Asking extends Shape {
  /** What `read` gave, or a rejected promise. Called once. */
  settle(value: unknown): void;
}

/** Words of a table to begin with. */
export const FIRST_TABLE = ROWS_BASE + 4096 * ROW_WORDS;

/** What readers of a reply need to know of the connection it came over. */
export interface Feed {
  /** Number under which values from here are kept coherent; 0 when nothing tells of their changes. */
  feeder: number;
  /** False for a replica: a key that it lacks may exist (its slot is being moved, or it has lost its data). */
  healthy: boolean;
}

export class ReplyRows {
  readonly feed: Feed;
  table = new Int32Array(FIRST_TABLE);
  buffer: Buffer;
  at = ROWS_BASE;
  /** Texts come as strings (default) or as buffers. */
  asBuffers = false;
  /** Number of the run of replies being read, and the bytes it spans: `buffer[runStart, runEnd)`. */
  run = 0;
  runStart = 0;
  runEnd = 0;

  constructor(buffer: Buffer, feed: Feed) {
    this.buffer = buffer;
    this.feed = feed;
  }

  /** Kind of the reply at the cursor, without the high-byte mark; skips an attribute before it. */
  kind(): number {
    while ((this.table[this.at]! & ~KIND_HIGH) === Kind.ATTRIBUTE) this.skip();
    return this.table[this.at]! & ~KIND_HIGH;
  }

  /** Reads the reply at the cursor, whatever it is. Error replies inside aggregates come as values. */
  value(): Reply {
    const kind = this.kind();
    const start = this.table[this.at + 1]!;
    const length = this.table[this.at + 2]!;
    switch (kind) {
      case Kind.NULL:
        this.at += ROW_WORDS;
        return null;
      case Kind.INT32:
        this.at += ROW_WORDS;
        return length;
      case Kind.INT:
      case Kind.BIGNUM:
        return integerOf(this.text());
      case Kind.DOUBLE:
        return doubleOf(this.text());
      case Kind.BOOL:
        this.at += ROW_WORDS;
        return length === 1;
      case Kind.ERROR:
      case Kind.BLOB_ERROR:
        return replyError(this.text(), {});
      case Kind.MAP:
        return this.#map(length);
      case Kind.ARRAY:
      case Kind.SET:
      case Kind.PUSH:
        return this.#list(length);
      case Kind.STREAM:
        return this.#stream(length);
      case Kind.SIMPLE:
        return this.text();
      default:
        if (!this.asBuffers) return this.text();
        this.at += ROW_WORDS;
        return Buffer.from(this.buffer.subarray(start, start + length));
    }
  }

  /** Whether the reply at the cursor is an error. */
  isError(): boolean {
    const kind = this.kind();
    return kind === Kind.ERROR || kind === Kind.BLOB_ERROR;
  }

  /** Direct children of the aggregate at the cursor. */
  length(): number {
    return this.table[this.at + 2]!;
  }

  /** The text row at the cursor as a view of the connection's buffer, valid until the next read. */
  bytes(): Buffer {
    const start = this.table[this.at + 1]!;
    const end = start + this.table[this.at + 2]!;
    this.at += ROW_WORDS;
    return this.buffer.subarray(start, end);
  }

  /** Steps into the aggregate at the cursor: its first element is next. Gives their number. */
  enter(): number {
    const length = this.table[this.at + 2]!;
    this.at += ROW_WORDS;
    return length;
  }

  /** The text row at the cursor as a string. */
  text(): string {
    const start = this.table[this.at + 1]!;
    const end = start + this.table[this.at + 2]!;
    const high = (this.table[this.at]! & KIND_HIGH) !== 0;
    this.at += ROW_WORDS;
    return high ? this.buffer.utf8Slice(start, end) : this.buffer.latin1Slice(start, end);
  }

  /** Passes over the reply (or attribute) at the cursor. */
  skip(): void {
    let pending = 1;
    while (pending > 0) {
      const kind = this.table[this.at]! & ~KIND_HIGH;
      const aggregate = (kind >= Kind.ARRAY && kind <= Kind.PUSH) || kind === Kind.ATTRIBUTE || kind === Kind.STREAM;
      pending += (aggregate ? this.table[this.at + 2]! : 0) - 1;
      this.at += ROW_WORDS;
    }
  }

  #list(length: number): Reply[] {
    this.at += ROW_WORDS;
    const list: Reply[] = [];
    for (let i = 0; i < length; i += 1) list.push(this.value());
    return list;
  }

  #map(length: number): Reply {
    this.at += ROW_WORDS;
    const made: Record<string, Reply> = {};
    const { asBuffers } = this;
    for (let i = 0; i < length; i += 2) {
      this.asBuffers = false;
      const field = String(this.value());
      this.asBuffers = asBuffers;
      setOwn(made, field, this.value());
    }
    return made;
  }

  #stream(length: number): Reply {
    this.at += ROW_WORDS;
    const pieces: Buffer[] = [];
    for (let i = 0; i < length; i += 1, this.at += ROW_WORDS) {
      const start = this.table[this.at + 1]!;
      pieces.push(this.buffer.subarray(start, start + this.table[this.at + 2]!));
    }
    const whole = Buffer.concat(pieces);
    return this.asBuffers ? whole : whole.toString("utf8");
  }
}

/** A decimal text as number, or as bigint past the safe range. */
export function integerOf(digits: string): number | bigint {
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : BigInt(digits);
}

function doubleOf(text: string): number {
  if (text === "inf") return Infinity;
  return text === "-inf" ? -Infinity : Number(text);
}

/** A reply of a kind that the command cannot have: either it answers another one, or the server is broken. */
export function mismatch(wanted: string, kind: number): never {
  throw new KeylaneError("KEYLANE_ERR_PROTOCOL", `expected ${wanted}, the server sent a reply of kind ${kind}`);
}

/** A stored value, by the domain's codec; null when absent. */
export class ValueShape implements Shape {
  readonly codec: Codec;

  constructor(codec: Codec) {
    this.codec = codec;
  }

  read(rows: ReplyRows): unknown {
    const { table, at } = rows;
    const kind = table[at]!;
    if ((kind & ~KIND_HIGH) === Kind.BULK) {
      const start = table[at + 1]!;
      rows.at = at + ROW_WORDS;
      return this.codec.decode(rows.buffer, start, start + table[at + 2]!, kind !== Kind.BULK);
    }
    if (kind === Kind.NULL) {
      rows.at = at + ROW_WORDS;
      return null;
    }
    return this.#rare(rows);
  }

  #rare(rows: ReplyRows): unknown {
    const kind = rows.kind();
    if (kind === Kind.STREAM) {
      rows.asBuffers = true;
      const whole = rows.value() as Buffer;
      rows.asBuffers = false;
      return this.codec.decode(whole, 0, whole.length, true);
    }
    return kind === Kind.BULK || kind === Kind.NULL ? this.read(rows) : mismatch("a value", kind);
  }
}

/** Any reply as it is; the shape of `command()`. */
export const RAW_SHAPE: Shape = { read: (rows) => rows.value() };

/** As `RAW_SHAPE` with texts as buffers. */
export const BUFFER_SHAPE: Shape = {
  read(rows) {
    rows.asBuffers = true;
    try {
      return rows.value();
    } finally {
      rows.asBuffers = false;
    }
  },
};

/** An integer: number, or bigint past 2^53. */
export const INTEGER_SHAPE: Shape = {
  read(rows) {
    const kind = rows.kind();
    const value = rows.value();
    return typeof value === "number" || typeof value === "bigint" ? value : mismatch("an integer", kind);
  },
};

/** 1 → true, 0 → false. */
export const FLAG_SHAPE: Shape = { read: (rows) => Number(INTEGER_SHAPE.read(rows)) > 0 };

/** OK → true, null (a condition was not met) → false. */
export const STORED_SHAPE: Shape = {
  read(rows) {
    const kind = rows.kind();
    const value = rows.value();
    return value === "OK" || (value === null ? false : mismatch("OK", kind));
  },
};

/** Remaining life: milliseconds, `Infinity` without one, null when the key is absent. */
export const TTL_SHAPE: Shape = {
  read(rows) {
    const value = Number(INTEGER_SHAPE.read(rows));
    if (value === -2) return null;
    return value === -1 ? Infinity : value;
  },
};

/** Field–value pairs as an object, whether the server sent a map (RESP3) or a flat array (RESP2). */
export const PAIRS_SHAPE: Shape = {
  read(rows) {
    const value = rows.value();
    if (!Array.isArray(value)) return value;
    const made: Record<string, Reply> = {};
    for (let i = 0; i + 1 < value.length; i += 2) setOwn(made, String(value[i]), value[i + 1]);
    return made;
  },
};
