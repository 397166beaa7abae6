/**
 * The one interface between TypeScript and the byte work: slots, routes, frames, replies.
 *
 * Two implementations answer it with identical bytes: the Rust addon (`crates/addon`) and `portable.ts`. Everything that
 * crosses is a string, a typed array the caller owns, or an int; nothing is retained by the callee beyond the call, so a
 * caller may pool and move its buffers as it likes. All offsets are bytes from the start of the array passed.
 *
 * ```text
 * encode():   scratch  [ arg bytes of op 0 | of op 1 | … ]            every argument back to back, UTF-8
 *             desc     [ head argc len… | head argc len… | … ]         one group of words an operation
 *             out      [ frames for node 3 | frames for node 0 | … ]   grouped by node, issue order kept inside
 *             place    [ node or PLACE_* of op 0, of op 1, … ]
 *             sections [ node offset bytes ops | node … ]              one group of 4 words a node that got frames
 *
 * scan():     rows     [ 8 header words | kind start length | kind start length | … ]
 * ```
 */

/** Opcodes with a preassembled command name. `GENERIC` takes the name as its first argument. */
export const Opcode = {
  GENERIC: 0,
  GET: 1,
  SET: 2,
  DEL: 3,
  INCRBY: 4,
  EXPIRE: 5,
  HGET: 6,
  HINCRBY: 7,
  EVALSHA: 8,
  PEXPIRE: 9,
  PTTL: 10,
  EXISTS: 11,
  /** Frames made by the caller: argument 0 is the key that decides the slot, argument 1 goes out as it is. */
  RAW: 12,
} as const;

/**
 * The head word of an operation: `opcode | flags << 8 | keyIndex << 16`.
 * `keyIndex` is the position, among the operation's arguments (the name of a GENERIC command counts as argument 0), of the
 * key that decides the slot; `KEY_NONE` when there is none.
 */
export const HEAD_FLAGS_SHIFT = 8;
export const HEAD_KEY_SHIFT = 16;
export const KEY_NONE = 0x7fff;

/** Set on operations that a replica may answer; `alias` then redirects the primary to the node to read from. */
export const FLAG_READ = 1;
/** Precede the frame with `ASKING`, whose reply the caller must expect. */
export const FLAG_ASKING = 2;

/** Its key is not to be counted as hit: it was counted before, or it is no caller's. Means nothing to the encoders. */
export const FLAG_UNCOUNTED = 4;

/** Its one argument is its key; its other arguments are those of the operation before, which has the same opcode and key index. */
export const FLAG_SAME = 8;

/** `place` of an operation whose slot has no known node. */
export const PLACE_UNASSIGNED = -1;
/** `place` of an operation whose slot is held (its bit is set in `held`). */
export const PLACE_HELD = -2;
/** `place` of an operation without a key when no `target` was given. */
export const PLACE_KEYLESS = -3;

/** Words per section in `sections`. */
export const SECTION_WORDS = 4;

/** Header words of the table that `scan` fills; rows follow from word `ROWS_BASE`, `ROW_WORDS` each. */
export const ROWS_BASE = 8;
export const ROW_WORDS = 3;
/** Header word: offset just past the last complete reply; bytes from here on must be presented again. */
export const SCAN_CONSUMED = 0;
/** Header word: rows that belong to complete replies. */
export const SCAN_ROWS = 1;
/** Header word: one of `ScanStatus`. */
export const SCAN_STATUS = 2;
/** Header word: bytes known to be missing to finish the reply in progress, at least; 0 when unknown. */
export const SCAN_NEEDED = 3;
/** Header word: rows the table must hold when the status is `TABLE_FULL` and no reply fitted. */
export const SCAN_ROWS_NEEDED = 4;
/** Header word: offset of the offending byte when the status is `BAD`. */
export const SCAN_BAD_AT = 5;

export const ScanStatus = {
  /** All complete replies were reported; more bytes are needed for the next one (or none are left). */
  MORE: 0,
  /** The table is full: handle the rows, then call again from `SCAN_CONSUMED`. */
  TABLE_FULL: 1,
  /** The bytes are not RESP, or break a limit; the connection is beyond repair. */
  BAD: 2,
} as const;

/**
 * Row kinds. `length` is bytes for texts, the number of direct children for aggregates (a map of n pairs has 2n), the
 * value itself for `INT32` and `BOOL`. Children follow their parent in pre-order. An attribute row and its children come
 * before the reply they annotate and belong to it.
 */
export const Kind = {
  SIMPLE: 1,
  ERROR: 2,
  /** An integer that fits 32 bits signed: `length` is the value, `start` its first digit (or sign). */
  INT32: 3,
  /** Any other integer: text of `length` bytes at `start`. */
  INT: 4,
  BULK: 5,
  /** `_`, `$-1` or `*-1`. */
  NULL: 6,
  ARRAY: 7,
  MAP: 8,
  SET: 9,
  PUSH: 10,
  BOOL: 11,
  DOUBLE: 12,
  BIGNUM: 13,
  BLOB_ERROR: 14,
  /** `start` and `length` skip the three-letter format and its colon. */
  VERBATIM: 15,
  ATTRIBUTE: 16,
  /** A streamed string (`$?`): `length` BULK rows follow, its pieces in order. */
  STREAM: 17,
} as const;
/** Added to the kind of a text row that holds a byte ≥ 0x80. */
export const KIND_HIGH = 0x100;

