/**
 * The cap of one key: the key's own number counts, so other programs can read it. Denials are kept as those of users are; an
 * id is remembered beside the key, so a call with one asks the server.
 */
import type { Domain } from "../cache/domain.js";
import { assertKey, badArgument, faultOfMs } from "../lane/arguments.js";
import { native } from "../native/index.js";
import { Denials } from "./denials.js";
import { Decider, noDecision } from "./decider.js";
import type { Counts } from "./decider.js";
import { Floors } from "./floors.js";
import { Increx } from "./increx.js";
import type { CapsHome } from "./policy.js";
import { MAX_TEXT, Plan, PlannedCap, assertLimit, assertText, assertWindow } from "./plan.js";
import { Figures, Status, resultOf } from "./reply.js";
import { KEY } from "./scripts.js";
import type { CapsResult, KeyCap } from "./types.js";

/** Denials stand apart from the values of their keys. */
const NAMESPACE = "\0cap\0";
/** Keys whose plans are kept a thread; the oldest leave first. */
const MAX_PLANS = 16_384;

/** What a domain's keys need. */
interface Home {
  readonly decider: Decider;
  readonly floors: Floors;
  readonly increx: Increx;
}

export class KeyCaps {
  readonly #home: CapsHome;
  readonly #counts: Counts;
  readonly #denials: Denials;
  readonly #homes = new Map<Domain, Home>();
  readonly #plans = new Map<string, Plan>();

  /** `decider` is the one of the users' caps: an outage of its nodes is one for both. */
  constructor(home: CapsHome, decider: Decider | null, counts: Counts) {
    if (decider !== null) this.#homes.set(decider.domain, homeOf(decider));
    this.#home = home;
    this.#counts = counts;
    this.#denials = new Denials(home.region, home.domain?.lane.config.index ?? 0, Infinity);
  }

  take(key: string, cap: KeyCap): Promise<CapsResult> {
    try {
      if (typeof key !== "string") throw badArgument("takeKey: the key must be a string");
      assertKey(key);
      if (typeof cap !== "object" || cap === null) throw badArgument("takeKey: a limit and a window are needed");
      const { id, timeoutMs, signal } = cap;
      const plan = this.#planOf(key, cap);
      if (id !== undefined) assertText("id", id, MAX_TEXT);
      const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
      if (fault !== null) throw fault;
      const denial =
        this.#denials.find(key, plan, id ?? "") ?? this.#denials.fetch(key, NAMESPACE + key, plan, id ?? "");
      if (denial !== null && signal?.aborted !== true) {
        this.#counts.cached += 1;
        return denial;
      }
      // The ticket is to be taken, also where the thread's own denial ended the search.
      if (denial !== null) this.#denials.fetch(key, NAMESPACE + key, plan, id ?? "");
      return this.#ask(this.#homeOf(key), key, plan, cap);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  async #ask({ decider, floors, increx }: Home, key: string, plan: Plan, cap: KeyCap): Promise<CapsResult> {
    const { id, limit, windowMs } = cap;
    const words = id === undefined ? ["1", key] : ["2", key, this.#markKey(key, id)];
    const slot = native.slot(key);
    const { ticket, hash } = this.#denials;
    const sent = this.#denials.now;
    const place = this.#home.options.strict ? decider.replicas.place(slot) : null;
    floors.look(sent);
    const seen = floors.of(hash, plan);
    words.push(String(limit), String(windowMs), ...(seen ?? []));
    let figures: Figures;
    try {
      const script = (): Promise<Figures | null> => decider.run(KEY, words, new Figures(1), cap);
      const alone = id === undefined && seen === null && increx.ready;
      const send = alone
        ? async (): Promise<Figures | null> => (await increx.take(key, limit, windowMs, cap)) ?? script()
        : script;
      const reply = await decider.domain.write([key], send);
      if (reply === null) throw noDecision(decider.domain);
      figures = reply;
      decider.answered(slot);
      if (seen !== null) floors.raised(hash, plan);
      this.#counts.repaired += figures.raised;
      if (figures.status === Status.ALLOWED) {
        floors.note(hash, slot, plan, figures, sent);
        if (place !== null) await decider.replicas.confirmed(slot, place);
      }
    } catch (error) {
      return decider.failed(slot, error);
    }
    const allowed = figures.status !== Status.DENIED;
    if (allowed) this.#counts.allowed += 1;
    else {
      this.#counts.denied += 1;
      this.#denials.add(key, NAMESPACE + key, plan, figures, ticket, sent);
    }
    return resultOf(plan, figures);
  }

  #planOf(key: string, { limit, windowMs }: KeyCap): Plan {
    const known = this.#plans.get(key);
    if (known !== undefined) {
      const { cap } = known.caps[0]!;
      if (cap.limit === limit && cap.windowMs === windowMs) return known;
    }
    assertLimit("limit", limit);
    assertWindow("windowMs", windowMs);
    const plan = new Plan([new PlannedCap({ name: key, limit, windowMs }, `k${windowMs}`, null)]);
    if (known === undefined && this.#plans.size >= MAX_PLANS) this.#plans.delete(this.#plans.keys().next().value!);
    this.#plans.set(key, plan);
    return plan;
  }

  #homeOf(key: string): Home {
    const domain = this.#home.domainOf(key);
    let home = this.#homes.get(domain);
    if (home === undefined) {
      const { options, degraded } = this.#home;
      home = homeOf(new Decider(domain, options.onError, this.#counts, degraded));
      this.#homes.set(domain, home);
    }
    return home;
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

function homeOf(decider: Decider): Home {
  const { domain } = decider;
  return { decider, floors: new Floors(domain.lane.topology), increx: new Increx(domain) };
}
