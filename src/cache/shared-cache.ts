/**
 * The cache of one domain in this thread: L0 in front of the region (L1) that all threads share, in front of the domain's
 * lane. The invariant: what is stored was loaded after the last invalidation of its key that this process heard of (the
 * ticket), lives no longer than the key in Redis, and values given out are frozen or the caller's own.
 *
 * ```text
 * get → L0 ─ miss → L1 ─ miss → single flight → PTTL + GET over the lane → L1, L0
 *        └ hit       └ hit, and elected: the old value now, a refresh behind it
 * ```
 */
import { KeylaneError } from "../errors.js";
import type { CallLimits, DomainLane } from "../lane/lane.js";
import type { Codec } from "../lane/codec.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import {
  CacheKind,
  CacheStored,
  FLAG_ELECTED,
  FLAG_HIGH,
  INFO_CHECK,
  INFO_FLAGS,
  INFO_LENGTH,
  INFO_PROOF,
  INFO_PROOF_INDEX,
  INFO_WORDS,
} from "../native/cache-types.js";
import { KIND_HIGH, Kind } from "../native/types.js";
import type { SharedRegion } from "../shared/region.js";
import type { Key } from "../types.js";
import { freeze } from "./freeze.js";
import type { LocalCache } from "./local.js";
import type { CachePolicy } from "./policy.js";
import { SingleFlight } from "./single-flight.js";
import type { Tracking } from "./tracking.js";

const UNKNOWN_LIFE = -3;
/** Life of what has none, or more than the region counts (12 days). */
const LONGEST_MS = 2 ** 30;

/** Scratch of this thread: used inside one call only, so all domains share it. */
const info = new Int32Array(INFO_WORDS);
let scratch = Buffer.allocUnsafeSlow(64 << 10);

export class SharedCache {
  readonly policy: CachePolicy;
  readonly #lane: DomainLane;
  readonly #region: SharedRegion;
  readonly #local: LocalCache;
  readonly #codec: Codec;
  readonly #domain: number;
  readonly #tracking: Tracking;
  readonly #flights: SingleFlight;

  constructor(lane: DomainLane, region: SharedRegion, local: LocalCache, policy: CachePolicy, tracking: Tracking) {
    this.#lane = lane;
    this.#region = region;
    this.#local = local;
    this.policy = policy;
    this.#codec = lane.codec;
    this.#domain = lane.config.index;
    this.#tracking = tracking;
    this.#flights = new SingleFlight(region, lane.config.commandTimeoutMs);
  }

  /** The cached value, null when the key is known to be absent, undefined when it is not cached. Never waits. */
  peek(key: Key): unknown {
    if (typeof key === "string") {
      const value = this.#local.get(key);
      if (value !== undefined) return value;
    }
    return this.#lookup(key);
  }

