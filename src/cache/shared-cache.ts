/**
 * The cache of one domain in this thread: L0 in front of the region (L1) that all threads share, in front of the domain's
 * lane. The invariant: what is stored was loaded after the last invalidation of its key that this process heard of (the
 * ticket), lives no longer than the key in Redis, and a value that callers share is frozen.
 *
 * ```text
 * get → L0 ─ miss → L1 ─ miss → single flight → PTTL + GET over the lane → L1, L0
 *        └ hit       │                                  └ failed, and staleIfErrorMs: L1 past its expiry
 *                    └ hit, and elected: the old value now, a refresh behind it
 * ```
 *
 * Where the lane's connections are in workers, what follows the miss of a plain GET is done there (`fetches.ts`, `errands.ts`).
 */
import { cacheChannel } from "../diagnostics.js";
import type { Codec } from "../lane/codec.js";
import { ownKey } from "../lane/arguments.js";
import type { CallLimits, Lane } from "../lane/contract.js";
import { DomainLane } from "../lane/lane.js";
import { HEAD_GET } from "../lane/op.js";
import type { Settle, WireArg } from "../lane/op.js";
import type { ReplyRows } from "../lane/replies.js";
import {
  CacheKind,
  CacheStored,
  FLAG_ELECTED,
  FLAG_HIGH,
  INFO_CHECK,
  INFO_FLAGS,
  INFO_HASH_LOW,
  INFO_LENGTH,
  INFO_PROOF,
  INFO_PROOF_INDEX,
  INFO_TICKET,
  INFO_WORDS,
} from "../native/cache-types.js";
import { native } from "../native/index.js";
import type { HitCounts } from "../shared/hit-counts.js";
import type { HotSet } from "../shared/hot-set.js";
import type { HotShare } from "../shared/hot-share.js";
import type { SharedRegion } from "../shared/region.js";
import type { Key } from "../types.js";
import type { HotReplicas } from "./hot-replicas.js";
import { fly } from "./callers.js";
import type { Callers, CallersCache } from "./callers.js";
import { Errands } from "./errands.js";
import type { ErrandCache } from "./errands.js";
import { Fetches } from "./fetches.js";
import { Load } from "./load.js";
import type { LoadTarget, Loading } from "./load.js";
import type { LocalCache } from "./local.js";
import { LoadNews } from "./load-news.js";
import { Outages } from "./outages.js";
import type { CachePolicy } from "./policy.js";
import { copyOf, share } from "./share.js";
import { SingleFlight } from "./single-flight.js";

const NO_LIMITS: CallLimits = {};

/** Scratch of this thread: used inside one call only, so all domains share it. */
const info = new Int32Array(INFO_WORDS);
let scratch = Buffer.allocUnsafeSlow(64 << 10);

export class SharedCache implements LoadTarget, ErrandCache, CallersCache {
  readonly policy: CachePolicy;
  readonly #lane: Lane;
  readonly #region: SharedRegion;
  readonly #local: LocalCache;
  readonly #codec: Codec;
  readonly #domain: number;
  readonly #flights: SingleFlight<Callers>;
  /** Instead of these for plain GETs, where a worker elects who loads and nobody in this thread watches loads. */
  readonly #fetches: Fetches | null;
  readonly #outages: Outages;
  readonly #news: LoadNews;
  /** Where answers are counted; null when they are not. */
  readonly #hits: HitCounts | null;
  /** The keys to be cached when only hot ones are; null when the mode is another, or nothing finds them. */
  readonly #hot: HotSet | null;
  /** A hot key lives shorter than others, and is loaded anew before it ends, so that its hits never all miss at once. */
  readonly #hotTtlMs: number;
  readonly #hotRefreshMs: number;
  #replicas: HotReplicas | null = null;
  #closed = false;

