/**
 * Reads a spool's folder from its first segment to its last. The invariant: what was acknowledged is read, or the fault names the
 * file and the byte. Only behind the last whole frame of the last segment may there be bytes that mean nothing: a commit
 * that a crash cut short, which was never acknowledged.
 */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Entry } from "./entry.js";
import { spoolFault } from "./fault.js";
import {
  ACCOUNT_TOTAL,
  DENIAL,
  ENTRY,
  FRAME_HEAD,
  frameAt,
  IMPRESSION,
  nextFrame,
  readRecord,
  recordKind,
  recordLength,
} from "./frame.js";
import { IdIndex } from "./journal.js";
import { Line, placeOf } from "./line.js";
import { segmentName } from "./segment.js";

/** A segment's file. */
export interface SegmentFile {
  readonly number: number;
  readonly path: string;
  /** End of its last whole frame. */
  readonly size: number;
}

/** What a folder holds. */
export interface Scanned {
  /** Identifies the spool; null when the folder holds none yet. */
  readonly id: string | null;
  readonly segments: readonly SegmentFile[];
  readonly lines: Map<string, Line>;
  /** Spent of each budget. */
  readonly budgets: Map<string, bigint>;
  /** Entries of each segment. */
  readonly counts: ReadonlyMap<number, number>;
  /** Impressions and denials of each segment. */
  readonly journal: ReadonlyMap<number, IdIndex>;
  /** Largest sequence number. */
  readonly last: number;
  /** Bytes behind the last whole frame. */
  readonly rest: Buffer;
}

const SEGMENT_NAME = /^\d{10}\.spool$/;
export const IDENTITY = "spool.json";

/**
 * Reads a folder; `visit` sees every entry.
 *
 * @throws KeylaneError `KEYLANE_ERR_SPOOL` when acknowledged entries cannot be read
 */
export function scanFolder(folder: string, visit: (entry: Entry) => void = () => undefined): Scanned {
  const id = readIdentity(folder);
  const names = namesIn(folder).filter((name) => SEGMENT_NAME.test(name));
  const numbers = names.map((name) => Number.parseInt(name, 10)).toSorted((a, b) => a - b);
  if (id === null && numbers.length > 0) throw spoolFault(folder, `it has segments and no ${IDENTITY}`);
  const scan = new Scan(visit);
  const segments: SegmentFile[] = [];
  let rest: Buffer = Buffer.alloc(0);
  for (const [index, number] of numbers.entries()) {
    const path = join(folder, segmentName(number));
    if (index > 0 && number !== numbers[index - 1]! + 1) throw spoolFault(path, "the segment before it is missing");
    const bytes = bytesOf(path);
    const size = scan.segment(number, path, bytes, index === 0);
    if (size < bytes.length) {
      if (index < numbers.length - 1) throw spoolFault(path, `it is damaged at byte ${size}`);
      rest = bytes.subarray(size);
    }
    segments.push({ number, path, size });
  }
  const { lines, budgets, counts, journal, last } = scan;
  return { id, segments, rest, lines, budgets, counts, journal, last };
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    throw spoolFault(folder, "it cannot be read", error);
  }
}

function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw spoolFault(path, "it cannot be read", error);
  }
}

function readIdentity(folder: string): string | null {
  const path = join(folder, IDENTITY);
  if (!existsSync(path)) return null;
  try {
    const { id, version } = JSON.parse(readFileSync(path, "utf8")) as { id: string; version: number };
    if (version !== 1 || !/^[0-9a-f]{16}$/.test(id)) throw new Error("it has another version or a bad id");
    return id;
  } catch (error) {
    throw spoolFault(path, "it cannot be read", error);
  }
}

class Scan {
  readonly lines = new Map<string, Line>();
  readonly budgets = new Map<string, bigint>();
  readonly counts = new Map<number, number>();
  readonly journal = new Map<number, IdIndex>();
  last = 0;
  readonly #visit: (entry: Entry) => void;

  constructor(visit: (entry: Entry) => void) {
    this.#visit = visit;
  }

  /** Reads a segment; gives the end of its last whole frame. */
  segment(number: number, path: string, bytes: Buffer, first: boolean): number {
    let count = 0;
    let at = 0;
    const ids = new IdIndex();
    for (let length = frameAt(bytes, at); length > 0; length = frameAt(bytes, at)) {
      const end = at + length;
      for (let from = at + FRAME_HEAD; from < end; from += recordLength(bytes, from)) {
        const record = readRecord(bytes, from);
        const kind = recordKind(bytes, from);
        this.last = Math.max(this.last, record.seq);
        if (kind === IMPRESSION || kind === DENIAL) ids.add(record.id, from, kind);
        if (kind === ENTRY || kind === IMPRESSION) {
          this.#entry(record, placeOf(number, from));
          count += 1;
        } else if (kind !== DENIAL) this.#total(kind, record, path, first);
      }
      at = end;
    }
    if (at === 0) throw spoolFault(path, "it is damaged at byte 0");
    if (at < bytes.length && nextFrame(bytes, at + 1) !== -1) throw spoolFault(path, `it is damaged at byte ${at}`);
    this.counts.set(number, count);
    if (ids.size > 0) this.journal.set(number, ids);
    return at;
  }

  #entry(entry: Entry, place: number): void {
    this.#visit(entry);
    this.#line(entry.account).push(place, entry.seq, entry.amount);
    if (entry.budget === "") return;
    this.budgets.set(entry.budget, (this.budgets.get(entry.budget) ?? 0n) + entry.amount);
  }

  /** The first segment's totals are taken; later ones must agree with what was read. */
  #total(kind: number, { account: name, id: sum, at: count, seq }: Entry, path: string, first: boolean): void {
    if (kind !== ACCOUNT_TOTAL) {
      if (first) this.budgets.set(name, BigInt(sum));
      return;
    }
    const line = this.#line(name);
    if (!first) {
      if (line.count === count && line.sum === BigInt(sum) && line.last === seq) return;
      throw spoolFault(path, `it tells ${sum} of account ${JSON.stringify(name)}, the segments before it ${line.sum}`);
    }
    Object.assign(line, { sum: BigInt(sum), count, last: seq, left: seq });
  }

  #line(account: string): Line {
    let line = this.lines.get(account);
    if (line === undefined) this.lines.set(account, (line = new Line(account)));
    return line;
  }
}
