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
const NO_OPTIONS: CallOptions = {};
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
  /** Settles the caller's promise. */
  resolve: Resolve;
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

  private constructor(
    asker: Asker,
    operation: Operation,
    user: string,
    plan: Plan,
    options: CallOptions,
    sent: number,
    resolve: Resolve,
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
    this.resolve = resolve;
  }

  static of(
    asker: Asker,
    operation: Operation,
    user: string,
    plan: Plan,
    options: CallOptions,
    sent: number,
    resolve: Resolve,
  ): Ask {
    const ask = free.pop();
    if (ask === undefined) return new Ask(asker, operation, user, plan, options, sent, resolve);
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
    ask.resolve = resolve;
    ask.slot = -1;
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
    this.rest = null;
    this.refusal = null;
    this.template = null;
    this.user = "";
    this.options = NO_OPTIONS;
    this.resolve = NOBODY;
    this.behind = NONE;
    this.raises = false;
    this.again = false;
    this.place = null;
    this.told = null;
    free.push(this);
  }

  /** Its id, or none. */
  get id(): string {
    return this.behind.length === 0 ? "" : this.behind[0]!;
  }

  /** Gives it its words: the question, and what stands behind it, which commonly is nothing. `head` begins the user's key. */
  word(head: string, offsetMs: number, rest: readonly string[]): void {
    this.behind = rest;
    if (rest.length === 0) this.template = this.plan.template(this.operation, offsetMs, head);
    else {
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
