/**
 * What a contestant of the cache suite must offer: it holds all profiles when it is open, and plays rounds of reading them. Each
 * runs in a process of its own; `CACHES` is the register of the files of this folder.
 */
import type { ProfileSet } from "../../harness/cache-keys.js";
import type { Role, Sample } from "../../report/types.js";

/** What a contestant is filled from. */
export interface CacheTarget {
  /** `host:port` of a server that holds the profiles. */
  readonly server: string;
  /** Nodes of a cluster that holds them too. */
  readonly cluster: readonly string[];
  readonly set: ProfileSet;
  /** How many small keys it holds besides. */
  readonly small: number;
}

/** A contestant that is open. */
export interface OpenCache {
  play(maxMs: number): Promise<Sample>;
  close(): Promise<void>;
}

/** What a file of this folder exports as `contestant`. */
export interface CacheContestant {
  /** As shown in tables. */
  readonly name: string;
  readonly role: Role;
  open(target: CacheTarget): Promise<OpenCache>;
}

/** Files of this folder, in the order of the table. */
export const CACHES = [
  "keylane-peek",
  "keylane-get",
  "keylane-region",
  "lru-cache",
  "lmdb",
  "node-redis-csc",
  "node-redis-csc-cluster",
  "bentocache",
  "map",
  "loop",
] as const;

/** Reading in one thread and in two at once. */
export const READERS = ["keylane-1-thread", "keylane-2-threads"] as const;
/** Contestants without peers. */
export const ALONE = ["keylane-visibility", "keylane-small-keys"] as const;

/** Name of a contestant's file. */
export type CacheId = (typeof CACHES)[number] | (typeof READERS)[number] | (typeof ALONE)[number];

/** Loads a contestant; its library is loaded into this process only now. */
export async function loadContestant(id: CacheId): Promise<CacheContestant> {
  const module = (await import(`./${id}.js`)) as { readonly contestant: CacheContestant };
  return module.contestant;
}
