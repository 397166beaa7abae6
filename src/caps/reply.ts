/** What the scripts answer, read from the connection's rows without a list in between, and as the caller gets it. */
import { ROW_WORDS, Kind } from "../native/types.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import type { Plan, PlannedCap } from "./plan.js";
import type { CapState, CapsResult } from "./types.js";

/** First word of a reply. */
export const Status = {
  DENIED: 0,
  ALLOWED: 1,
  /** The id was allowed before. */
  REMEMBERED: 2,
  /** The same, and it is billed: nothing is left to do. */
  SETTLED: 3,
  /** The boundaries sent do not hold the server's time. */
  OTHER_TIME: -1,
  /** The id stands for other caps. */
  OTHER_CAPS: -2,
} as const;

/** Words on the wire before the figures of the caps: status and the server's time, in two. */
const HEAD_WORDS = 3;
/** Words a cap. */
const CAP_WORDS = 3;
/** The second word of the time counts milliseconds up to this. */
const TIME_UNIT = 1_000_000;
/** Characters of a safe integer. */
const MAX_DIGITS = 16;
const ZERO = 48;
const COLON = 58;

/**
 * The figures of one reply.
 *
 * ```text
 * status | time ÷ 10^6 | time mod 10^6 | per cap: used | ms until it resets | ms until the count ends | [ ids | ] raised
 * per cap: `end:used`            in short, of a take that was counted; of one cap it stands alone
 * ```
 *
 * What is told in short has no time of its own: its ends count from 1970.
 */
export class Figures implements Shape {
  status = 0;
  /** The server's time, in milliseconds since 1970; 0 when it was not told. */
  now = 0;
  /** Ids remembered, told with a denial; null when there are too many, or were none told. */
  ids: readonly string[] | null = null;
  /** Caps that were raised after a failover. */
  raised = 0;
  /** Names the connection that hears of the user's changes; 0 when none does. */
  feeder = 0;
  readonly #caps: number;
  /** Apart from the times, so that V8 keeps counts as small integers: results hold no boxed ones then. */
  readonly #used: number[] = [];
  readonly #resets: number[] = [];
  readonly #ends: number[] = [];

  constructor(caps: number) {
    this.#caps = caps;
  }

  /** Those of one key. */
  static of(status: number, now: number, used: number, leftMs: number): Figures {
    const figures = new Figures(1);
    figures.status = status;
    figures.now = now;
    figures.#note(0, used, leftMs, leftMs);
    return figures;
  }

  used(cap: number): number {
    return this.#used[cap]!;
  }

  resetsInMs(cap: number): number {
    return this.#resets[cap]!;
  }

  endsInMs(cap: number): number {
    return this.#ends[cap]!;
  }

  /** As a shape: itself, or null when the reply is none of a script's. */
  read(rows: ReplyRows): this | null {
    return this.take(rows, this.#caps) ? this : null;
  }

  /** Reads the reply at the cursor, whole. False when it is none of a script's. */
  take(rows: ReplyRows, caps: number): boolean {
    const kind = rows.kind();
    const begin = rows.at;
    if (kind === Kind.BULK ? caps === 1 && this.#short(rows, 1) : kind === Kind.ARRAY && this.#take(rows, caps)) {
      return true;
    }
    rows.at = begin;
    rows.skip();
    return false;
  }

  #take(rows: ReplyRows, caps: number): boolean {
    const length = rows.enter();
    if (length === caps && length > 1 && rows.kind() === Kind.BULK) return this.#short(rows, caps);
    if (length < HEAD_WORDS) return false;
    this.status = integer(rows);
    this.now = integer(rows) * TIME_UNIT + integer(rows);
    this.ids = null;
    this.raised = 0;
    this.feeder = rows.feed.feeder;
    if (this.status < 0) return length === HEAD_WORDS && this.now > 0;
    const count = CAP_WORDS * caps;
    const more = length - HEAD_WORDS - count;
    if (more < 0 || more > 2) return false;
    let sum = this.now + this.status;
    for (let i = 0; i < caps; i += 1) sum += this.#note(i, integer(rows), integer(rows), integer(rows));
    if (more === 2) {
      const ids = rows.value();
      if (Array.isArray(ids)) this.ids = ids as string[];
    }
    if (more > 0) sum += this.raised = integer(rows);
    return !Number.isNaN(sum);
  }

