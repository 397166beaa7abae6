/**
 * The cap of one key: the key's own number counts, so other programs can read it. Denials are kept as those of users are; an
 * id is remembered beside the key, so a call with one asks the server.
 */
import type { Domain } from "../cache/domain.js";
import { assertKey, badArgument, faultOfMs } from "../lane/arguments.js";
import { native } from "../native/index.js";
import type { Reply } from "../types.js";
import { Denials } from "./denials.js";
import { Decider, noDecision } from "./decider.js";
import type { Counts } from "./decider.js";
import type { CapsHome } from "./policy.js";
import { MAX_TEXT, PlannedCap, assertLimit, assertText, assertWindow } from "./plan.js";
import { CAP_WORDS, HEAD_WORDS, Status, isDecision, statesOf } from "./reply.js";
import { KEY } from "./scripts.js";
import type { CapsResult, KeyCap } from "./types.js";

/** Denials stand apart from the values of their keys. */
const NAMESPACE = "\0cap\0";

export class KeyCaps {
  readonly #home: CapsHome;
  readonly #counts: Counts;
  readonly #denials: Denials;
  readonly #deciders = new Map<Domain, Decider>();

  /** `decider` is the one of the users' caps: an outage of its nodes is one for both. */
  constructor(home: CapsHome, decider: Decider | null, counts: Counts) {
    if (decider !== null) this.#deciders.set(decider.domain, decider);
    this.#home = home;
    this.#counts = counts;
    this.#denials = new Denials(home.region, home.domain?.lane.config.index ?? 0);
  }

  take(key: string, cap: KeyCap): Promise<CapsResult> {
    try {
      if (typeof key !== "string") throw badArgument("takeKey: the key must be a string");
      assertKey(key);
      if (typeof cap !== "object" || cap === null) throw badArgument("takeKey: a limit and a window are needed");
      const { id, limit, windowMs, timeoutMs, signal } = cap;
      assertLimit("limit", limit);
      assertWindow("windowMs", windowMs);
      if (id !== undefined) assertText("id", id, MAX_TEXT);
      const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
      if (fault !== null) throw fault;
      const plan = [new PlannedCap({ name: key, limit, windowMs }, `k${windowMs}`, "", null)];
      const known =
        signal?.aborted === true ? null : (this.#denials.find(key) ?? this.#denials.fetch(key, NAMESPACE + key));
      const denial = known === null ? null : known.answer(plan, id ?? "", this.#denials.now);
      if (denial === null) return this.#ask(this.#deciderOf(key), key, plan, cap);
      this.#counts.cached += 1;
      return Promise.resolve(denial);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  async #ask(decider: Decider, key: string, plan: PlannedCap[], cap: KeyCap): Promise<CapsResult> {
    const { id, limit, windowMs } = cap;
    const keys = id === undefined ? ["1", key] : ["2", key, this.#markKey(key, id)];
    const slot = native.slot(key);
    const ticket = this.#denials.ticket(NAMESPACE + key);
    const sent = this.#denials.now;
    const place = this.#home.options.strict ? decider.replicas.place(slot) : null;
    let figures: number[];
    try {
      const send = (): Promise<Reply> => decider.run(KEY, [...keys, String(limit), String(windowMs)], cap);
      const reply = await decider.domain.write([key], send);
      if (!isDecision(reply, HEAD_WORDS + CAP_WORDS - 1)) throw noDecision(decider.domain);
      figures = reply;
      decider.answered(slot);
      if (place !== null && figures[0] === Status.ALLOWED) await decider.replicas.confirmed(slot, place);
    } catch (error) {
      return decider.failed(slot, error);
    }
    const allowed = figures[0] !== Status.DENIED;
    if (allowed) this.#counts.allowed += 1;
    else {
      this.#counts.denied += 1;
      this.#denials.add(key, NAMESPACE + key, plan, figures, null, ticket, sent);
    }
    return { allowed, caps: statesOf(plan, figures), source: "redis" };
  }

  #deciderOf(key: string): Decider {
    const domain = this.#home.domainOf(key);
    let decider = this.#deciders.get(domain);
    if (decider === undefined) {
      decider = new Decider(domain, this.#home.options.onError, this.#counts, this.#home.degraded);
      this.#deciders.set(domain, decider);
    }
    return decider;
  }

  /** The key that remembers an id: same prefix and slot as the counter. */
  #markKey(key: string, id: string): string {
    const open = key.indexOf("{");
    const tagged = open !== -1 && key.indexOf("}", open + 1) > open + 1;
    if (tagged) return `${key}:id:${id}`;
    if (!key.includes("{") && !key.includes("}")) return `${this.#home.prefixOf(key) ?? ""}{${key}}:id:${id}`;
    throw badArgument(`takeKey: with an id, a key's braces must be a hash tag: ${JSON.stringify(key)}`);
  }
}
