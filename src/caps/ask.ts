/** One question to the script, from the call until its answer: the operation itself, which reads its own reply and settles. */
import { OP_PROBE, OP_STAMP, Op, QUEUED } from "../lane/op.js";
import type { Settle } from "../lane/op.js";
import type { Asking, ReplyRows } from "../lane/replies.js";
import type { CallOptions } from "../types.js";
import type { Plan } from "./plan.js";
import type { Place } from "./replicas.js";
import { DECIDE, HEAD_SCRIPT, KEY_TAIL } from "./scripts.js";
import type { CapsResult } from "./types.js";

/** c check | t take | r reserve | m commit */
export type Operation = "c" | "t" | "r" | "m";

/** What an impression needs to know of its reservation beside the decision. */
export interface Told {
  /** Counted and billed before. */
  settled: boolean;
  /** Server's time of the decision; 0 when no server made it. */
  at: number;
}

/** Who asks. */
export interface Asker {
  /** The reply stands at the cursor. Gives what `settled` gets. */
  landed(ask: Ask, rows: ReplyRows): unknown;
  /** `value` is what `landed` gave, or a rejected promise. */
  settled(ask: Ask, value: unknown): void;
}

export type Resolve = (value: CapsResult | Promise<CapsResult>) => void;

function settle(this: unknown, value: unknown): void {
  const ask = this as Ask;
  ask.asker.settled(ask, value);
}

/** No words behind the question. */
export const NONE: string[] = [];
/** The one `settle` of all questions. */
const SETTLE: Settle = settle;
/** Until the constructor has itself. */
const NO_SHAPE: Asking = { read: () => null, settle: () => {} };

const NOBODY: Resolve = () => {};
/** Of calls that have none. */
export const NO_OPTIONS: CallOptions = {};
/** Questions to be used again, and how many are kept at most. */
const free: Ask[] = [];
const MAX_FREE = 4096;

/**
 * Numbers are small integers each, so that a question holds no boxed ones. One that went straight to its node and was answered
 * is used again, from the next turn on: a sixth less for the garbage collector to do.
 */
export class Ask extends Op implements Asking {
  asker: Asker;
  user: string;
  operation: Operation;
  plan: Plan;
  /** Of the caller. */
  options: CallOptions;
  /** Settles the caller's promise. Set by the promise's executor. */
  resolve: Resolve = NOBODY;
  /** When it was made, by `turnTime`. */
  sent: number;
  /** Words behind the question. */
  behind: readonly string[] = NONE;
  /** Of denials. */
  ticket = 0;
  /** -1: not known yet. */
  slot = -1;
  /** Two halves of what stands for the key. */
  hashLow = 0;
  hashHigh = 0;
  /** The call carries what was seen before a failover. */
  raises = false;
  /** Sent a second time, with the boundaries of the server's time. */
  again = false;
  place: Place | null = null;
  told: Told | null = null;
  /** Its reply was a decision, and nothing is left to do but to hand it over. */
  decided = false;
  /** Nothing has been set but what `of` sets, and the template. */
  plain = true;

  private constructor(
    asker: Asker,
    operation: Operation,
    user: string,
    plan: Plan,
    options: CallOptions,
    sent: number,
  ) {
    super(HEAD_SCRIPT, user, null, SETTLE, NO_SHAPE, 0, 0);
    this.shape = this;
    this.script = DECIDE.source;
    this.asker = asker;
    this.user = user;
    this.operation = operation;
    this.plan = plan;
    this.options = options;
    this.sent = sent;
  }

  static of(asker: Asker, operation: Operation, user: string, plan: Plan, options: CallOptions, sent: number): Ask {
    const ask = free.pop();
    if (ask === undefined) return new Ask(asker, operation, user, plan, options, sent);
    ask.head = HEAD_SCRIPT;
    ask.first = user;
    ask.state = QUEUED;
    ask.flags = 0;
    ask.asker = asker;
    ask.user = user;
    ask.operation = operation;
    ask.plan = plan;
    ask.options = options;
    ask.sent = sent;
    ask.slot = -1;
    ask.decided = false;
    return ask;
  }

  /**
   * It is settled, and about to be forgotten by all who know it. Until it is used again it stays settled. What was watched, sent
   * a second time or waited for is not used again.
   */
  release(): void {
    if (this.settle !== SETTLE || this.attempts > 0 || (this.flags & OP_PROBE) !== 0) return;
    if (free.length >= MAX_FREE) return;
    this.first = "";
    this.user = "";
    this.resolve = NOBODY;
    if (this.options !== NO_OPTIONS) this.options = NO_OPTIONS;
    if (!this.plain || this.rest !== null) this.#clear();
    free.push(this);
  }

  #clear(): void {
    this.rest = null;
    this.behind = NONE;
    this.raises = false;
    this.again = false;
    this.place = null;
    this.told = null;
    this.plain = true;
  }

  /** Its id, or none. */
  get id(): string {
    return this.behind.length === 0 ? "" : this.behind[0]!;
  }

  /** Gives it its words: the question, and what stands behind it, which commonly is nothing. `head` begins the user's key. */
  word(head: string, offsetMs: number, rest: readonly string[]): void {
    if (rest.length === 0) this.template = this.plan.template(this.operation, offsetMs, head);
    else {
      this.plain = false;
      this.template = null;
      this.behind = rest;
      this.rest = ["1", head + this.user + KEY_TAIL, this.plan.question(this.operation, offsetMs), ...rest];
      this.first = DECIDE.sha;
    }
  }

  /** What its key tells is to be noted when it is sent. */
  wantStamp(): void {
    this.flags |= OP_STAMP;
  }

  read(rows: ReplyRows): unknown {
    return this.asker.landed(this, rows);
  }
}
