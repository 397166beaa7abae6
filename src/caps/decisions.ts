/**
 * The caps of users, decided by the scripts on `<prefix>caps:{user}`. The invariant: a count is made for all caps of a list or
 * for none, by the server's time, and an id is counted once.
 *
 * ```text
 * ask → denial that stands → { source: "cache" }
 *     └ decide.lua ─ denied → kept until the window ends, for all threads
 *                  └ failed → onError → { source: "degraded" }
 * ```
 */
import { KeylaneError } from "../errors.js";
import { DomainLane } from "../lane/lane.js";
import { OP_STAMP } from "../lane/op.js";
import type { Op, Stamper } from "../lane/op.js";
import type { ReplyRows } from "../lane/replies.js";
import { turnTime } from "../lane/turn.js";
import { STAMP_WORDS } from "../native/cache-types.js";
import type { CallOptions } from "../types.js";
import { Ask, NONE } from "./ask.js";
import type { Asker, Operation, Resolve, Told } from "./ask.js";
import { noDecision, otherCaps } from "./decider.js";
import type { Counts, Decider } from "./decider.js";
import { Denials, hashOf } from "./denials.js";
import { Floors } from "./floors.js";
import { MAX_USER, assertText } from "./plan.js";
import type { Plan } from "./plan.js";
import type { CapsHome } from "./policy.js";
import type { Place } from "./replicas.js";
import { Figures, Status, resultOf } from "./reply.js";
import { KEY_TAIL, UNDO, headOfKeys } from "./scripts.js";
import type { CapsResult } from "./types.js";

/** The question whose promise is being made. */
let asking: Ask | null = null;
/** The one executor of all promises: gives the resolver to the question at hand, so no closure is made per call. */
const executor = (resolve: Resolve): void => {
  asking!.resolve = resolve;
};

/** The reply at hand: read and used up before the next one is. */
const figures = new Figures(0);
/** Stands for a decision: the question is to be sent again. */
const AGAIN = Symbol("again");

export class Decisions implements Asker, Stamper {
  readonly #decider: Decider;
  readonly #counts: Counts;
  readonly #denials: Denials;
  readonly #floors: Floors;
  /** Keys begin with it, up to the user. */
  readonly #head: string;
  readonly #strict: boolean;
  /** The lane stamps questions. */
  readonly #stamped: boolean;
  /** The server's clock less this process's, as far as it mattered: it chooses the civil boundaries sent. */
  #offsetMs = 0;

  constructor({ region, options }: CapsHome, decider: Decider, counts: Counts) {
    const { lane } = decider.domain;
    this.#decider = decider;
    this.#counts = counts;
    this.#denials = new Denials(region, lane.config.index, options.denialMs);
    this.#floors = new Floors(lane.topology);
    this.#head = headOfKeys(options.prefix);
    this.#strict = options.strict;
    this.#stamped = region !== null && lane instanceof DomainLane && !options.strict;
    if (lane instanceof DomainLane) lane.stamper = this;
  }

  /** A denial that this thread knows to stand, or null. */
  known(user: string, plan: Plan, id: string): Promise<CapsResult> | null {
    const denial = this.#denials.find(user, plan, id);
    if (denial !== null) this.#counts.cached += 1;
    return denial;
  }