  /** `stale` hears when a node can no longer be asked and values past their expiry are answered. */
  constructor(
    lane: Lane,
    region: SharedRegion,
    local: LocalCache,
    policy: CachePolicy,
    hot: HotShare | null,
    stale: (reason: string) => void,
  ) {
    this.#lane = lane;
    this.#region = region;
    this.#local = local;
    this.policy = policy;
    this.#hits = hot?.counts ?? null;
    this.#hot = policy.mode === "hot" && hot !== null ? hot.set : null;
    const { ttlMs, refreshAfterMs, hotTtlMs } = policy;
    this.#hotTtlMs = Math.min(ttlMs, hotTtlMs);
    const half = this.#hotTtlMs >> 1;
    this.#hotRefreshMs = refreshAfterMs === 0 ? half : Math.min(half, refreshAfterMs);
    this.#codec = lane.codec;
    this.#domain = lane.config.index;
    const look = (key: string): unknown =>
      this.#closed || !region.session.holds(key) ? undefined : this.#lookup(key, 0);
    this.#flights = new SingleFlight(region, look, lane.config.domain, lane.config.commandTimeoutMs);
    this.#outages = new Outages(stale);
    this.#news = new LoadNews(lane.config.domain, this.#outages, policy.staleIfErrorMs > 0);
    const fetcher = policy.staleIfErrorMs > 0 ? null : lane.fetcher;
    this.#fetches = fetcher && new Fetches(fetcher, local, this.#codec, this.#hits);
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** What this thread does for others that miss the domain's keys. Null where it has no connections of its own. */
  errands(): Errands | null {
    return this.#lane instanceof DomainLane ? new Errands(this, this.#lane, this.#region) : null;
  }

  /** Has what cannot be cached read from its copies. */
  spread(replicas: HotReplicas | null): void {
    this.#replicas = replicas;
  }

  /** The cached value, null when the key is known to be absent, undefined when it is not cached. Never waits. */
  peek(key: Key): unknown {
    if (typeof key === "string") {
      const value = this.#local.get(key);
      if (value !== undefined) return value;
    }
    if (this.#closed) return undefined;
    const value = this.#lookup(key, 0);
    if (value !== undefined) this.#hits?.add(key, 1);
    return value;
  }

  /** The value: cached, or loaded by the one caller of the process that is elected to. */
  get(key: string): Promise<unknown> {
    const value = this.peek(key);
    if (value !== undefined) return Promise.resolve(value);
    return this.#miss(key);
  }

  /** As `get`, for byte keys and for calls with limits of their own: these load for themselves. */
  getAlone(key: Key, limits: CallLimits): Promise<unknown> {
    if (limits.signal?.aborted !== true) {
      const value = this.peek(key);
      if (value !== undefined) return Promise.resolve(value);
      const stale = this.#outages.any ? this.#staleDuring(key) : undefined;
      if (stale !== undefined) return Promise.resolve(stale);
    }
    if (this.#bypasses(key)) {
      return this.#fromCopy(key, limits, true) ?? this.#lane.call(HEAD_GET, ownKey(key), null, null, limits);
    }
    this.#hits?.add(key, 1);
    return this.#excuse(key, this.#loadAlone(key, limits, "load"));
  }

  /** Brings a key into the cache, whatever the mode. True when it is there (or known absent) afterwards. */
  async warm(key: Key): Promise<boolean> {
    if (this.peek(key) === undefined) await this.#loadAlone(key, NO_LIMITS, "load");
    return this.peek(key) !== undefined;
  }

  /** Drops a key in every thread; loads of it under way will not be stored. */
  invalidate(key: Key): void {
    if (!this.#closed) this.#region.session.invalidate(key);
  }

  /** Drops the domain's keys with a prefix (empty: all). Returns how many. O(region). */
  invalidatePrefix(prefix: string): number {
    return this.#closed ? 0 : this.#region.session.invalidatePrefix(this.#domain, prefix);
  }

  /** Runs a write of `keys`: what is cached of them goes before it is sent and again when it is answered. */
  async write<T>(keys: readonly Key[], send: () => Promise<T>): Promise<T> {
    for (const key of keys) this.invalidate(key);
    try {
      return await send();
    } finally {
      for (const key of keys) this.invalidate(key);
    }
  }

  /** A node is connected again: what it has is asked for, nothing is answered past its expiry any more. */
  reached(node: number): void {
    this.#outages.answered(node);
  }

  /** Answers nothing and stores nothing from now on; calls go to the lane. */
  close(): void {
    this.#closed = true;
  }

  // ── misses ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Whether a key's value, when it is not cached, goes past the cache. */
  #bypasses(key: Key): boolean {
    return this.#closed || (this.policy.mode === "hot" && !this.#isHot(key));
  }

  /** Whether a key is cached because it is hot. */
  #isHot(key: Key): boolean {
    if (this.#hot === null || this.#hot.size === 0) return false;
    const text = typeof key === "string" ? key : Buffer.from(key.buffer, key.byteOffset, key.length).toString();
    return this.#hot.find(text)?.cached === true;
  }

  #miss(key: string): Promise<unknown> {
    if (this.#outages.any) {
      const stale = this.#staleDuring(key);
      if (stale !== undefined) return Promise.resolve(stale);
    }
    if (this.#bypasses(key)) return this.#fromCopy(key, NO_LIMITS, true) ?? this.#lane.get(key);
    if (this.#fetches !== null && !cacheChannel.hasSubscribers && this.#replicas?.active !== true) {
      return this.#fetches.get(key, info[INFO_HASH_LOW]!, info[INFO_TICKET]!, this.#local.stale);
    }
    this.#hits?.add(key, 1);
    return this.#excuse(key, fly(this.#flights, this, key, this.#lane.config.commandTimeoutMs));
  }

  depart(flight: Callers, timeoutMs: number): void {
    const limits = timeoutMs === this.#lane.config.commandTimeoutMs ? NO_LIMITS : { timeoutMs };
    this.#load(flight.key, limits, "load", flight.ticket!, (value) => this.#flights.landed(flight, value));
  }

  copy(value: unknown): unknown {
    return copyOf(value, this.#codec);
  }

  /** Answers a failed load from L1 past its expiry, where that is allowed. */
  #excuse(key: Key, loaded: Promise<unknown>): Promise<unknown> {
    if (this.policy.staleIfErrorMs === 0) return loaded;
    return loaded.catch((error: unknown) => {
      const out = this.#outages.has(this.#nodeOf(key));
      const stale = out && !this.#closed ? this.#stale(key) : undefined;
      if (stale === undefined) throw error;
      return stale;
    });
  }

  /** While the key's node is out: the value past its expiry at once, and now and then a load that asks for the node. */
  #staleDuring(key: Key): unknown {
    const node = this.#nodeOf(key);
    if (this.#closed || !this.#outages.has(node)) return undefined;
    const stale = this.#stale(key);
    if (stale !== undefined && this.#outages.mayProbe(node, performance.now())) this.#refresh(key);
    return stale;
  }

  #stale(key: Key): unknown {
    const value = this.#lookup(key, this.policy.staleIfErrorMs);
    if (value === undefined) return undefined;
    this.#hits?.add(key, 1);
    this.#news.publish("stale", null, null);
    return value;
  }

  #nodeOf(key: Key): number {
    return this.#lane.topology.nodeOf(native.slot(key));
  }

  #lookup(key: Key, staleMs: number): unknown {
    const { session } = this.#region;
    const leaseMs = staleMs === 0 ? this.policy.leaseMs : 0;
    let kind = session.lookup(key, staleMs, leaseMs, scratch, info);
    if (kind === CacheKind.MISS) return undefined;
    if (kind === CacheKind.NO_ROOM) {
      scratch = Buffer.allocUnsafeSlow(info[INFO_LENGTH]! * 2);
      kind = session.lookup(key, staleMs, leaseMs, scratch, info);
      if (kind === CacheKind.MISS || kind === CacheKind.NO_ROOM) return undefined;
    }
    const flags = info[INFO_FLAGS]!;
    let value: unknown = null;
    if (kind === CacheKind.HIT) value = this.#codec.decode(scratch, 0, info[INFO_LENGTH]!, (flags & FLAG_HIGH) !== 0);
    if (share(value, this.#codec) && staleMs === 0) this.#keepLocal(key, value);
    if ((flags & FLAG_ELECTED) !== 0) this.#refresh(key);
    return value;
  }

  /** Byte keys are not held decoded. `info` tells of the value. */
  #keepLocal(key: Key, value: unknown): void {
    if (typeof key === "string") this.#local.set(key, value, info);
  }

  /** What is loaded comes into L0 where its key was there; others when they are hit for the first time. */
  #renewLocal(key: WireArg, value: unknown, index: number, proof: number, check: number): void {
    const entry = typeof key === "string" ? this.#local.find(key) : undefined;
    if (entry !== undefined) this.#local.renew(entry, value, index, proof, check);
  }

