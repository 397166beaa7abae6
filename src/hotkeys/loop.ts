/**
 * The loop of hot keys: every window it reads what is used most, has the governor decide, and acts — publishes the hot set to all
 * threads, asks for copies, tells the other processes. The invariant: what is undone is undone in the order in which nobody can
 * miss it: first the hot set is without the key, then its copies go, then others are told.
 */
import type { Domain } from "../cache/domain.js";
import { INTEGER_SHAPE } from "../lane/replies.js";
import { HEAD_UNCOUNTED, headOf } from "../lane/op.js";
import { MERGE_MS } from "../native/hits-types.js";
import { Opcode } from "../native/types.js";
import type { HotSet } from "../shared/hot-set.js";
import { NO_COPIES } from "./actions.js";
import type { Copies, HotActions } from "./actions.js";
import type { Detector, HotRow } from "./detector.js";
import { Governor } from "./governor.js";
import type { HotKey } from "./hot-key.js";
import { Plans, byRate } from "./plans.js";
import type { HotKeysPolicy } from "./policy.js";
import type { HotKeySource, SharedHotKey } from "./sources/source.js";
import type { HotKeyEvent, HotKeyInfo, HotKeyRecoveredEvent, HotLevel } from "./types.js";

/** Rows read in a window. */
const MAX_ROWS = 1000;
/** Distance of attempts to copy a key, in milliseconds. */
const RETRY_MS = 1000;
const HEAD_STRLEN = headOf(Opcode.GENERIC, 1, true) | HEAD_UNCOUNTED;

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
  #actions: HotActions | null = null;
  #source: HotKeySource | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** Keys whose copies are being made, and when one may be tried again. */
  readonly #making = new Set<HotKey>();
  readonly #retryAt = new Map<HotKey, number>();
  /** Keys that are followed no more, until their copies are gone. */
  readonly #leaving = new Map<HotKey, Promise<void>>();
  /** Keys in the hot set that was published last. */
  #published: ReadonlyMap<string, HotKey> = new Map();
  #stale = false;
  #stopped = false;
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
      hot: (key, level) => this.#hot(key, level),
      recovered: (key) => this.#recovered(key),
      entered: (key) => this.#entered(key),
      left: (key) => this.#left(key),
    });
  }

  /** Gives the loop the means to copy keys; before `start`. */
  act(actions: HotActions): void {
    this.#actions = actions;
    this.#plans.most = (domain) => actions.most(domain);
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
    if (this.#actions !== null) for (const key of this.#governor.keys()) this.#replicate(key, now);
    if (this.#stale) this.#publish();
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
    this.#publish();
  }

  unpin(key: string): boolean {
    const was = this.#governor.unpin(key, performance.now());
    if (this.#stale) this.#publish();
    return was;
  }

  /** Whether there is anything to be undone that outlives this process. */
  get acting(): boolean {
    return this.#source !== null || this.#leaving.size > 0 || [...this.#governor.keys()].some(({ copied }) => copied);
  }

  /** Undoes what was done and tells the others, within the time. */
  async stop(withinMs: number): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    const until = performance.now() + withinMs;
    this.#stopped = true;
    this.#publish();
    const copied = [...this.#governor.keys()].filter((key) => key.copied);
    for (const key of copied) this.#release(key);
    await Promise.race([Promise.all(this.#leaving.values()), late(until - performance.now())]);
    await this.#source?.stop(Math.max(0, until - performance.now()));
  }

  /** Ends at once. Idempotent. */
  end(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    void this.#source?.stop(0);
  }

  // ── what the governor tells ──────────────────────────────────────────────────────────────────────────────────────

  #hot(key: HotKey, level: HotLevel): void {
    this.counts.reported += 1;
    const { domain, node } = this.#plans.placeOf(key);
    this.#listener.hot({ key: key.key, domain, rate: key.rate, level, node, action: this.#plans.actionOf(key) });
  }

  #recovered(key: HotKey): void {
    if (!key.reported) return;
    this.counts.recovered += 1;
    const { domain, node } = this.#plans.placeOf(key);
    const hotMs = this.#now - key.hotSince;
    const { rate, level } = key;
    this.#listener.recovered({ key: key.key, domain, rate, level, node, action: this.#plans.actionOf(key), hotMs });
  }

  #entered(key: HotKey): void {
    this.#stale = true;
    if (key.actable && key.valueBytes === null) void this.#measure(key);
  }

  #left(key: HotKey): void {
    this.#stale = true;
    this.#retryAt.delete(key);
    this.#release(key);
  }

  #told(others: readonly SharedHotKey[]): void {
    const domainOf = (name: string): number => this.#domains.findIndex((domain) => domain.name === name);
    if (!this.#governor.told(others, domainOf, performance.now())) return;
    this.#publish();
  }

  // ── acting ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Asks how long the value is, once: what is too long is not cached, and big ones are told as such. */
  async #measure(key: HotKey): Promise<void> {
    key.valueBytes = -1;
    const { lane } = this.#domains[key.domain]!;
    try {
      const length = Number(await lane.call(HEAD_STRLEN, "STRLEN", [key.key], INTEGER_SHAPE));
      key.valueBytes = length;
      this.#stale = true;
    } catch {
      // No string, or nobody answers: then nothing is known of it.
    }
  }

  /** Adopts what others have copied, else has as many copies made as are wanted; they only become fewer when all go. */
  #replicate(key: HotKey, now: number): void {
    const actions = this.#actions!;
    const theirs = key.remote?.replicas ?? [];
    if (theirs.length > 0 && !key.copied) {
      if (theirs.join() !== key.replicas.join()) this.#has(key, actions.adopt(key.domain, theirs));
      return;
    }
    if (!key.copied && key.replicas.length > 0) this.#has(key, NO_COPIES);
    const wanted = Math.max(this.#plans.copiesOf(key), key.replicas.length);
    const enough = key.replicas.length >= wanted && !actions.outdated(key.key, key.domain, key);
    if (enough || this.#making.has(key) || (this.#retryAt.get(key) ?? 0) > now) return;
    void this.#copy(key, wanted, now);
  }

  async #copy(key: HotKey, count: number, now: number): Promise<void> {
    const actions = this.#actions!;
    this.#making.add(key);
    this.#retryAt.set(key, now + RETRY_MS);
    try {
      const copies = await actions.replicate(key.key, key.domain, count, key);
      key.copied = copies.replicas.length > 0;
      this.#has(key, copies);
    } catch {
      // It is tried again as long as the key is hot.
    }
    this.#making.delete(key);
    // It cooled meanwhile.
    if (this.#governor.find(key.id) !== key) this.#release(key);
  }

  #has(key: HotKey, { replicas, homes }: Copies): void {
    key.replicas = replicas;
    key.homes = homes;
    this.#stale = true;
  }

  /** Removes the copies that this process made, once no thread knows of them. */
  #release(key: HotKey): void {
    const actions = this.#actions;
    if (actions === null || !key.copied || this.#making.has(key)) return;
    key.copied = false;
    // Others are told of the copies until they are gone.
    this.#leaving.set(key, Promise.resolve());
    if (this.#stale) this.#publish();
    const { replicas, homes } = key;
    const released = actions.release(key.key, key.domain, { replicas, homes }).then(() => {
      this.#leaving.delete(key);
      return this.#tell();
    });
    this.#leaving.set(key, released);
  }

  /** Publishes the hot set, and drops from the cache what is no longer in it. */
  #publish(): void {
    this.#stale = false;
    const keys = this.#stopped ? [] : byRate(this.#governor.keys()).filter((key) => key.actable);
    this.#set.publish(
      keys.map((key) => {
        const { domain, replicas, homes } = key;
        return { key: key.key, domain, cached: this.#plans.isCached(key), replicas, homes };
      }),
    );
    const published = new Map(keys.map((key) => [key.id, key]));
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
    const entries = [...told, ...this.#leaving.keys()].map((key): SharedHotKey => ({
      domain: this.#domains[key.domain]!.name,
      key: key.key,
      level: key.level,
      rate: key.rate,
      replicas: key.copied || this.#leaving.has(key) ? key.replicas : [],
    }));
    this.#source.publish(entries);
  }
}

function late(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, Math.max(0, ms)).unref();
  });
}
