/**
 * Frequency caps: all caps of a user are decided by one script, in one call, on one slot. The invariant: a count is made for
 * all caps of the list or for none, by the server's time, and an id is counted once.
 *
 * ```text
 * take → denial that stands → { source: "cache" }
 *      └ decide.lua on <prefix>caps:{user} ─ denied → kept until the window ends, for all threads
 *                                          └ failed → onError → { source: "degraded" }
 * ```
 */
import { badArgument, faultOfMs } from "../lane/arguments.js";
import { KeylaneError } from "../errors.js";
import type { CallOptions, Reply } from "../types.js";
import { Ask } from "./ask.js";
import type { Operation, Told } from "./ask.js";
import { Denials } from "./denials.js";
import type { UserDenials } from "./denials.js";
import { Decider, noDecision, noDomain, otherCaps } from "./decider.js";
import type { Counts } from "./decider.js";
import { Floors } from "./floors.js";
import type { CapsHome } from "./policy.js";
import { KeyCaps } from "./key-caps.js";
import { MAX_TEXT, MAX_USER, Planner, assertText, markOf } from "./plan.js";
import type { Plan } from "./plan.js";
import { CAP_WORDS, HEAD_WORDS, Status, isDecision, statesOf } from "./reply.js";
import type { Place } from "./replicas.js";
import { DECIDE, keyOf, UNDO } from "./scripts.js";
import type { Cap, CapsResult, IdOptions, KeyCap, ReserveOptions, TakeOptions } from "./types.js";

const NO_OPTIONS: CallOptions = {};

/** Frequency caps of one instance: `lanes.caps`. */
export class Caps {
  readonly #home: CapsHome;
  readonly #planner = new Planner();
  readonly #counts: Counts = { allowed: 0, denied: 0, cached: 0, degraded: 0, repaired: 0 };
  readonly #decider: Decider | null;
  readonly #denials: Denials;
  readonly #floors: Floors | null;
  readonly #keys: KeyCaps;
  /** The server's clock less this process's, as far as it mattered: it chooses the civil boundaries sent. */
  #offsetMs = 0;

  /** @internal */
  constructor(home: CapsHome) {
    this.#home = home;
    const { domain, region, options } = home;
    this.#decider = domain === null ? null : new Decider(domain, options.onError, this.#counts, home.degraded);
    this.#denials = new Denials(region, domain?.lane.config.index ?? 0);
    this.#floors = domain === null ? null : new Floors(domain.lane.topology);
    this.#keys = new KeyCaps(home, this.#decider, this.#counts);
  }

  /**
   * Counts one for every cap of the list, or none when one of them is used up. With `id`, calls that repeat it are answered
   * as the first one and not counted, while the longest window of its caps lasts.
   *
   * @throws (rejects) KeylaneError `KEYLANE_ERR_ARGUMENT` for what is not valid, before anything is sent, and for an id that
   * stands for other caps; `KEYLANE_ERR_OPTIONS` without a domain; with `onError: "throw"` whatever went wrong
   */
  take(user: string, caps: readonly Cap[], options: TakeOptions = NO_OPTIONS): Promise<CapsResult> {
    return this.#decide("t", user, caps, options.id, 0, options);
  }

  /** What `take` would decide, counting nothing. */
  check(user: string, caps: readonly Cap[], options: CallOptions = NO_OPTIONS): Promise<CapsResult> {
    return this.#decide("c", user, caps, undefined, 0, options);
  }

  /** As `take`, for a count that may not come about: the places are held until `commit`, `release`, or `ttlMs` have passed. */
  reserve(user: string, caps: readonly Cap[], options: ReserveOptions): Promise<CapsResult> {
    const ttlMs = options?.ttlMs ?? this.#home.options.reservationMs;
    const fault = faultOfMs("ttlMs", ttlMs) ?? faultOfId(options?.id);
    return fault === null ? this.#decide("r", user, caps, options.id, ttlMs, options) : Promise.reject(fault);
  }

