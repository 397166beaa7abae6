/**
 * Frequency caps as callers see them: what they pass is checked before anything is asked. Who decides is `decisions.ts` for the
 * caps of users and `key-caps.ts` for those of one key.
 */
import { badArgument, faultOfMs } from "../lane/arguments.js";
import type { KeylaneError } from "../errors.js";
import type { CallOptions } from "../types.js";
import { NO_OPTIONS } from "./ask.js";
import type { Operation, Told } from "./ask.js";
import { Decider, noDomain } from "./decider.js";
import type { Counts } from "./decider.js";
import { Decisions } from "./decisions.js";
import type { CapsHome } from "./policy.js";
import { KeyCaps } from "./key-caps.js";
import { MAX_TEXT, Planner, assertText } from "./plan.js";
import type { Cap, CapsResult, IdOptions, KeyCap, ReserveOptions, TakeOptions } from "./types.js";

/** Frequency caps of one instance: `lanes.caps`. */
export class Caps {
  readonly #reservationMs: number;
  readonly #planner = new Planner();
  readonly #counts: Counts = { allowed: 0, denied: 0, cached: 0, degraded: 0, repaired: 0 };
  readonly #decisions: Decisions | null;
  readonly #keys: KeyCaps;

  /** @internal */
  constructor(home: CapsHome) {
    const { domain, options } = home;
    const decider = domain === null ? null : new Decider(domain, options.onError, this.#counts, home.degraded);
    this.#reservationMs = options.reservationMs;
    this.#decisions = decider === null ? null : new Decisions(home, decider, this.#counts);
    this.#keys = new KeyCaps(home, decider, this.#counts);
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
    const ttlMs = options?.ttlMs ?? this.#reservationMs;
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
    return this.#decide("r", user, caps, options.id, this.#reservationMs, options, told);
  }

  /**
   * Gives the places of a reservation back. False when there is none. Denials end as by `refund`. Rejects when the script's
   * answer cannot be had.
   */
  release(user: string, caps: readonly Cap[], options: IdOptions): Promise<boolean> {
    return this.#undo("l", user, caps, options);
  }

  /**
   * Takes back what an id has counted, in windows that are still open, and forgets the id. False when the id is not known.
   * Denials of the user end at once in all threads of the process; in other processes too where the domain is cached and its
   * servers tell of changed keys, else after `denialMs` at the latest.
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
      if (options.timeoutMs !== undefined) assertLimits(options);
      const decisions = this.#ready();
      const mayKnow = op !== "m" && options.signal?.aborted !== true;
      const denial = mayKnow ? decisions.known(user, plan, id ?? "") : null;
      return denial ?? decisions.decide(op, user, plan, id ?? "", lifeMs, options, mayKnow, told);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  async #undo(op: "f" | "l", user: string, caps: readonly Cap[], options: IdOptions): Promise<boolean> {
    const fault = faultOfId(options?.id);
    if (fault !== null) throw fault;
    const plan = this.#planner.plan(caps);
    assertText("id", options.id, MAX_TEXT);
    assertLimits(options);
    return this.#ready().undo(op, user, plan, options.id, options);
  }

  #ready(): Decisions {
    if (this.#decisions === null) throw noDomain();
    return this.#decisions;
  }
}

function faultOfId(id: unknown): KeylaneError | null {
  return typeof id === "string" && id !== "" ? null : badArgument("id must be a non-empty string");
}

function assertLimits({ timeoutMs }: CallOptions): void {
  const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
  if (fault !== null) throw fault;
}