/** What `Scanner` refuses, so that a hostile peer cannot make it spend. */
export interface ScanLimits {
  /** Longest declared bulk, in bytes. */
  maxBulk: number;
  /** Most rows in one top-level reply. */
  maxRows: number;
  /** Deepest nesting. */
  maxDepth: number;
  /** Longest line (simple string, error, number), in bytes. */
  maxLine: number;
}

/** Resumable reader of one connection's replies. Not re-entrant; one per connection. */
export interface Scanner {
  /**
   * Reads `buf[from, to)` into `rows` and returns the number of complete top-level replies (pushes included).
   *
   * When a reply is cut off, the next call must present it again from `SCAN_CONSUMED` on (moved anywhere, with more bytes
   * behind); the scanner remembers how far it got, so no byte is scanned twice however small the pieces. Every row of a
   * reply that is complete carries offsets valid in the `buf` of this call.
   */
  scan(buf: Uint8Array, from: number, to: number, rows: Int32Array): number;
  /** Forgets a partial reply: a new connection begins. */
  reset(): void;
}

/** How keys without a configured prefix find a domain. Domains are indices into the router's list. */
export type FallbackSpec =
  | { kind: "reject" }
  | { kind: "domain"; domain: number }
  /** Rendezvous: every 14-bit slot goes to the domain with the highest xxh3-64 of `name + "\0" + slot (LE u16)`. */
  | { kind: "hash"; domains: number[]; names: string[] }
  /** MD5 of the whole key as a big-endian integer, modulo the number of domains, in their order. */
  | { kind: "md5-modulo"; domains: number[] };

export interface RouterSpec {
  /** UTF-8 prefixes, distinct; each with the index of its domain. The empty prefix matches every key. */
  prefixes: { prefix: string; domain: number }[];
  fallback: FallbackSpec;
}

/** `domain` field of a route when the key matched nothing and the fallback rejects. */
export const DOMAIN_NONE = 0x3ff;
/** `prefix` word of a route when no prefix matched. */
export const PREFIX_NONE = -1;

/** Longest-prefix routing and slots in one pass over a key's bytes. Cost is bound by the prefix's length, not their number. */
export interface NativeRouter {
  /** `slot | domain << 14` of a key (a string counts as its UTF-8 bytes, lone surrogates as U+FFFD). */
  route(key: string | Uint8Array): number;
  /** Index into `RouterSpec.prefixes` of the longest match, or `PREFIX_NONE`. */
  matched(key: string | Uint8Array): number;
  /**
   * Routes `count` keys joined into `text`; `lengths[i]` is key i's length in UTF-16 units. Writes two words a key to `out`:
   * `slot | domain << 14`, then the matched prefix's index or `PREFIX_NONE`.
   */
  routeBatch(text: string, lengths: Int32Array, count: number, out: Int32Array): void;
}

export interface EncodeTables {
  /** 16,384 shared words: slot → node, or a negative number when unassigned. Read with relaxed atomics. */
  slots: Int32Array;
  /** 512 words: bit `slot & 31` of word `slot >> 5` holds a slot back. */
  held: Int32Array;
  /** node → node that answers its reads this turn; identity when reads go to primaries. */
  alias: Int32Array;
}

export interface NativeCore {
  readonly kind: "rust" | "portable";
  /** Slot of a key: CRC16/XMODEM of the hash tag, or of the whole key, modulo 16,384. */
  slot(key: string | Uint8Array): number;
  /** Slots of `count` keys joined into `text`, as in `routeBatch`; one word a key. */
  slotBatch(text: string, lengths: Int32Array, count: number, out: Int32Array): void;
  /** xxh3-64 (seed 0) of the key's bytes. */
  hash64(key: string | Uint8Array): bigint;
  createRouter(spec: RouterSpec): NativeRouter;
  createScanner(limits: ScanLimits): Scanner;
  /**
   * Slots, partitions by node and encodes a turn's operations; see the drawing above. Returns the bytes written to `out`
   * (0 when nothing could be placed), or, when `out` is too small, minus the bytes it must hold (nothing is written then).
   * `sections` must have room for `SECTION_WORDS` words per node in `alias`, `place` for `count` words.
   */
  encode(
    scratch: Uint8Array,
    desc: Int32Array,
    count: number,
    tables: EncodeTables,
    out: Uint8Array,
    place: Int32Array,
    sections: Int32Array,
  ): number;
  /** As `encode`, but every operation goes into one run for a given node: no slot is computed, order is kept. */
  encodeTo(scratch: Uint8Array, desc: Int32Array, count: number, out: Uint8Array): number;
}