  /** Counts what was reserved, in the windows of now. When the reservation has expired, it is a `take`. */
  commit(user: string, caps: readonly Cap[], options: IdOptions): Promise<CapsResult> {
    const fault = faultOfId(options?.id);
    return fault === null ? this.#decide("m", user, caps, options.id, 0, options) : Promise.reject(fault);
  }

  /**
   * As `reserve`, for an impression: `told` hears when it was decided, and whether the id is counted and billed already.
   *
   * @internal
   */
  hold(user: string, caps: readonly Cap[], options: IdOptions, told: Told): Promise<CapsResult> {
    return this.#decide("r", user, caps, options.id, this.#home.options.reservationMs, options, told);
  }

  /** Gives the places of a reservation back. False when there is none. Rejects when the script's answer cannot be had. */
  release(user: string, caps: readonly Cap[], options: IdOptions): Promise<boolean> {
    return this.#undo("l", user, caps, options);
  }

  /**
   * Takes back what an id has counted, in windows that are still open, and forgets the id. False when the id is not known.
   * Rejects when the script's answer cannot be had.
   */
  refund(user: string, caps: readonly Cap[], options: IdOptions): Promise<boolean> {
    return this.#undo("f", user, caps, options);
  }

  /**
   * The one-key form: the key's own number is the counter, from its first count on for `windowMs`. The key lives in its own
   * domain; whoever changes it by other means is heard of by the next call that reaches the server.
   */
  takeKey(key: string, cap: KeyCap): Promise<CapsResult> {
    return this.#keys.take(key, cap);
  }

  /** @internal */
  stats(): Counts {
    return { ...this.#counts };
  }

  #decide(
    op: Operation,
    user: string,
    caps: readonly Cap[],
    id: string | undefined,
    lifeMs: number,
    options: CallOptions,
    told: Told | null = null,
  ): Promise<CapsResult> {
    try {
      const plan = this.#planner.plan(caps);
      if (id !== undefined) assertText("id", id, MAX_TEXT);
      assertLimits(options);
      const mayKnow = op !== "m" && options.signal?.aborted !== true;
      const denial = mayKnow ? this.#known(this.#denials.find(user), plan, id) : null;
      if (denial !== null) return Promise.resolve(denial);
      assertText("user", user, MAX_USER);
      const decider = this.#ready();
      const key = keyOf(this.#home.options.prefix, user);
      const shared = mayKnow ? this.#known(this.#denials.fetch(user, key), plan, id) : null;
      if (shared !== null) return Promise.resolve(shared);
      const ask = new Ask(decider, op, user, key, plan, id ?? "", lifeMs, options);
      ask.told = told;
      return this.#ask(ask);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  #known(denials: UserDenials | null, plan: Plan, id = ""): CapsResult | null {
    const answer = denials === null ? null : denials.answer(plan, id, this.#denials.now);
    if (answer !== null) this.#counts.cached += 1;
    return answer;
  }

  #ask(ask: Ask): Promise<CapsResult> {
    const { decider, user, key, plan, slot } = ask;
    ask.ticket = this.#denials.ticket(key);
    ask.sent = this.#denials.now;
    this.#floors!.look(ask.sent);
    ask.floors = this.#floors!.of(user, plan);
    if (this.#home.options.strict) ask.place = decider.replicas.place(slot);
    return this.#send(ask);
  }

  #send(ask: Ask): Promise<CapsResult> {
    return ask.decider.run(DECIDE, this.#words(ask), ask.options).then(
      (reply) => this.#landed(ask, reply),
      (error: unknown) => ask.decider.failed(ask.slot, error),
    );
  }

  #landed(ask: Ask, reply: Reply): CapsResult | Promise<CapsResult> {
    const { decider, op, user, plan, slot } = ask;
    const end = HEAD_WORDS + CAP_WORDS * plan.length;
    const answered = isDecision(reply, end);
    if (answered && reply[0] === Status.OTHER_TIME && !ask.again) {
      ask.again = true;
      this.#offsetMs = reply[1]! - Date.now();
      return this.#send(ask);
    }
    if (!answered || reply[0] === Status.OTHER_TIME) return decider.failed(slot, noDecision(decider.domain));
    if (reply[0] === Status.OTHER_CAPS) throw otherCaps();
    decider.answered(slot);
    if (ask.told !== null) Object.assign(ask.told, { settled: reply[0] === Status.SETTLED, at: reply[1] });
    this.#counts.repaired += reply.at(-1)!;
    if (ask.floors !== null) this.#floors!.raised(user, plan);
    const result: CapsResult = {
      allowed: reply[0] !== Status.DENIED,
      caps: statesOf(plan, reply),
      source: "redis",
    };
    if (!result.allowed) {
      this.#counts.denied += 1;
      const ids = reply[end] as unknown as string[] | number;
      this.#denials.add(user, ask.key, plan, reply, Array.isArray(ids) ? ids : null, ask.ticket, ask.sent);
      return result;
    }
    if (reply[0] === Status.ALLOWED && op !== "c") {
      if (op !== "r") this.#floors!.note(user, slot, plan, reply, ask.sent);
      if (ask.place !== null) return this.#confirm(ask, ask.place, result);
    }
    this.#counts.allowed += 1;
    return result;
  }

  async #confirm({ decider, slot }: Ask, place: Place, result: CapsResult): Promise<CapsResult> {
    try {
      await decider.replicas.confirmed(slot, place);
    } catch (error) {
      return decider.failed(slot, error);
    }
    this.#counts.allowed += 1;
    return result;
  }

