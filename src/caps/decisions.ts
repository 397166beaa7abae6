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
import type { ReplyRows } from "../lane/replies.js";
import type { CallOptions } from "../types.js";
import { Ask } from "./ask.js";
import type { Asker, Operation, Told } from "./ask.js";
import { noDecision, otherCaps } from "./decider.js";
import type { Counts, Decider } from "./decider.js";
import { Denials } from "./denials.js";
import { Floors } from "./floors.js";
import { MAX_USER, assertText } from "./plan.js";
import type { Plan } from "./plan.js";
import type { CapsHome } from "./policy.js";
import type { Place } from "./replicas.js";
import { Figures, Status, statesOf } from "./reply.js";
import { DECIDE, UNDO, keyOf, userOf } from "./scripts.js";
import type { CapsResult } from "./types.js";

type Resolve = (value: CapsResult | Promise<CapsResult>) => void;

let grabbed: Resolve = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Resolve): void => {
  grabbed = resolve;
};

/** The reply at hand: read and used up before the next one is. */
const figures = new Figures(0);
/** Stands for a decision: the question is to be sent again. */
const AGAIN = Symbol("again");

export class Decisions implements Asker {
  readonly #decider: Decider;
  readonly #counts: Counts;
  readonly #denials: Denials;
  readonly #floors: Floors;
  readonly #prefix: string;
  readonly #strict: boolean;
  /** The server's clock less this process's, as far as it mattered: it chooses the civil boundaries sent. */
  #offsetMs = 0;

  constructor({ region, options }: CapsHome, decider: Decider, counts: Counts) {
    const { lane } = decider.domain;
    this.#decider = decider;
    this.#counts = counts;
    this.#denials = new Denials(region, lane.config.index, options.denialMs);
    this.#floors = new Floors(lane.topology);
    this.#prefix = options.prefix;
    this.#strict = options.strict;
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
    const key = keyOf(this.#prefix, user);
    const denial = this.#denials.fetch(user, key, plan, id);
    if (denial !== null && mayKnow) {
      this.#counts.cached += 1;
      return denial;
    }
    const promise = new Promise<CapsResult>(executor);
    const words = ["1", key, plan.question(op, this.#offsetMs)];
    if (id !== "") words.push(id, plan.mark, lifeMs === 0 ? "0" : String(lifeMs));
    const ask = new Ask(this, op, key, plan, words, options, this.#denials, grabbed);
    ask.told = told;
    this.#floors.look(ask.sent);
    if (this.#strict) ask.place = this.#decider.replicas.place(ask.slot);
    const floors = this.#floors.of(ask.hash, plan);
    if (floors !== null) {
      if (id === "") words.push("", "", "0");
      words.push(...floors);
      ask.raises = true;
    }
    this.#decider.ask(DECIDE, words, ask, options);
    return promise;
  }

  /** False when there is nothing to give back. @throws KeylaneError when the script's answer cannot be had */
  async undo(op: "f" | "l", user: string, plan: Plan, id: string, options: CallOptions): Promise<boolean> {
    assertText("user", user, MAX_USER);
    const key = keyOf(this.#prefix, user);
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
    const { op, plan, key, hash, slot } = ask;
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
    if (ask.raises) this.#floors.raised(hash, plan);
    const result: CapsResult = {
      allowed: status !== Status.DENIED,
      caps: statesOf(plan, figures),
      source: "redis",
    };
    if (status === Status.DENIED) {
      this.#counts.denied += 1;
      this.#denials.add(userOf(this.#prefix, key), key, plan, figures, ask.ticket, ask.sent);
      return result;
    }
    if (status === Status.ALLOWED && op !== "c") {
      if (op !== "r") this.#floors.note(hash, slot, plan, figures, ask.sent);
      if (ask.place !== null) return this.#confirmed(slot, ask.place, result);
    }
    this.#counts.allowed += 1;
    return result;
  }

  settled(ask: Ask, value: unknown): void {
    if (value === AGAIN) {
      ask.words[2] = ask.plan.question(ask.op, this.#offsetMs);
      this.#decider.ask(DECIDE, ask.words, ask, ask.options);
    } else if (value instanceof Promise) ask.resolve(this.#outcome(ask, value));
    else if (value instanceof KeylaneError) ask.resolve(this.#outcome(ask, Promise.reject(value)));
    else ask.resolve(value as CapsResult);
  }

  async #outcome({ slot }: Ask, outcome: Promise<CapsResult>): Promise<CapsResult> {
    try {
      return await outcome;
    } catch (error) {
      return this.#decider.failed(slot, error);
    }
  }

  async #confirmed(slot: number, place: Place, result: CapsResult): Promise<CapsResult> {
    await this.#decider.replicas.confirmed(slot, place);
    this.#counts.allowed += 1;
    return result;
  }
}
