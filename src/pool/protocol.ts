/**
 * What caller and worker say to each other: one ArrayBuffer a turn in each direction, flat, transferred, never cloned. Reading
 * is slicing. The invariant: every operation of a request gets exactly one reply under its id, which is the request's base plus
 * its place, and a base is used again when all its replies are read.
 *
 * ```text
 * request  [ header, 8 words | operations | lengths | cancelled ids | arguments … ]
 *   header     operations, their words, lengths, cancelled, flags | domain << 8, stamp (ms), bytes of arguments, base
 *   operation  GET      [ meta ]        none at all where all are GETs, or all FETCHes, of one domain, which the header names
 *              FETCH    [ meta ]
 *              others   [ meta | head | timeout (ms, 0: none) | extra | arguments ]
 *   meta       kind | flags << 4 | domain << 10
 *   length     bytes << 1 | 1 if any is ≥ 0x80, one word an argument, in the order of the operations
 *
 * reply    [ header, 8 words | bytes … | pad to 4 | answers ]
 *   header     answers, their words, offset of the answers, bytes of requests taken so far (wraps), – …
 *   answer     [ id | words w | w words of rows ]     rows as the reply scanner writes them, offsets from the bytes
 *              [ id | w | index | proof | check | w - 3 words of rows ]     of FETCH and LOAD: where the value is kept
 *              [ id | -1 | offset | bytes ]           a KeylaneError as JSON
 * ```
 *
 * Timeouts count from the request's stamp, the clock of which all threads of a process share, so the time that a message
 * waited for its worker is part of them.
 */
import { FLAG_SHAPE, INTEGER_SHAPE, STORED_SHAPE, TTL_SHAPE, ValueShape } from "../lane/replies.js";
import type { Shape } from "../lane/replies.js";

export const HEADER_WORDS = 8;
export const HEADER_BYTES = HEADER_WORDS * 4;

/** Header words of a request. */
export const RQ_COUNT = 0;
export const RQ_WORDS = 1;
export const RQ_LENGTHS = 2;
export const RQ_CANCELLED = 3;
export const RQ_FLAGS = 4;
export const RQ_STAMP = 5;
export const RQ_BYTES = 6;
export const RQ_BASE = 7;
/** `RQ_FLAGS`: no argument holds a byte ≥ 0x80. */
export const RQ_ASCII = 1;
/** `RQ_FLAGS`: all operations are GETs, or all are FETCHes, of the domain in the flags' upper bits. */
export const RQ_GETS = 2;
export const RQ_FETCHES = 4;
export const RQ_DOMAIN_SHIFT = 8;

/** Header words of a reply. */
export const RP_COUNT = 0;
export const RP_WORDS = 1;
export const RP_AT = 2;
export const RP_TAKEN = 3;

/** Words before a value that the worker keeps: index of its way, proof, and when to look again. */
export const KEPT_WORDS = 3;

/** Words of an answer that is an error, instead of the number of row words. */
export const ERROR_ROWS = -1;

/** What an operation is. */
export const OpKind = {
  /** A GET by the domain's codec, with the domain's own deadline. */
  GET: 0,
  CALL: 1,
  /** A value that the worker keeps in the shared cache; answered by where it is kept, and the value. */
  LOAD: 2,
  /** `extra` is the number of commands; arguments: key, frames. */
  TRANSACTION: 3,
  /** `extra` is the slot; argument 0 is the name. */
  BLOCK: 4,
  /** A GET that missed the shared cache, with the domain's own deadline: the worker decides who loads. Answered as LOAD. */
  FETCH: 5,
} as const;

/** Flags of an operation's meta word. */
export const OP_CANCELLABLE = 1;
/** The last argument is the source of the script. */
export const OP_SCRIPT = 2;
/** Texts of the reply are wanted as bytes. */
export const OP_BUFFERS = 4;

export const KIND_BITS = 4;
export const KIND_MASK = 15;
export const FLAG_BITS = 6;
export const FLAGS_MASK = 63;
export const DOMAIN_SHIFT = KIND_BITS + FLAG_BITS;

/** What kind of reply a CALL can have (`extra`): one of another kind means that connection and operations are out of step. */
export const Expect = { ANY: 0, VALUE: 1, INTEGER: 2, FLAG: 3, STORED: 4 } as const;

/** What a shape expects. */
export function expectationOf(shape: Shape): number {
  if (shape instanceof ValueShape) return Expect.VALUE;
  if (shape === INTEGER_SHAPE || shape === TTL_SHAPE) return Expect.INTEGER;
  if (shape === FLAG_SHAPE) return Expect.FLAG;
  return shape === STORED_SHAPE ? Expect.STORED : Expect.ANY;
}

/** Milliseconds of the clock that all threads of the process share, as a positive number of 31 bits that wraps. */
export function processMs(): number {
  return Number((process.hrtime.bigint() / 1_000_000n) & 0x7fff_ffffn);
}

/** Milliseconds from one `processMs` to a later one. */
export function elapsedMs(from: number, to: number): number {
  return (to - from) & 0x7fff_ffff;
}
