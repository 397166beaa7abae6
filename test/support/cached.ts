/** Options of a cached keylane on one server, and a look into its region that shares nothing with the cache's own reads. */
import type { CacheOptions, KeylaneHandle, OpenOptions } from "keylane";
import { CacheKind, INFO_EXPIRY, INFO_WORDS } from "#dist/native/cache-types.js";
import { cacheCore } from "#dist/native/index.js";
import type { CacheSession } from "#dist/native/cache-types.js";

/** One domain a codec, all on one server and cached alike: `t:` utf8, `j:` json, `b:` buffer, `m:` msgpack. */
export function cachedOn(address: string, cache: CacheOptions = {}, more: Partial<OpenOptions> = {}): OpenOptions {
  const domain = { nodes: [address], mode: "single", cache: { mode: "all", ...cache } } as const;
  return {
    domains: {
      texts: { ...domain, prefixes: ["t:"] },
      jsons: { ...domain, prefixes: ["j:"], codec: "json" },
      bytes: { ...domain, prefixes: ["b:"], codec: "buffer" },
      packed: { ...domain, prefixes: ["m:"], codec: "msgpack" },
    },
    commandTimeoutMs: 5000,
    ...more,
  };
}

/** A session of its own in the region of a handle; `end(false)` it. */
export function sessionOf(handle: KeylaneHandle): CacheSession {
  return cacheCore!.attachCache(new Int32Array(handle.region!.region));
}

/** How long a cached key has to live, in milliseconds of the region's clock; undefined when it is not cached. */
export function lifeLeft(handle: KeylaneHandle, key: string): number | undefined {
  const words = new Int32Array(handle.region!.region);
  const session = sessionOf(handle);
  try {
    const info = new Int32Array(INFO_WORDS);
    const kind = session.lookup(key, 0, 0, Buffer.alloc(32 << 10), info);
    if (kind !== CacheKind.HIT && kind !== CacheKind.ABSENT) return undefined;
    return (info[INFO_EXPIRY]! - words[session.base + session.layout["clock"]!]!) | 0;
  } finally {
    session.end(false);
  }
}

/** How many more threads can join the region of a handle. */
export function freeSeats(handle: KeylaneHandle): number {
  const sessions: CacheSession[] = [];
  try {
    for (;;) sessions.push(sessionOf(handle));
  } catch {
    return sessions.length;
  } finally {
    for (const session of sessions) session.end(false);
  }
}