  /** The value: cached, or loaded by the one caller of the process that is elected to. */
  get(key: string): Promise<unknown> {
    const value = this.peek(key);
    if (value !== undefined) return Promise.resolve(value);
    return this.#flights.run(
      key,
      () => this.#lookup(key),
      () => this.#load(key, {}),
    );
  }

  /** As `get`, for byte keys and for calls with limits of their own: these load for themselves. */
  getAlone(key: Key, limits: CallLimits): Promise<unknown> {
    if (limits.signal?.aborted !== true) {
      const value = this.peek(key);
      if (value !== undefined) return Promise.resolve(value);
    }
    return this.#load(key, limits);
  }

  /** Drops a key in every thread; loads of it under way will not be stored. */
  invalidate(key: Key): void {
    this.#region.session.invalidate(key);
  }

  /** Drops the domain's keys with a prefix (empty: all). O(region). */
  invalidatePrefix(prefix: string): number {
    return this.#region.session.invalidatePrefix(this.#domain, prefix);
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

  /** Whether changes by others are told by the servers; null, or why not. */
  get trackingRefusal(): string | null {
    return this.#tracking.refusal;
  }

  stop(): void {
    this.#tracking.stop();
  }

  #lookup(key: Key): unknown {
    const { session } = this.#region;
    const { leaseMs } = this.policy;
    let kind = session.lookup(key, 0, leaseMs, scratch, info);
    if (kind === CacheKind.MISS) return undefined;
    if (kind === CacheKind.NO_ROOM) {
      scratch = Buffer.allocUnsafeSlow(info[INFO_LENGTH]! * 2);
      kind = session.lookup(key, 0, leaseMs, scratch, info);
      if (kind === CacheKind.MISS || kind === CacheKind.NO_ROOM) return undefined;
    }
    const flags = info[INFO_FLAGS]!;
    let value: unknown = null;
    if (kind === CacheKind.HIT) {
      value = freeze(this.#codec.decode(scratch, 0, info[INFO_LENGTH]!, (flags & FLAG_HIGH) !== 0));
    }
    this.#keepLocal(key, value);
    if ((flags & FLAG_ELECTED) !== 0) this.#refresh(key);
    return value;
  }

  /** Byte keys and values that cannot be frozen are not held decoded. */
  #keepLocal(key: Key, value: unknown): void {
    if (typeof key !== "string" || Buffer.isBuffer(value)) return;
    this.#local.set(key, value, info[INFO_PROOF_INDEX]!, info[INFO_PROOF]!, info[INFO_CHECK]!);
  }

  #refresh(key: Key): void {
    this.#load(key, {}).catch(() => {
      // The old value is served until it expires; the next election tries again.
    });
  }

  #load(key: Key, limits: CallLimits): Promise<unknown> {
    const load = new Load(this, key, this.#region.session.beginLoad(key));
    const sent = typeof key === "string" ? key : Buffer.from(key);
    return this.#lane.load(sent, load.life, load, limits);
  }

  /** @internal The reply of a load: stores it when the ticket still holds, and gives the decoded value. */
  loaded(load: Load, rows: ReplyRows): unknown {
    const kind = rows.kind();
    const high = (rows.table[rows.at]! & KIND_HIGH) !== 0;
    if (kind !== Kind.BULK && kind !== Kind.NULL) return this.#lane.valueShape.read(rows);
    if (kind === Kind.NULL) {
      rows.skip();
      if (rows.feed.healthy) this.#store(load, null, this.policy.negativeTtlMs, rows.feed.feeder, null);
      return null;
    }
    const bytes = rows.bytes();
    const value = freeze(this.#codec.decode(bytes, 0, bytes.length, high));
    const life = load.lifeMs === -1 ? LONGEST_MS : load.lifeMs;
    if (life > 0) this.#store(load, bytes, Math.min(this.policy.ttlMs, life), rows.feed.feeder, value);
    return value;
  }

  #store({ key, ticket }: Load, bytes: Buffer | null, ttlMs: number, feeder: number, value: unknown): void {
    const { refreshAfterMs, maxValueBytes } = this.policy;
    if (bytes !== null && bytes.length > maxValueBytes) {
      this.invalidate(key);
      return;
    }
    const { session } = this.#region;
    const stored = session.store(key, bytes, ttlMs, refreshAfterMs, feeder, this.#domain, ticket, info);
    if (stored === CacheStored.KEPT) this.#keepLocal(key, value);
  }
}

/** One load under way: the shape of its GET, and of the PTTL before it. */
class Load implements Shape {
  readonly key: Key;
  readonly ticket: number;
  /** What PTTL said: milliseconds, -1 without end, -2 absent. */
  lifeMs = UNKNOWN_LIFE;
  readonly life: Shape = {
    read: (rows) => {
      this.lifeMs = Number(rows.value());
      return this.lifeMs;
    },
  };
  readonly #cache: SharedCache;

  constructor(cache: SharedCache, key: Key, ticket: number) {
    this.#cache = cache;
    this.key = key;
    this.ticket = ticket;
  }

  read(rows: ReplyRows): unknown {
    return this.#cache.loaded(this, rows);
  }
}

/** What a cache without an addon answers. */
export function noCache(reason: string): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_OPTIONS", `the shared cache needs the native addon: ${reason}`);
}