  async #undo(op: "f" | "l", user: string, caps: readonly Cap[], options: IdOptions): Promise<boolean> {
    const fault = faultOfId(options?.id);
    if (fault !== null) throw fault;
    const plan = this.#planner.plan(caps);
    assertText("id", options.id, MAX_TEXT);
    assertText("user", user, MAX_USER);
    assertLimits(options);
    const decider = this.#ready();
    const key = keyOf(this.#home.options.prefix, user);
    const send = (now: number): Promise<Reply> => {
      const words = ["1", key, op, options.id, markOf(plan), String(plan.length)];
      for (const cap of plan) words.push(cap.field, cap.window(now));
      return decider.run(UNDO, words, options);
    };
    this.#denials.drop(user, key);
    try {
      let reply = await send(Date.now() + this.#offsetMs);
      if (isDecision(reply, HEAD_WORDS) && reply[0] === Status.OTHER_TIME) reply = await send(reply[1]!);
      if (!isDecision(reply, HEAD_WORDS) || reply[0] === Status.OTHER_TIME) throw noDecision(decider.domain);
      if (reply[0] === Status.OTHER_CAPS) throw otherCaps();
      return reply[0] === Status.ALLOWED;
    } finally {
      // Whatever was decided before it is heard of now.
      this.#denials.drop(user, key);
      this.#floors!.forget(user, this.#denials.now);
    }
  }

  #words({ op, key, plan, id, lifeMs, floors }: Ask): string[] {
    const mark = id === "" ? "0" : markOf(plan);
    const words = ["1", key, op, id, mark, String(lifeMs), String(plan.length)];
    const now = Date.now() + this.#offsetMs;
    for (let i = 0; i < plan.length; i += 1) {
      const cap = plan[i]!;
      words.push(cap.field, cap.limitText, cap.window(now));
    }
    if (floors !== null) words.push(...floors);
    return words;
  }

  #ready(): Decider {
    if (this.#decider === null) throw noDomain();
    return this.#decider;
  }
}

function faultOfId(id: unknown): KeylaneError | null {
  return typeof id === "string" && id !== "" ? null : badArgument("id must be a non-empty string");
}

function assertLimits({ timeoutMs }: CallOptions): void {
  const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
  if (fault !== null) throw fault;
}