  #refresh(key: Key): void {
    this.#loadAlone(key, NO_LIMITS, "refresh").catch(() => {
      // The old value is served until it expires; the next election tries again.
    });
  }

  // ── loads ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #loadAlone(key: Key, limits: CallLimits, kind: "load" | "refresh"): Promise<unknown> {
    return new Promise((settle) => {
      const ticket = this.#closed ? 0 : this.#region.session.beginLoad(key);
      this.#load(key, limits, kind, ticket, settle);
    });
  }

  #load(key: Key, limits: CallLimits, kind: "load" | "refresh", ticket: number, settle: Settle): void {
    const owned = ownKey(key);
    if (this.#closed) {
      settle(this.#lane.call(HEAD_GET, owned, null, null, limits));
      return;
    }
    const { words, clock } = this.#region;
    const done = this.#news.wanted ? this.#news.watch(kind, () => this.#nodeOf(key), settle) : settle;
    const copy = this.#fromCopy(key, limits, false);
    if (copy === null) this.#lane.load(new Load(this, owned, ticket, words[clock]!), limits, done);
    else void this.#settleBy(copy, done);
  }

  /** The value from one of its copies, where a hot key has some because it cannot be cached. */
  #fromCopy(key: Key, limits: CallLimits, counted: boolean): Promise<unknown> | null {
    const replicas = this.#replicas;
    if (typeof key !== "string" || replicas === null || this.#closed || !replicas.active) return null;
    return replicas.read(key, limits, counted);
  }

  async #settleBy(copy: Promise<unknown>, settle: Settle): Promise<void> {
    try {
      const value = await copy;
      share(value, this.#codec);
      settle(value);
    } catch (error) {
      settle(Promise.reject(error as Error));
    }
  }

  decode(bytes: Buffer, high: boolean): unknown {
    return this.#codec.decode(bytes, 0, bytes.length, high);
  }

  store(load: Load, bytes: Buffer | null, lifeMs: number, feeder: number, value: unknown): void {
    const shared = share(value, this.#codec);
    if (!this.keep(load, bytes, lifeMs, feeder, info)) return;
    if (shared) this.#renewLocal(load.key, value, info[INFO_PROOF_INDEX]!, info[INFO_PROOF]!, info[INFO_CHECK]!);
  }

  fetched({ key }: Load, value: unknown, index: number, proof: number, check: number): void {
    const shared = share(value, this.#codec);
    if (shared && index !== -1) this.#renewLocal(key, value, index, proof, check);
  }

  /** The life of a value is its `ttlMs`, at most the key's `lifeMs`; null for an absent key. `told` tells where it is. */
  keep(
    { key, ticket, began }: Loading,
    bytes: Buffer | null,
    lifeMs: number,
    feeder: number,
    told: Int32Array,
  ): boolean {
    if (this.#closed) return false;
    const { ttlMs, negativeTtlMs, refreshAfterMs, maxValueBytes } = this.policy;
    if (bytes !== null && bytes.length > maxValueBytes) {
      this.invalidate(key);
      return false;
    }
    const { session, words, clock } = this.#region;
    const left = lifeMs - ((words[clock]! - began) | 0);
    if (left <= 0) return false;
    const hot = this.#isHot(key);
    const most = hot ? this.#hotTtlMs : ttlMs;
    const life = bytes === null ? negativeTtlMs : Math.min(most, left);
    const refreshMs = hot ? this.#hotRefreshMs : refreshAfterMs;
    return session.store(key, bytes, life, refreshMs, feeder, this.#domain, ticket!, told) === CacheStored.KEPT;
  }

  value(rows: ReplyRows): unknown {
    return this.#lane.valueShape.read(rows);
  }
}
