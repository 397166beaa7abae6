/** The names that the suite `hotkeys` and its child share: ways of dealing with a hot key, and what is measured of each. */

/** How the key is dealt with. */
export type HotMode = "off" | "replicas" | "l1";

export interface HotkeysEntry {
  readonly mode: HotMode;
  readonly nodes: readonly string[];
}

/** Calls a second; after `settleMs` the load is expected to be spread, and is measured until `maxMs`. */
export interface HotkeysRound {
  readonly rate: number;
  readonly settleMs: number;
  readonly maxMs: number;
}

export const COPIES = "keylane, copies on other nodes";
export const CACHED = "keylane, shared cache";

/** What each is called in the table. */
export const NAMES: Readonly<Record<HotMode, string>> = {
  off: "keylane, hotKeys: false",
  replicas: COPIES,
  l1: CACHED,
};

/** When the key was told to be at each level, since its first read; the whole round when it was not. */
export const DETECTED = "detected ms";
export const CRITICAL = "critical ms";
/** Share of all reads that its node answered in the first 0.3 s, and of those made after it is settled. */
export const BEFORE = "on its node before %";
export const AFTER = "on its node after %";
/** After it is settled. */
export const OVER_OTHERS = "its node ÷ mean of others";

/** A hit of a thread's own map. What it takes when nobody is told, what telling adds, and which part of that is done on timers. */
export const COUNTED = "hit of a thread's own map, told";
export const UNCOUNTED = "ns, not told";
export const ADDED = "ns added";
export const BETWEEN = "of it on timers";
