/**
 * Replays a trace through a cache that holds a given number of objects: what is asked for and not there is stored. The invariant:
 * all caches get the same requests and hold at most the same number of objects.
 */
import { LRUCache } from "lru-cache";
import { cacheCore } from "#dist/native/index.js";
import { CacheKind, CacheStored, INFO_WORDS, type CacheSession } from "#dist/native/cache-types.js";
import { S3Fifo } from "../baselines/s3-fifo.js";

/** Asks for an object; stores it when it is not there. True for a hit. */
export type Ask = (object: number) => boolean;

/** A cache to replay through. */
export interface Replayed {
  readonly ask: Ask;
  end(): void;
}

/** The caches by name; each is made anew for a capacity in objects. */
export const REPLAYED = {
  keylane: sharedCache,
  "LRU (lru-cache)": lru,
  "S3-FIFO": s3Fifo,
} as const satisfies Record<string, (capacity: number) => Replayed>;

export type ReplayedName = keyof typeof REPLAYED;

/** Requests answered by the cache. */
export function replay(requests: Uint32Array, ask: Ask): number {
  let hits = 0;
  for (let i = 0; i < requests.length; i += 1) if (ask(requests[i])) hits += 1;
  return hits;
}

function lru(capacity: number): Replayed {
  const cache = new LRUCache<number, true>({ max: capacity });
  return {
    ask(object) {
      if (cache.get(object) !== undefined) return true;
      cache.set(object, true);
      return false;
    },
    end: () => cache.clear(),
  };
}

function s3Fifo(capacity: number): Replayed {
  const cache = new S3Fifo(capacity);
  return { ask: (object) => cache.ask(object), end: () => {} };
}

const TTL_MS = 3_600_000;
const KEY_BYTES = 4;
/** Words of a record besides its value: 5 of header, one of key. */
const RECORD_WORDS = 6;
/** Values are as long as makes a region of this size, so that it is divided as those of services are. */
const REGION_BYTES = 32 << 20;
/** With its record, 16 KiB. */
const LONGEST_VALUE = 16_360;
const GRAIN = 64 << 10;

/** The session of a region of `bytes` for values of one length, or null when they are too few. */
function sessionOf(bytes: number, valueBytes: number): CacheSession | null {
  const options = {
    entryBytes: KEY_BYTES + valueBytes,
    maxKeyBytes: KEY_BYTES,
    maxValueBytes: valueBytes,
    maxThreads: 2,
  };
  try {
    return cacheCore!.createCache(new Int32Array(new SharedArrayBuffer(bytes)), options);
  } catch {
    return null;
  }
}

/** Records with values of one length that a session's arena has room for. */
function roomOf({ layout }: CacheSession, valueBytes: number): number {
  return layout["segmentCount"] * Math.floor(layout["segmentWords"] / (RECORD_WORDS + valueBytes / 4));
}

/** The session of the largest region whose arena has room for no more than `capacity` values. */
function sized(capacity: number, valueBytes: number): CacheSession {
  const above = capacity * (valueBytes + 256) * 1.25 + 1024 * GRAIN;
  for (let bytes = Math.ceil(above / GRAIN) * GRAIN; bytes > 0; bytes -= GRAIN) {
    const session = sessionOf(bytes, valueBytes);
    if (session !== null && roomOf(session, valueBytes) <= capacity) return session;
    session?.end(true);
  }
  throw new Error(`no region holds only ${capacity} objects`);
}

function sharedCache(capacity: number): Replayed {
  const valueBytes = Math.min(LONGEST_VALUE, Math.max(8, Math.floor(REGION_BYTES / capacity / 8) * 8));
  const session = sized(capacity, valueBytes);
  const key = Buffer.alloc(KEY_BYTES);
  const value = Buffer.alloc(valueBytes);
  const out = Buffer.alloc(valueBytes);
  const info = new Int32Array(INFO_WORDS);
  return {
    ask(object) {
      key.writeUInt32BE(object);
      if (session.lookup(key, 0, 0, out, info) === CacheKind.HIT) {
        if (out.readUInt32BE(0) !== object || out.readUInt32BE(valueBytes - 4) !== object) {
          throw new Error(`object ${object} has a wrong value`);
        }
        return true;
      }
      value.writeUInt32BE(object, 0);
      value.writeUInt32BE(object, valueBytes - 4);
      const stored = session.store(key, value, TTL_MS, 0, 0, 0, session.beginLoad(key), info);
      if (stored !== CacheStored.KEPT) throw new Error(`object ${object} was not stored (${stored})`);
      return false;
    },
    end: () => session.end(true),
  };
}
