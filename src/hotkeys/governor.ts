/**
 * When a key is hot: a state machine a key, driven by the rates of each window. It has no clock and does nothing by itself, so
 * it can be tested without either. The invariant: a key enters by what it was hit for certain and leaves by what it was hit at
 * most, so that neither is a matter of how hits were counted.
 *
 * ```text
 *          sure of 95 % of warn          … of critical
 *   cold ───────────────────────→ warm ───────────────→ hot
 *    ↑                              └─── below 70 % ───┬──┘
 *    │                                   of warn       ↓  ↑ at 70 % again
 *    └── 3 windows and 5 s ───────────────────────── cooling
 * ```
 * A key at `critical` stays hot until it cools: copies that come and go with every swing would cost more than they save.
 */
import type { HotRow } from "./detector.js";
import { HotKey } from "./hot-key.js";
import type { HotRules } from "./policy.js";
import type { SharedHotKey } from "./sources/source.js";
import type { HotLevel, HotState } from "./types.js";

/** Most keys followed. */
const MAX_KEYS = 1000;
/** A key is at a level when it is sure to have this share of it: hits that come at random vary. */
const SURE = 0.95;
/** It cools below this share of `warn`. */
const CALM = 0.7;
const CALM_WINDOWS = 3;
const CALM_MS = 5000;
/** A report waits so long at most for what can be done about its key to be decided, in milliseconds. */
const WAIT_MS = 1000;
/** Reports of a key and level are so far apart, in milliseconds. */
const REPORT_MS = 60_000;
/** Keys whose reports are remembered. */
const MAX_REPORTS = 10_000;

/** Who acts on what the governor finds. */
export interface GovernorHooks {
  /** Whether it is known what can be done about a key, so that its report can tell. */
  isDecided(key: HotKey): boolean;
  /** A key is to be reported at a level, with a rate that it had for certain. */
  hot(key: HotKey, level: HotLevel, rate: number): void;
  /** A key is no longer hot by this process's count. */
  recovered(key: HotKey): void;
  /** A key is hot from now on, or more or less is to be done about it. */
  entered(key: HotKey): void;
  /** A key is followed no more. */
  left(key: HotKey): void;
}

/** Times of the last reports of a key. */
interface Reports {
  warn: number;
  critical: number;
}

export class Governor {
  readonly #rules: readonly (HotRules | null)[];
  readonly #mayAct: (key: string) => boolean;
  readonly #hooks: GovernorHooks;
  readonly #keys = new Map<string, HotKey>();
  readonly #reports = new Map<string, Reports>();
  /** Hot keys that found no place. */
  refused = 0;

  /** `rules` by domain; `mayAct` tells whether something may be done about a key. */
  constructor(rules: readonly (HotRules | null)[], mayAct: (key: string) => boolean, hooks: GovernorHooks) {
    this.#rules = rules;
    this.#mayAct = mayAct;
    this.#hooks = hooks;
  }

  /** Least `upper` of rows that are of interest. */
  get least(): number {
    const warns = this.#rules.flatMap((rule) => (rule === null ? [] : [rule.warn]));
    return CALM * Math.min(...warns);
  }

  get size(): number {
    return this.#keys.size;
  }

  keys(): IterableIterator<HotKey> {
    return this.#keys.values();
  }

  find(id: string): HotKey | undefined {
    return this.#keys.get(id);
  }

