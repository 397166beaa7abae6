/**
 * Drives a scanner as a connection would: the stream arrives in pieces, unfinished bytes are moved to another buffer and
 * presented again, a full table is emptied or grown. Offsets are reported as positions in the stream.
 */
import {
  KIND_HIGH,
  Kind,
  ROWS_BASE,
  ROW_WORDS,
  SCAN_BAD_AT,
  SCAN_CONSUMED,
  SCAN_NEEDED,
  SCAN_ROWS,
  SCAN_ROWS_NEEDED,
  SCAN_STATUS,
  ScanStatus,
} from "#dist/native/types.js";
import type { NativeCore, ScanLimits, Scanner } from "#dist/native/types.js";

import type { Row } from "./replies.js";

export const LIMITS: ScanLimits = { maxBulk: 1 << 20, maxRows: 1 << 16, maxDepth: 32, maxLine: 1 << 16 };

/** What one call of `scan` said. */
export interface Step {
  replies: number;
  status: number;
  consumed: number;
  needed: number;
  rowsNeeded: number;
  badAt: number;
  /** Words of the rows, starts as positions in the stream. */
  rows: number[];
}

export interface Plan {
  /** Positions at which the stream is cut, ascending. */
  cuts: readonly number[];
  /** Rows that the table holds at first. */
  table: number;
  /** Bytes of other matter in front of what is presented. */
  shift: number;
}

/** Every step of scanning `stream` under `plan`, up to its end or a bad byte. */
export function feed(core: NativeCore, stream: Uint8Array, plan: Plan, limits: ScanLimits = LIMITS): Step[] {
  const scanner = core.createScanner(limits);
  const steps: Step[] = [];
  let consumed = 0;
  let table = new Int32Array(ROWS_BASE + ROW_WORDS * plan.table);
  for (const end of [...plan.cuts, stream.length]) {
    const buf = new Uint8Array(plan.shift + end - consumed + 7).fill(0x2b);
    const origin = plan.shift - consumed;
    buf.set(stream.subarray(consumed, end), plan.shift);
    for (let more = true; more;) {
      const step = call(scanner, buf, origin + consumed, origin + end, table, origin);
      steps.push(step);
      consumed = step.consumed;
      if (step.status === ScanStatus.BAD) return steps;
      more = step.status === ScanStatus.TABLE_FULL;
      if (!more || step.replies > 0) continue;
      if (step.rowsNeeded * ROW_WORDS + ROWS_BASE <= table.length) throw new Error("full, but needs no more rows");
      table = new Int32Array(ROWS_BASE + ROW_WORDS * step.rowsNeeded);
    }
  }
  return steps;
}

function call(scanner: Scanner, buf: Uint8Array, from: number, to: number, table: Int32Array, origin: number): Step {
  table.fill(-77);
  const replies = scanner.scan(buf, from, to, table);
  const rows = [...table.subarray(ROWS_BASE, ROWS_BASE + table[SCAN_ROWS] * ROW_WORDS)];
  for (let at = 1; at < rows.length; at += ROW_WORDS) rows[at] -= origin;
  const bad = table[SCAN_STATUS] === ScanStatus.BAD;
  return {
    replies,
    status: table[SCAN_STATUS],
    consumed: table[SCAN_CONSUMED] - origin,
    needed: table[SCAN_NEEDED],
    rowsNeeded: table[SCAN_ROWS_NEEDED],
    badAt: bad ? table[SCAN_BAD_AT] - origin : -1,
    rows,
  };
}

/** What the steps came to. */
export interface Outcome {
  replies: number;
  status: number;
  consumed: number;
  badAt: number;
  rows: number[];
}

export function outcomeOf(steps: readonly Step[]): Outcome {
  const last = steps[steps.length - 1];
  return {
    replies: steps.reduce((sum, step) => sum + step.replies, 0),
    status: last.status,
    consumed: last.consumed,
    badAt: last.badAt,
    rows: steps.flatMap((step) => step.rows),
  };
}

/** Rows as a test reads them. */
export function readRows(stream: Uint8Array, words: readonly number[]): Row[] {
  const rows: Row[] = [];
  for (let at = 0; at < words.length; at += ROW_WORDS) {
    const [kind, start, length] = words.slice(at, at + ROW_WORDS);
    const text = Buffer.from(stream.subarray(start, start + length)).toString("latin1");
    rows.push([kind, TEXTS.has(kind & ~KIND_HIGH) ? text : length]);
  }
  return rows;
}

const TEXTS = new Set<number>([
  Kind.SIMPLE,
  Kind.ERROR,
  Kind.INT,
  Kind.BULK,
  Kind.DOUBLE,
  Kind.BIGNUM,
  Kind.BLOB_ERROR,
  Kind.VERBATIM,
]);