  /** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` when `user` is not valid */
  decide(
    op: Operation,
    user: string,
    plan: Plan,
    id: string,
    lifeMs: number,
    options: CallOptions,
    mayKnow: boolean,
    told: Told | null,
  ): Promise<CapsResult> {
    assertText("user", user, MAX_USER);
    const sent = turnTime();
    const floors = this.#floors;
    floors.look(this.#denials.at(sent));
    // In the common case what is known of the key is looked up for all of a turn at once.
    const common = this.#stamped && !floors.waiting;
    if (!common) {
      const denial = this.#denials.fetch(user, this.#keyOf(user), plan, id);
      if (denial !== null && mayKnow) {
        this.#counts.cached += 1;
        return denial;
      }
    }
    const ask = Ask.of(this, op, user, plan, options, sent);
    asking = ask;
    const promise = new Promise<CapsResult>(executor);
    if (told !== null) {
      ask.told = told;
      ask.plain = false;
    }
    const words = id === "" ? NONE : [id, plan.mark, lifeMs === 0 ? "0" : String(lifeMs)];
    if (common) {
      ask.wantStamp();
      ask.word(this.#head, this.#offsetMs, words);
    } else this.#wordRare(ask, words);
    this.#decider.domain.lane.ask(ask, options);
    return promise;
  }

  /** Notes of a lane's operations what goes with their keys; those that a denial answers are withdrawn. */
  stamp(ops: readonly Op[], scratch: Uint8Array, desc: Int32Array): boolean {
    let withdrawn = false;
    const stamps = this.#denials.stamps(scratch, desc, ops.length);
    for (let i = 0, at = 0; i < ops.length; i += 1, at += STAMP_WORDS) {
      const ask = ops[i]!;
      if (!(ask instanceof Ask)) continue;
      if (stamps === null) this.#located(ask);
      else {
        ask.ticket = stamps[at]!;
        ask.slot = stamps[at + 1]!;
        ask.hashLow = stamps[at + 2]!;
        ask.hashHigh = stamps[at + 3]!;
        if ((ask.flags & OP_STAMP) !== 0 && this.#denials.mayHold(ask.hashLow))
          withdrawn = this.#denied(ask) || withdrawn;
      }
    }
    return withdrawn;
  }

  /** False when there is nothing to give back. @throws KeylaneError when the script's answer cannot be had */
  async undo(op: "f" | "l", user: string, plan: Plan, id: string, options: CallOptions): Promise<boolean> {
    assertText("user", user, MAX_USER);
    const key = this.#keyOf(user);
    const { domain } = this.#decider;
    const send = (): Promise<Figures | null> =>
      this.#decider.run(UNDO, ["1", key, plan.question(op, this.#offsetMs), id, plan.mark], new Figures(0), options);
    this.#denials.drop(user, key);
    try {
      let reply = await send();
      if (reply?.status === Status.OTHER_TIME) {
        this.#offsetMs = reply.now - Date.now();
        reply = await send();
      }
      if (reply === null || reply.status === Status.OTHER_TIME) throw noDecision(domain);
      if (reply.status === Status.OTHER_CAPS) throw otherCaps();
      return reply.status === Status.ALLOWED;
    } finally {
      // Whatever was decided before it is heard of now.
      this.#floors.forget(this.#denials.drop(user, key), this.#denials.now);
    }
  }

  landed(ask: Ask, rows: ReplyRows): unknown {
    const { operation, plan, slot } = ask;
    const answered = figures.take(rows, plan.caps.length);
    const { status } = figures;
    if (answered && status === Status.OTHER_TIME && !ask.again) {
      ask.again = true;
      this.#offsetMs = figures.now - Date.now();
      return AGAIN;
    }
    if (!answered || status === Status.OTHER_TIME) return noDecision(this.#decider.domain);
    if (status === Status.OTHER_CAPS) return otherCaps();
    this.#decider.answered(slot);
    if (ask.told !== null) Object.assign(ask.told, { settled: status === Status.SETTLED, at: figures.now });
    this.#counts.repaired += figures.raised;
    if (ask.raises) this.#floors.raised(hashOf(ask.hashLow, ask.hashHigh), plan);
    const result = resultOf(plan, figures);
    if (status === Status.DENIED) {
      this.#counts.denied += 1;
      const { user, ticket, hashLow } = ask;
      this.#denials.add(user, this.#keyOf(user), plan, figures, ticket, this.#denials.at(ask.sent), hashLow);
      return result;
    }
    if (status === Status.ALLOWED && operation !== "c") {
      if (operation !== "r") {
        const hash = hashOf(ask.hashLow, ask.hashHigh);
        this.#floors.note(hash, slot, plan, figures, this.#denials.at(ask.sent));
      }
      if (ask.place !== null) return this.#confirmed(slot, ask.place, result);
    }
    this.#counts.allowed += 1;
    ask.decided = true;
    return result;
  }

  settled(ask: Ask, value: unknown): void {
    // It may have been read and failed all the same: what it then gets is a promise.
    if (ask.decided && !(value instanceof Promise)) {
      ask.resolve(value as CapsResult);
      ask.release();
    } else if (value === AGAIN) this.#askAgain(ask);
    else if (value instanceof Promise) ask.resolve(this.#outcome(ask, value));
    else if (value instanceof KeylaneError) ask.resolve(this.#outcome(ask, Promise.reject(value)));
    else ask.resolve(value as CapsResult);
  }

  #keyOf(user: string): string {
    return this.#head + user + KEY_TAIL;
  }

  /** Answers a question that is about to be sent by a denial that another thread knows, if there is one. */
  #denied(ask: Ask): boolean {
    const { operation, user, plan, id } = ask;
    if (operation === "m") return false;
    const denial = this.#denials.fetch(user, this.#keyOf(user), plan, id);
    this.#take(ask);
    if (denial === null) return false;
    this.#counts.cached += 1;
    (this.#decider.domain.lane as DomainLane).withdraw(ask, denial);
    return true;
  }

  /** Words a question of a key that something may be known of. */
  #wordRare(ask: Ask, words: string[]): void {
    this.#take(ask);
    ask.plain = false;
    if (this.#strict) ask.place = this.#decider.replicas.place(ask.slot);
    const floors = this.#floors.of(this.#denials.hash, ask.plan);
    ask.raises = floors !== null;
    ask.word(
      this.#head,
      this.#offsetMs,
      floors === null ? words : [...(words.length === 0 ? ["", "", "0"] : words), ...floors],
    );
  }

  /** What `fetch` or `locate` told of the key. */
  #take(ask: Ask): void {
    const { ticket, slot, low, high } = this.#denials;
    ask.ticket = ticket;
    ask.slot = slot;
    ask.hashLow = low;
    ask.hashHigh = high;
  }

  #located(ask: Ask): void {
    this.#denials.locate(this.#keyOf(ask.user));
    this.#take(ask);
  }

  /** The same with the boundaries of the server's time. */
  #askAgain(before: Ask): void {
    const ask = Ask.of(this, before.operation, before.user, before.plan, before.options, before.sent);
    ask.plain = false;
    ask.resolve = before.resolve;
    ask.again = true;
    ask.raises = before.raises;
    ask.place = before.place;
    ask.told = before.told;
    ask.ticket = before.ticket;
    ask.slot = before.slot;
    ask.hashLow = before.hashLow;
    ask.hashHigh = before.hashHigh;
    ask.word(this.#head, this.#offsetMs, before.behind);
    this.#decider.domain.lane.ask(ask, ask.options);
  }

  async #outcome(ask: Ask, outcome: Promise<CapsResult>): Promise<CapsResult> {
    try {
      return await outcome;
    } catch (error) {
      // It may have failed before it was stamped.
      if (ask.slot === -1) this.#located(ask);
      return this.#decider.failed(ask.slot, error);
    }
  }

  async #confirmed(slot: number, place: Place, result: CapsResult): Promise<CapsResult> {
    await this.#decider.replicas.confirmed(slot, place);
    this.#counts.allowed += 1;
    return result;
  }
}