  /**
   * Takes a window's rows, hottest first. `complete`: keys that are not among them were hit less than `least`. True when keys
   * entered or left, or a state changed. O(rows + keys).
   */
  observe(now: number, rows: readonly HotRow[], complete: boolean): boolean {
    let changed = false;
    const seen = new Set<HotKey>();
    for (const row of rows) {
      const rule = this.#rules[row.domain];
      if (rule === undefined || rule === null) continue;
      let key = this.#keys.get(row.id);
      if (key === undefined) {
        if (row.lower < SURE * rule.warn) continue;
        if (this.#keys.size >= MAX_KEYS) {
          this.refused += 1;
          continue;
        }
        key = new HotKey(row.id, row.key, row.domain, row.whole && this.#mayAct(row.key), now);
        this.#keys.set(row.id, key);
        changed = true;
      }
      key.rate = row.lower;
      key.upper = row.upper;
      if (row.lower > key.peak) key.peak = row.lower;
      seen.add(key);
    }
    for (const key of this.#keys.values()) {
      if (!seen.has(key)) {
        if (!complete) continue;
        key.rate = 0;
        key.upper = 0;
      }
      if (this.#step(key, this.#rules[key.domain]!, now)) changed = true;
    }
    if (this.#reports.size > this.#keys.size) this.#forgetReports(now);
    return changed;
  }

  /** It may be decided now what can be done about a key: its report need not wait for the next window. */
  decided(key: HotKey, now: number): void {
    if (key.due !== null && this.#keys.get(key.id) === key) this.#tell(key, false, now);
  }

  /** Makes a key hot, whatever its rate, with `copies` of its value. */
  pin(id: string, domain: number, copies: number, now: number): HotKey {
    const key = this.#known(id, domain, now);
    key.pinned = copies;
    this.#hooks.entered(key);
    return key;
  }

  /** Leaves a key to its rate again. False when it was not pinned. */
  unpin(id: string, now: number): boolean {
    const key = this.#keys.get(id);
    if (key === undefined || key.pinned === null) return false;
    key.pinned = null;
    this.#settle(key, now);
    return true;
  }

  /** What other processes say now; `domainOf` finds a domain by its name. True when it makes a difference. */
  told(others: readonly SharedHotKey[], domainOf: (name: string) => number, now: number): boolean {
    const before = new Map([...this.#keys.values()].flatMap((key) => (key.remote === null ? [] : [[key, key.remote]])));
    let changed = false;
    for (const other of others) {
      const domain = domainOf(other.domain);
      if ((this.#rules[domain] ?? null) === null || !this.#mayAct(other.key)) continue;
      if (this.#keys.size >= MAX_KEYS && !this.#keys.has(other.key)) continue;
      const key = this.#known(other.key, domain, now);
      const old = before.get(key);
      before.delete(key);
      key.remote = hotter(old === key.remote ? null : key.remote, other);
      if (old !== undefined && JSON.stringify(old) === JSON.stringify(key.remote)) continue;
      if (!key.own && key.remote.level === "critical") key.level = "critical";
      if (!key.own) key.enter(stateAt(key.level), now);
      this.#hooks.entered(key);
      changed = true;
    }
    for (const key of before.keys()) {
      key.remote = null;
      this.#settle(key, now);
      changed = true;
    }
    return changed;
  }

  #known(id: string, domain: number, now: number): HotKey {
    let key = this.#keys.get(id);
    if (key === undefined) {
      key = new HotKey(id, id, domain, true, now);
      this.#keys.set(id, key);
    }
    return key;
  }

  #step(key: HotKey, rule: HotRules, now: number): boolean {
    const { state } = key;
    const critical = key.rate >= SURE * rule.critical;
    if (!key.own) {
      if (key.rate < SURE * rule.warn) return false;
      key.own = true;
      this.#hooks.entered(key);
    }
    if (critical && key.level === "warn") {
      key.level = "critical";
      this.#hooks.entered(key);
    }
    if (key.upper >= CALM * rule.warn) key.enter(stateAt(key.level), now);
    else {
      key.enter("cooling", now);
      key.calm += 1;
      if (key.calm >= CALM_WINDOWS && now - key.stateSince >= CALM_MS) {
        this.#recover(key, now);
        return true;
      }
    }
    if (critical) this.#report(key, "critical", now);
    else if (key.rate >= SURE * rule.warn) this.#report(key, "warn", now);
    if (key.due !== null) this.#tell(key, key.rate < SURE * rule[key.due.level], now);
    return key.state !== state;
  }

  #recover(key: HotKey, now: number): void {
    key.own = false;
    this.#hooks.recovered(key);
    key.reported = false;
    this.#settle(key, now);
  }

  /** A reason for the key to be hot has gone. */
  #settle(key: HotKey, now: number): void {
    if (key.own) return;
    if (!key.cold) {
      key.level = key.remote?.level ?? "warn";
      key.enter(stateAt(key.level), now);
      this.#hooks.entered(key);
      return;
    }
    this.#keys.delete(key.id);
    this.#hooks.left(key);
  }

  /** Has a report be due, unless it was made not long ago. */
  #report(key: HotKey, level: HotLevel, now: number): void {
    if (key.due !== null && (key.due.level === "critical" || level === "warn")) return;
    const reports = this.#reports.get(key.id);
    if (reports === undefined || now - reports[level] >= REPORT_MS) key.due = { level, since: now, rate: key.rate };
  }

  /** Reports what is due, once it is decided what can be done; `falls`: the key is about to leave that level. */
  #tell(key: HotKey, falls: boolean, now: number): void {
    const { level, since, rate } = key.due!;
    if (!falls && now - since < WAIT_MS && !this.#hooks.isDecided(key)) return;
    key.due = null;
    let reports = this.#reports.get(key.id);
    if (reports === undefined) {
      if (this.#reports.size >= MAX_REPORTS) this.#reports.delete(this.#reports.keys().next().value!);
      reports = { warn: -Infinity, critical: -Infinity };
      this.#reports.set(key.id, reports);
    }
    reports[level] = now;
    // What is known to be critical need not be told to be warm.
    if (level === "critical") reports.warn = now;
    key.reported = true;
    this.#hooks.hot(key, level, Math.max(rate, key.rate));
  }

  #forgetReports(now: number): void {
    for (const [id, { warn, critical }] of this.#reports) {
      if (now - Math.max(warn, critical) >= REPORT_MS) this.#reports.delete(id);
    }
  }
}

function stateAt(level: HotLevel): HotState {
  return level === "critical" ? "hot" : "warm";
}

/** The word on a key that asks for more. Names of copies are worth more than none. */
function hotter(one: SharedHotKey | null, other: SharedHotKey): SharedHotKey {
  if (one === null) return other;
  return rank(other) > rank(one) ? other : one;
}

function rank({ level, replicas, rate }: SharedHotKey): number {
  return (level === "critical" ? 1e13 : 0) + (replicas.length > 0 ? 2e13 : 0) + rate;
}
