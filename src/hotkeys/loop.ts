/**
 * The loop of hot keys: every window it reads what is used most, has the governor decide, and acts — publishes the hot set to all
 * threads, asks for copies, tells the other processes. The invariant: whoever may read a copy can drop it. So copies are in the
 * hot set before they are filled and until they are gone, and other processes hear of them only after that.
 */
import type { Domain } from "../cache/domain.js";
import { INTEGER_SHAPE } from "../lane/replies.js";
import { headOf } from "../lane/op.js";
import { MERGE_MS } from "../native/hits-types.js";
import { Opcode } from "../native/types.js";
import type { HotEntry, HotSet } from "../shared/hot-set.js";
import type { Detector, HotRow } from "./detector.js";
import { Governor } from "./governor.js";
import type { HotKey } from "./hot-key.js";
import { Plans, byRate } from "./plans.js";
import type { HotKeysPolicy } from "./policy.js";
import { NO_NAMES } from "./replicas.js";
import type { Replicas } from "./replicas.js";
import type { HotKeySource, SharedHotKey } from "./sources/source.js";
import type { HotKeyEvent, HotKeyInfo, HotKeyRecoveredEvent, HotLevel } from "./types.js";

/** Rows read in a window. */
const MAX_ROWS = 1000;
const HEAD_STRLEN = headOf(Opcode.GENERIC, 1, true);

/** What the loop needs of `Replicas`. */
export type LoopReplicas = Pick<
  Replicas,
  "adopt" | "any" | "close" | "destroy" | "made" | "most" | "of" | "release" | "want"
>;

/** Who hears of hot keys. */
export interface HotKeysListener {
  hot(event: HotKeyEvent): void;
  recovered(event: HotKeyRecoveredEvent): void;
}

export class HotLoop {
  readonly #domains: readonly Domain[];
  readonly #set: HotSet;
  /** Null where nothing is counted. */
  readonly #detector: Detector | null;
  readonly #listener: HotKeysListener;
  readonly #governor: Governor;
  readonly #plans: Plans;
  #replicas: LoopReplicas | null = null;
  #source: HotKeySource | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** Keys that are followed no more, until their copies are gone. */
  readonly #leaving = new Set<HotKey>();
  /** Keys in the hot set that was published last. */
  #published: ReadonlyMap<string, HotKey> = new Map();
  #stale = false;
  #stopped = false;
  #ended = false;
  /** When the last window was. */
  #now = 0;
  readonly counts = { reported: 0, recovered: 0 };

