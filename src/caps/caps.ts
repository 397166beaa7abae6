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
import { native } from "../native/index.js";
import type { CallOptions, Reply } from "../types.js";
import { Denials } from "./denials.js";
import { Desk, noDecision } from "./desk.js";
import type { Counts } from "./desk.js";
import { Floors } from "./floors.js";
import type { CapsHome } from "./home.js";
import { KeyCaps } from "./key-caps.js";
import { MAX_TEXT, MAX_USER, Planner, assertText, markOf } from "./plan.js";
import type { Plan } from "./plan.js";
import { CAP_WORDS, HEAD_WORDS, Status, isDecision, statesOf } from "./reply.js";
import { DECIDE, UNDO } from "./scripts.js";
import type { Cap, CapsResult, IdOptions, KeyCap, ReserveOptions, TakeOptions } from "./types.js";

/** What a script is asked to do. */
type Operation = "c" | "t" | "r" | "m" | "f" | "l";

const NO_OPTIONS: CallOptions = {};

/** Frequency caps of one instance: `lanes.caps`. */
export class Caps {
  readonly #home: CapsHome;
  readonly #planner = new Planner();
  readonly #counts: Counts = { allowed: 0, denied: 0, cached: 0, degraded: 0, repaired: 0 };
  readonly #desk: Desk | null;
  readonly #denials: Denials;
  readonly #floors: Floors | null;
  readonly #keys: KeyCaps;
  /** The server's clock less this process's, as far as it mattered: it chooses the civil boundaries sent. */
  #offsetMs = 0;

  /** @internal */
  constructor(home: CapsHome) {
    this.#home = home;
    const { domain, region, options } = home;
    this.#desk = domain === null ? null : new Desk(domain, options.onError, this.#counts, home.degraded);
    this.#denials = new Denials(region, domain?.lane.config.index ?? 0, "caps");
    this.#floors = domain === null ? null : new Floors(domain.lane.topology, (user) => this.#keyOf(user));
    this.#keys = new KeyCaps(home, this.#counts);
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

  #keyOf(user: string): string {
    return `${this.#home.options.prefix}caps:{${user}}`;
  }

  #decide(
    op: Operation,
    user: string,
    caps: readonly Cap[],
    id: string | undefined,
    lifeMs: number,
    options: CallOptions,
  ): Promise<CapsResult> {
    try {
      const plan = this.#planner.plan(caps);
      assertText("user", user, MAX_USER);
      if (id !== undefined) assertText("id", id, MAX_TEXT);
      assertLimits(options);
      const desk = this.#ready();
      const known = op === "m" || options.signal?.aborted === true ? null : this.#denials.find(user);
      const denial = known === null ? null : known.answer(plan, id ?? "", this.#denials.now);
      if (denial === null) return this.#ask(desk, op, user, plan, id ?? "", lifeMs, options);
      this.#counts.cached += 1;
      return Promise.resolve(denial);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  async #ask(
    desk: Desk,
    op: Operation,
    user: string,
    plan: Plan,
    id: string,
    lifeMs: number,
    options: CallOptions,
  ): Promise<CapsResult> {
    const key = this.#keyOf(user);
    const slot = native.slot(key);
    const began = performance.now();
    this.#floors!.look(began);
    const ticket = this.#denials.ticket(user);
    const sent = this.#denials.now;
    const floors = this.#floors!.of(user, plan);
    const { strict } = this.#home.options;
    const place = strict ? desk.replicas.place(slot) : null;
    let figures: number[];
    try {
      const words = HEAD_WORDS + CAP_WORDS * plan.length;
      const send = (): Promise<Reply> => desk.run(DECIDE, this.#words(op, key, plan, id, lifeMs, floors), options);
      figures = await this.#settle(desk, send, words);
      desk.answered(slot);
      const raised = figures.at(-1)!;
      if (floors !== null) this.#floors!.raised(user, plan);
      this.#counts.repaired += raised;
      if (figures[0] === Status.ALLOWED && op !== "c") {
        if (op !== "r") this.#floors!.note(user, plan, figures, began);
        if (place !== null) await desk.replicas.confirmed(slot, place);
      }
    } catch (error) {
      return desk.failed(slot, error);
    }
    const allowed = figures[0] !== Status.DENIED;
    if (allowed) this.#counts.allowed += 1;
    else {
      this.#counts.denied += 1;
      const ids = figures[HEAD_WORDS + CAP_WORDS * plan.length] as unknown as string[] | number;
      this.#denials.add(user, plan, figures, Array.isArray(ids) ? ids : null, ticket, sent);
    }
    return { allowed, caps: statesOf(plan, figures), source: "redis" };
  }

  async #undo(op: "f" | "l", user: string, caps: readonly Cap[], options: IdOptions): Promise<boolean> {
    const fault = faultOfId(options?.id);
    if (fault !== null) throw fault;
    const plan = this.#planner.plan(caps);
    assertText("user", user, MAX_USER);
    assertLimits(options);
    const desk = this.#ready();
    const key = this.#keyOf(user);
    const send = (): Promise<Reply> => {
      const words = ["1", key, op, options.id, markOf(plan), String(plan.length)];
      const now = Date.now() + this.#offsetMs;
      for (const cap of plan) words.push(cap.field, cap.window(now));
      return desk.run(UNDO, words, options);
    };
    this.#denials.drop(user);
    try {
      const [status] = await this.#settle(desk, send, HEAD_WORDS);
      return status === Status.ALLOWED;
    } finally {
      // Whatever was decided before it is heard of now.
      this.#denials.drop(user);
      this.#floors!.forget(user, performance.now());
    }
  }

  /** Sends, and once more with the boundaries of the server's time when it asks for them. */
  async #settle(desk: Desk, send: () => Promise<Reply>, words: number): Promise<number[]> {
    let reply = await send();
    if (isDecision(reply, words) && reply[0] === Status.OTHER_TIME) {
      this.#offsetMs = reply[1]! - Date.now();
      reply = await send();
    }
    if (!isDecision(reply, words) || reply[0] === Status.OTHER_TIME) throw noDecision(desk.domain);
    if (reply[0] === Status.OTHER_CAPS) {
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "the id stands for other caps", { outcome: "rejected" });
    }
    return reply;
  }

  #words(op: Operation, key: string, plan: Plan, id: string, lifeMs: number, floors: string[] | null): string[] {
    const words = ["1", key, op, id, id === "" ? "0" : markOf(plan), String(lifeMs), String(plan.length)];
    const now = Date.now() + this.#offsetMs;
    for (const cap of plan) words.push(cap.field, cap.limitText, cap.window(now));
    if (floors !== null) words.push(...floors);
    return words;
  }

  #ready(): Desk {
    if (this.#desk !== null) return this.#desk;
    const message = 'caps: no domain has the prefix "fc:"; name the one that holds them: caps: { domain }';
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", message);
  }
}

function faultOfId(id: unknown): KeylaneError | null {
  return typeof id === "string" && id !== "" ? null : badArgument("id must be a non-empty string");
}

function assertLimits({ timeoutMs }: CallOptions): void {
  const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
  if (fault !== null) throw fault;
}