  #short(rows: ReplyRows, caps: number): boolean {
    this.status = Status.ALLOWED;
    this.now = 0;
    this.ids = null;
    this.raised = 0;
    this.feeder = rows.feed.feeder;
    for (let i = 0; i < caps; i += 1) if (!this.#counted(rows, i)) return false;
    return true;
  }

  /** Reads `end:used` at the cursor. */
  #counted(rows: ReplyRows, cap: number): boolean {
    const { table, at, buffer } = rows;
    if (table[at] !== Kind.BULK) return false;
    const start = table[at + 1]!;
    const close = start + table[at + 2]!;
    let colon = start;
    while (colon < close && buffer[colon] !== COLON) colon += 1;
    const ends = digits(buffer, start, colon);
    const used = digits(buffer, colon + 1, close);
    if (ends < 0 || used < 0) return false;
    this.#note(cap, used, ends, ends);
    rows.at = at + ROW_WORDS;
    return true;
  }

  /** Gives the sum of the figures: NaN when one of them is. */
  #note(cap: number, used: number, resets: number, ends: number): number {
    this.#used[cap] = used;
    this.#resets[cap] = resets;
    this.#ends[cap] = ends;
    return used + resets + ends;
  }
}

/** A decimal number of the bytes from `start` to `end`; -1 when they are none. */
function digits(bytes: Uint8Array, start: number, end: number): number {
  const length = end - start;
  if (length < 1 || length > MAX_DIGITS) return -1;
  let value = 0;
  for (let i = start; i < end; i += 1) {
    const digit = bytes[i]! - ZERO;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/** The integer at the cursor; NaN when it is something else, which is passed over. */
function integer(rows: ReplyRows): number {
  const { table, at } = rows;
  if (table[at] === Kind.INT32) {
    rows.at = at + ROW_WORDS;
    return table[at + 2]!;
  }
  const value = rows.value();
  return typeof value === "number" ? value : Number.NaN;
}

/**
 * What callers get is made without literals: V8 learns where the objects of a literal are to live from a few that it sees early,
 * and for answers to calls that came in one burst it learns to make each of them old.
 */
const listOf = <T>(...items: T[]): T[] => items;

interface Made<T, A extends unknown[]> {
  new (...values: A): T;
}

/** A constructor of plain objects. */
function plain<T, A extends unknown[]>(make: (this: T, ...values: A) => void): Made<T, A> {
  make.prototype = Object.prototype;
  return make as unknown as Made<T, A>;
}

type Open<T> = { -readonly [key in keyof T]: T[key] };

const State = plain(function (
  this: Open<CapState>,
  name: string,
  limit: number,
  used: number,
  resetsAtMs: number,
): void {
  this.name = name;
  this.limit = limit;
  this.used = used;
  this.remaining = used < limit ? limit - used : 0;
  this.resetsAtMs = resetsAtMs;
});

const Result = plain(function (this: Open<CapsResult>, allowed: boolean, caps: readonly CapState[]): void {
  this.allowed = allowed;
  this.caps = caps;
  this.source = "redis";
});

/** What a reply says. */
export function resultOf(plan: Plan, figures: Figures): CapsResult {
  return new Result(figures.status !== Status.DENIED, statesOf(plan, figures));
}

function statesOf({ caps }: Plan, figures: Figures): CapState[] {
  if (caps.length === 1) return listOf(stateOf(caps[0]!, figures, 0));
  return caps.map((cap, i) => stateOf(cap, figures, i));
}

function stateOf({ name, limit }: PlannedCap, figures: Figures, i: number): CapState {
  return new State(name, limit, figures.used(i), figures.now + figures.resetsInMs(i));
}
