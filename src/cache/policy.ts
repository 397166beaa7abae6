/** How a domain is cached; resolved from its options at open. Times in milliseconds. */
export interface CachePolicy {
  /** `all`: every key read; `hot`: only keys that are hot, and those that `warm` brought in. */
  readonly mode: "all" | "hot";
  /** Longest life in the cache; never beyond the key's own. */
  readonly ttlMs: number;
  /** Age from which on a hit elects one refresher; 0 never. */
  readonly refreshAfterMs: number;
  /** Life of "there is no such key". */
  readonly negativeTtlMs: number;
  /** With `hot`: longest life of a key that is there because it is hot. */
  readonly hotTtlMs: number;
  readonly maxValueBytes: number;
  /** How long past its expiry a value may be answered while its node cannot be reached; 0 never. */
  readonly staleIfErrorMs: number;
  /** How long an elected refresher has before the next one is elected. */
  readonly leaseMs: number;
  /** Subscribe to the domain's prefixes instead of the keys read. */
  readonly broadcast: boolean;
}