  constructor(
    policy: HotKeysPolicy,
    domains: readonly Domain[],
    set: HotSet,
    detector: Detector | null,
    listener: HotKeysListener,
  ) {
    this.#domains = domains;
    this.#set = set;
    this.#detector = detector;
    this.#listener = listener;
    this.#plans = new Plans(policy, domains);
    this.#governor = new Governor(policy.rules, (key) => this.#plans.mayAct(key), {
      isDecided: (key) => this.#plans.isDecided(key, this.#now),
      hot: (key, level, rate) => this.#hot(key, level, rate),
      recovered: (key) => this.#recovered(key),
      entered: (key) => this.#entered(key),
      left: (key) => this.#left(key),
    });
  }

  /** Gives the loop the means to copy keys; before `start`. */
  act(replicas: LoopReplicas): void {
    this.#replicas = replicas;
    this.#plans.most = (domain, key) => replicas.most(domain, key);
  }

  /** Has it tell other processes and hear them; before `start`. `trouble` hears when that fails, and (null) works again. */
  async join(source: HotKeySource, trouble: (error: Error | null) => void): Promise<void> {
    this.#source = source;
    await source.start((others) => this.#told(others), trouble);
  }

  /** The lanes are open. */
  start(): void {
    // The first merge begins the count.
    this.#detector?.merge(performance.now());
    this.#timer ??= setInterval(() => this.window(performance.now()), MERGE_MS).unref();
  }

  /** One window. */
  window(now: number): void {
    this.#now = now;
    const detector = this.#detector;
    if (detector !== null && detector.merge(now)) {
      const rows = detector.top(MAX_ROWS, this.#governor.least);
      this.#governor.observe(now, rows, rows.length < MAX_ROWS);
    }
    const replicas = this.#replicas;
    if (replicas !== null) for (const key of this.#governor.keys()) this.#replicate(key, replicas);
    if (this.#stale) this.publish();
  }

  /** Operations counted in all threads. */
  get hits(): number {
    return this.#detector?.hits ?? 0;
  }

  get refused(): number {
    return this.#governor.refused;
  }

  /** The hot keys, the most used first. */
  list(now = performance.now()): HotKeyInfo[] {
    return byRate(this.#governor.keys()).map((key) => this.#plans.describe(key, now));
  }

  /** The most used keys as of the last window, hot or not. */
  top(limit: number): HotRow[] {
    return this.#detector?.top(limit, 0) ?? [];
  }

  pin(key: string, domain: number, copies: number): void {
    this.#governor.pin(key, domain, copies, performance.now());
    this.publish();
  }

  unpin(key: string): boolean {
    const was = this.#governor.unpin(key, performance.now());
    if (this.#stale) this.publish();
    return was;
  }

  /** Whether there is anything to be undone that outlives this process. */
  get acting(): boolean {
    return this.#source !== null || this.#replicas?.any === true;
  }

  /** Undoes what was done and tells the others, within the time. */
  async stop(withinMs: number): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    const until = performance.now() + withinMs;
    await this.#replicas?.close(withinMs);
    this.#stopped = true;
    this.publish();
    await this.#source?.stop(Math.max(0, until - performance.now()));
  }

  /** Ends at once. Idempotent. */
  end(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    void this.#source?.stop(0);
    if (!this.#stopped && !this.#ended) this.#set.publish([]);
    this.#ended = true;
    this.#replicas?.destroy();
  }

  // ── what the governor tells ──────────────────────────────────────────────────────────────────────────────────────

  #hot(key: HotKey, level: HotLevel, rate: number): void {
    this.counts.reported += 1;
    this.#listener.hot(this.#report(key, level, rate));
  }

  #recovered(key: HotKey): void {
    if (!key.reported) return;
    this.counts.recovered += 1;
    this.#listener.recovered({ ...this.#report(key, key.level, key.rate), hotMs: this.#now - key.hotSince });
  }

  #report(key: HotKey, level: HotLevel, rate: number): HotKeyEvent {
    const { domain, node } = this.#plans.placeOf(key);
    return { key: key.key, domain, rate, level, node, action: this.#plans.actionOf(key, this.#now) };
  }

  #entered(key: HotKey): void {
    this.#stale = true;
    if (key.actable && !key.measured) void this.#measure(key);
  }

  #left(key: HotKey): void {
    this.#stale = true;
    this.#replicas?.adopt(key.domain, key.key, []);
    this.#release(key);
  }

  #told(others: readonly SharedHotKey[]): void {
    const domainOf = (name: string): number => this.#domains.findIndex((domain) => domain.name === name);
    if (!this.#governor.told(others, domainOf, performance.now())) return;
    this.publish();
  }

  // ── acting ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Asks how long the value is, once: what is too long is not cached, and big ones are told as such. */
  async #measure(key: HotKey): Promise<void> {
    key.measured = true;
    key.measuring = true;
    const { lane } = this.#domains[key.domain]!;
    try {
      key.valueBytes = Number(await lane.own(HEAD_STRLEN, "STRLEN", [key.key], INTEGER_SHAPE, {}, false));
      this.#stale = true;
    } catch {
      // No string, or nobody answers: then nothing is known of it.
    }
    key.measuring = false;
    if (!this.#ended) this.#governor.decided(key, this.#now);
  }

  /**
   * Uses what others have copied, else has as many copies made as are wanted; they only become fewer when all go. When two
   * processes have begun at once, the one whose names come first keeps its copies.
   */
  #replicate(key: HotKey, replicas: LoopReplicas): void {
    const { domain } = key;
    const theirs = key.remote?.replicas ?? [];
    replicas.adopt(domain, key.key, theirs);
    if (theirs.length > 0) {
      const [mine] = replicas.made(domain, key.key);
      if (mine === undefined || mine > theirs[0]!) {
        this.#release(key);
        return;
      }
    }
    const wanted = Math.max(key.copies, this.#plans.copiesOf(key, this.#now));
    const always = (key.pinned ?? 0) > 0;
    if (wanted === key.copies && (wanted === 0 || always === key.always)) return;
    key.copies = wanted;
    key.always = always;
    replicas.want(domain, key.key, wanted, always);
  }

  /** A key (of a domain) changes too often for the copies that this process has made or is about to make. */
  restless(domain: number, name: string): void {
    const key = this.#governor.find(name);
    if (key === undefined || key.domain !== domain || key.copies === 0) return;
    key.rest(this.#now);
    this.#release(key);
  }

  /** Gives up the copies that this process made; they stay in the hot set until they are gone. */
  #release(key: HotKey): void {
    if (key.copies === 0) return;
    key.copies = 0;
    this.#leaving.add(key);
    void this.#gone(key);
  }

  async #gone(key: HotKey): Promise<void> {
    await this.#replicas!.release(key.domain, key.key);
    this.#leaving.delete(key);
  }

  /** Publishes the hot set, and drops from the cache what is no longer in it. */
  publish(): void {
    if (this.#ended) return;
    this.#stale = false;
    const keys = this.#stopped ? [] : byRate(this.#governor.keys()).filter((key) => key.actable);
    const published = new Map(keys.map((key) => [key.id, key]));
    const leaving = [...this.#leaving].filter((key) => !published.has(key.id));
    const entries: HotEntry[] = [];
    for (const key of [...keys, ...leaving]) {
      const followed = published.has(key.id);
      const { replicas, homes } = this.#replicas?.of(key.domain, key.key) ?? NO_NAMES;
      key.replicas = replicas;
      if (!followed && replicas.length === 0) continue;
      const cached = followed && this.#plans.isCached(key);
      entries.push({ key: key.key, domain: key.domain, cached, replicas, homes });
    }
    this.#set.publish(entries);
    for (const [id, { domain, key }] of this.#published) {
      const { cache } = this.#domains[domain]!;
      if (!published.has(id) && cache?.policy.mode === "hot") cache.invalidate(key);
    }
    this.#published = published;
    this.#tell();
  }

  /** Tells the other processes what is hot here, and what still has copies. */
  #tell(): void {
    if (this.#source === null) return;
    const told = [...this.#governor.keys()].filter((key) => key.actable && (key.own || key.pinned !== null));
    const madeOf = ({ domain, key }: HotKey): readonly string[] => this.#replicas?.made(domain, key) ?? [];
    const leaving = [...this.#leaving].filter((key) => !told.includes(key) && madeOf(key).length > 0);
    const entries = [...told, ...leaving].map((key): SharedHotKey => ({
      domain: this.#domains[key.domain]!.name,
      key: key.key,
      level: key.level,
      rate: key.rate,
      replicas: madeOf(key),
    }));
    this.#source.publish(entries);
  }
}
