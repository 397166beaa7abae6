/**
 * The cache of one instance in this thread: the region, L0, and a `SharedCache` for every domain that wants one. Made before
 * the lanes connect, so that every connection is tracked from its first byte on.
 */
import { cacheCore, nativeInfo } from "../native/index.js";
import type { DomainLane } from "../lane/lane.js";
import { SharedRegion } from "../shared/region.js";
import type { RegionHandle } from "../shared/region.js";
import { LocalCache } from "./local.js";
import type { CachePolicy } from "./policy.js";
import { SharedCache } from "./shared-cache.js";
import { TRACKED_STALENESS_MS, Tracking } from "./tracking.js";

/** The shared cache; counts are of all threads of the process, `l0Hits` of this one. */
export interface CacheStats {
  /** Answered by this thread's own map. */
  readonly l0Hits: number;
  /** Answered by the shared region. */
  readonly l1Hits: number;
  /** Of the region's answers: the key is known to be absent. */
  readonly absentHits: number;
  /** Of the region's answers: past their expiry, because the cluster was down. */
  readonly staleHits: number;
  readonly misses: number;
  readonly loads: number;
  readonly refreshes: number;
  readonly invalidations: number;
  readonly evictions: number;
  /** Loads not stored because their key was invalidated meanwhile. */
  readonly overtaken: number;
  readonly entries: number;
  readonly bytesUsed: number;
  /** What bounds staleness: the servers' invalidations, or only the time to live. */
  readonly staleness: "tracked" | "ttl";
  readonly stalenessBoundMs: number;
}

/** What a store is made from. */
export interface StorePlan {
  readonly cacheBytes: number;
  /** By domain; null for domains that are not cached. */
  readonly policies: readonly (CachePolicy | null)[];
  readonly prefixes: readonly { readonly prefix: string; readonly domain: number }[];
}

export class CacheStore {
  readonly region: SharedRegion;
  readonly local: LocalCache;
  /** By domain. */
  readonly caches: readonly (SharedCache | null)[];

  private constructor(plan: StorePlan, lanes: readonly DomainLane[], region: SharedRegion) {
    this.region = region;
    this.local = new LocalCache(region);
    this.caches = lanes.map((lane, index) => {
      const policy = plan.policies[index] ?? null;
      if (policy === null) return null;
      const prefixes = plan.prefixes.filter(({ domain }) => domain === index).map(({ prefix }) => prefix);
      const tracking = new Tracking(lane, region, { broadcast: policy.broadcast ? prefixes : null });
      lane.accompany(tracking);
      return new SharedCache(lane, region, this.local, policy, tracking);
    });
  }

  /** Null when no domain is cached, or when there is no addon (which is told as `degraded`). */
  static open(
    plan: StorePlan,
    lanes: readonly DomainLane[],
    handle: RegionHandle | null,
    listener: { degraded(domain: string, reason: string): void },
  ): CacheStore | null {
    const cached = lanes.filter((_, index) => (plan.policies[index] ?? null) !== null);
    if (cached.length === 0) return null;
    if (cacheCore === undefined) {
      const info = nativeInfo();
      const reason = info.kind === "portable" ? info.reason : "the addon lacks it";
      for (const lane of cached) listener.degraded(lane.config.domain, `the shared cache is off: ${reason}`);
      return null;
    }
    const largest = Math.max(...plan.policies.map((policy) => policy?.maxValueBytes ?? 0));
    const region =
      handle === null
        ? SharedRegion.create(cacheCore, plan.cacheBytes, largest)
        : SharedRegion.attach(cacheCore, handle);
    return new CacheStore(plan, lanes, region);
  }

  stats(): CacheStats {
    const { session } = this.region;
    const { entries, bytes } = session.usage();
    const counters = session.counters();
    const domains = this.caches.filter((cache) => cache !== null);
    const tracked = domains.every((cache) => cache.trackingRefusal === null);
    const longest = Math.max(...domains.map((cache) => cache.policy.ttlMs));
    return {
      l0Hits: this.local.hits,
      l1Hits: counters["l1Hits"]!,
      absentHits: counters["absentHits"]!,
      staleHits: counters["staleHits"]!,
      misses: counters["misses"]!,
      loads: counters["loads"]!,
      refreshes: counters["refreshes"]!,
      invalidations: counters["invalidations"]!,
      evictions: counters["evictions"]!,
      overtaken: counters["overtaken"]!,
      entries,
      bytesUsed: bytes,
      staleness: tracked ? "tracked" : "ttl",
      stalenessBoundMs: tracked ? Math.min(TRACKED_STALENESS_MS, longest) : longest,
    };
  }

  end(): void {
    for (const cache of this.caches) cache?.stop();
    this.region.end();
  }
}
