/**
 * The cache of one instance in this thread: the region, L0, and a `SharedCache` for every domain that wants one. Made before
 * the lanes connect, so that every connection is tracked from its first byte on.
 */
import { cacheCore, nativeInfo } from "../native/index.js";
import type { FallbackSpec } from "../native/types.js";
import type { Lane } from "../lane/contract.js";
import { DomainLane } from "../lane/lane.js";
import type { HotShare } from "../shared/hot-share.js";
import { SharedRegion } from "../shared/region.js";
import type { RegionHandle } from "../shared/region.js";
import type { CacheStats } from "../types.js";
import { LocalCache } from "./local.js";
import type { CachePolicy } from "./policy.js";
import { SharedCache } from "./shared-cache.js";
import { HEARTBEAT_MS, TRACKED_STALENESS_MS, Tracking } from "./tracking.js";

/** Longest record of a capped user's denials. */
const DENIAL_BYTES = 8192;

/** What a store is made from. */
export interface StorePlan {
  readonly cacheBytes: number;
  /** By domain; null for domains that are not cached. */
  readonly policies: readonly (CachePolicy | null)[];
  readonly prefixes: readonly { readonly prefix: string; readonly domain: number }[];
  readonly fallback: FallbackSpec;
  /** Whether the region is wanted even when no domain is cached. */
  readonly caps: { readonly domain: number; readonly shared: boolean };
}

/** Who hears that a domain's cache works under restrictions. */
export interface StoreListener {
  degraded(domain: string, reason: string): void;
  /** The domain's servers do not tell of changes. */
  untracked(domain: string, reason: string): void;
  /** A connection of a domain (by index) to a node (by index) is about to serve. */
  reached(domain: number, node: number): void;
}

export class CacheStore {
  readonly local: LocalCache;
  /** By domain. */
  readonly caches: readonly (SharedCache | null)[];
  readonly region: SharedRegion;
  readonly #tracking: readonly Tracking[];
  /** Domains whose servers do not tell of changes, to this thread or to a worker. */
  readonly #refusals = new Set<string>();
  readonly #timer: NodeJS.Timeout;

  private constructor(
    { policies, prefixes, fallback }: StorePlan,
    lanes: readonly Lane[],
    region: SharedRegion,
    hot: readonly (HotShare | null)[],
    listener: StoreListener,
  ) {
    this.region = region;
    this.local = new LocalCache(region, hot.find((share) => share !== null)?.counts ?? null);
    const trackings: Tracking[] = [];
    this.caches = lanes.map((lane, index) => {
      const policy = policies[index] ?? null;
      if (policy === null) return null;
      const { domain } = lane.config;
      const cache = new SharedCache(lane, region, this.local, policy, hot[index] ?? null, (reason) =>
        listener.degraded(domain, `cached values are answered past their expiry: ${reason}`),
      );
      if (!(lane instanceof DomainLane)) return cache;
      const own = prefixes.filter((one) => one.domain === index).map(({ prefix }) => prefix);
      const tracking = new Tracking(lane, region, policy, fallsTo(fallback, index) ? [""] : own, {
        refused: (reason) => {
          this.#refusals.add(domain);
          listener.untracked(domain, `only the time to live bounds how stale cached values are: ${reason}`);
        },
        reached: (node) => {
          cache.reached(node);
          listener.reached(index, node);
        },
      });
      lane.accompany(tracking);
      trackings.push(tracking);
      return cache;
    });
    this.#tracking = trackings;
    this.#timer = setInterval(() => this.#beat(), HEARTBEAT_MS).unref();
  }

  /**
   * `hot` is this thread's part in hot keys, by domain; null where they are of no interest.
   * Null when no domain is cached and caps want no region, or when there is no addon (which is told as `degraded`).
   *
   * @throws KeylaneError `KEYLANE_ERR_OPTIONS` for a region too small, `KEYLANE_ERR_ARGUMENT` for one that is not ours
   */
  static open(
    plan: StorePlan,
    lanes: readonly Lane[],
    handle: RegionHandle | null,
    hot: readonly (HotShare | null)[],
    listener: StoreListener,
  ): CacheStore | null {
    const cached = lanes.filter((_, index) => (plan.policies[index] ?? null) !== null);
    const others = plan.caps.shared ? lanes.filter(({ config }) => config.index === plan.caps.domain) : [];
    if (cached.length === 0 && others.length === 0) return null;
    if (cacheCore === undefined) {
      const info = nativeInfo();
      const reason = info.kind === "portable" ? info.reason : "the addon lacks it";
      for (const lane of cached) listener.degraded(lane.config.domain, `the shared cache is off: ${reason}`);
      return null;
    }
    const denials = plan.caps.domain < 0 ? 0 : DENIAL_BYTES;
    const largest = Math.max(denials, ...plan.policies.map((policy) => policy?.maxValueBytes ?? 0));
    const region =
      handle === null
        ? SharedRegion.create(cacheCore, plan.cacheBytes, largest)
        : SharedRegion.attach(cacheCore, handle);
    return new CacheStore(plan, lanes, region, hot, listener);
  }

  /** What another thread needs to join. */
  get handle(): RegionHandle {
    return this.region.handle;
  }

  stats(): CacheStats {
    const { entries, bytes, counters } = this.region.usage();
    const tracked = this.#refusals.size === 0;
    const longest = Math.max(...this.caches.map((cache) => cache?.policy.ttlMs ?? 0));
    return {
      l0Hits: this.local.hits,
      l1Hits: counters["l1Hits"] ?? 0,
      absentHits: counters["absentHits"] ?? 0,
      staleHits: counters["staleHits"] ?? 0,
      misses: counters["misses"] ?? 0,
      loads: counters["loads"] ?? 0,
      refreshes: counters["refreshes"] ?? 0,
      invalidations: counters["invalidations"] ?? 0,
      evictions: counters["evictions"] ?? 0,
      overtaken: counters["overtaken"] ?? 0,
      entries,
      bytesUsed: bytes,
      staleness: tracked ? "tracked" : "ttl",
      stalenessBoundMs: tracked ? Math.min(TRACKED_STALENESS_MS, longest) : longest,
    };
  }

  /** The lanes know their topologies. */
  opened(): void {
    for (const tracking of this.#tracking) tracking.follow();
  }

  /** A worker found that a domain's servers do not tell of changes. */
  refused(domain: string): void {
    this.#refusals.add(domain);
  }

  /** Answers nothing from now on; calls go to the lanes, which know whether they are open. */
  close(): void {
    this.local.close();
    for (const cache of this.caches) cache?.close();
  }

  /** Leaves the region, after the lanes are gone. In the thread that made it the cache ends for all threads. Idempotent. */
  end(): void {
    this.close();
    clearInterval(this.#timer);
    this.region.end();
  }

  #beat(): void {
    this.region.beat();
    const now = performance.now();
    for (const tracking of this.#tracking) tracking.beat(now);
  }
}

/** Whether keys that no prefix matches may come to the domain. */
function fallsTo(fallback: FallbackSpec, domain: number): boolean {
  if (fallback.kind === "reject") return false;
  return fallback.kind === "domain" ? fallback.domain === domain : fallback.domains.includes(domain);
}
