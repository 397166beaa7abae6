/**
 * The addon's cache functions as `CacheCore`: what arrives as JSON is parsed, booleans and options become words. The functions
 * of the hot path are handed on as they are.
 */
import type { CacheCore, CacheOptions, CacheSession } from "./cache-types.js";

/** A session as the addon makes it. */
type Seat = Omit<CacheSession, "layout" | "base" | "digest" | "invalidatePrefix" | "counters" | "usage" | "end"> & {
  describe(): string;
  invalidatePrefix(prefix: string | Uint8Array, domain: number): number;
  counters(): string;
  usage(): string;
  end(closeRegion: number): void;
};

/** What the addon exports for the cache. */
export interface CacheAddon {
  createCache(memory: Int32Array, options: Int32Array): Seat;
  attachCache(memory: Int32Array): Seat;
}

export function cacheOf(addon: CacheAddon): CacheCore {
  return {
    createCache: (memory, options) => sessionOf(addon.createCache(memory, optionWords(options))),
    attachCache: (memory) => sessionOf(addon.attachCache(memory)),
  };
}

function sessionOf(seat: Seat): CacheSession {
  const description: Pick<CacheSession, "layout" | "base" | "digest"> = JSON.parse(seat.describe());
  return {
    ...description,
    lookup: seat.lookup,
    probe: seat.probe,
    stamp: seat.stamp,
    beginLoad: seat.beginLoad,
    holds: seat.holds,
    ticket: seat.ticket,
    store: seat.store,
    invalidate: seat.invalidate,
    invalidateAll: seat.invalidateAll,
    invalidateFeeder: seat.invalidateFeeder,
    expireFeeder: seat.expireFeeder,
    invalidateSeat: seat.invalidateSeat,
    invalidatePrefix: (domain, prefix) => seat.invalidatePrefix(prefix, domain),
    claim: seat.claim,
    release: seat.release,
    counters: () => JSON.parse(seat.counters()) as Record<string, number>,
    count: seat.count,
    usage: () => JSON.parse(seat.usage()) as { entries: number; bytes: number },
    end: (closeRegion) => seat.end(closeRegion ? 1 : 0),
  };
}

/** The first words of `Options` in `crates/core/src/layout/options.rs`; 0 is the default. */
function optionWords({ entryBytes, maxValueBytes, maxKeyBytes, maxThreads }: CacheOptions): Int32Array {
  return Int32Array.of(entryBytes ?? 0, maxValueBytes ?? 0, maxKeyBytes ?? 0, maxThreads ?? 0);
}
