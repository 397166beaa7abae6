/** What users see of hot keys: options, events, lists. Rates are operations a second on one key, of the last second. */
import type { HotKeySourceOptions } from "../options/hot-key-source.js";

/** A threshold: operations a second, or a share of what a node is good for (0 to 1). */
export type HotThreshold = number | { readonly share?: number };

/** When a key of a domain is hot, and what is done then. */
export interface HotKeyRules {
  /** From this rate on a key is reported and cached. Default 5,000; as a share without a number 0.1 of `nodeLimit`. */
  readonly warn?: HotThreshold;
  /** From this rate on it is also copied where it cannot be cached. Default 20,000; as a share without a number 0.4. */
  readonly critical?: HotThreshold;
  /** Operations a second that one node is good for. Default 50,000. */
  readonly nodeLimit?: number;
  /** Copy keys at `critical` to other nodes. Default true. */
  readonly replicas?: boolean;
}

/** Options of hot keys. Prefixes are compared with the whole key. */
export interface HotKeysOptions extends HotKeyRules {
  /** Life in the cache of a key that is there because it is hot, in milliseconds, 1,000 to 5,000. Default 2,000. */
  readonly ttlMs?: number;
  /** Only keys with one of these prefixes are acted on; others are just reported. Default: all. At most 1,000. */
  readonly allow?: readonly string[];
  /** Keys with one of these prefixes are never acted on, just reported. Wins over `allow`. At most 1,000. */
  readonly deny?: readonly string[];
  /** Keys that `hotKeys.top()` gives at most, 1 to 1,000. Default 100. */
  readonly topK?: number;
  /** Where the processes of a fleet tell each other their hot keys, so that all act on them. Default: nowhere. */
  readonly source?: HotKeySourceOptions;
}

/** `warn`: hot enough to be cached; `critical`: hot enough to be copied to other nodes. */
export type HotLevel = "warn" | "critical";

/**
 * Where a key stands: `warm` from `warn` on, `hot` from `critical` on, `cooling` below 70 % of `warn` until it has stayed there
 * for 3 windows and 5 s. Afterwards it is cold, and in no list.
 */
export type HotState = "warm" | "hot" | "cooling";

/**
 * What is done about a key: `l1` — all threads answer it from the shared cache; `replicas` — reads are spread over copies on
 * other nodes; `none` — it is only reported.
 */
export type HotAction = "none" | "l1" | "replicas";

/** A key is hot. Told when it reaches a level, and once a minute for as long as it stays there. */
export interface HotKeyEvent {
  /** The key; of one longer than 256 bytes its first 256. */
  readonly key: string;
  readonly domain: string;
  /** Operations a second that it had for certain. */
  readonly rate: number;
  readonly level: HotLevel;
  /** `host:port` of the node that serves its slot; null when none is known. */
  readonly node: string | null;
  readonly action: HotAction;
}

/** A key that was reported is cold again; nothing is done about it any more. */
export interface HotKeyRecoveredEvent {
  readonly key: string;
  readonly domain: string;
  /** Operations a second now. */
  readonly rate: number;
  /** The highest level it had reached. */
  readonly level: HotLevel;
  readonly node: string | null;
  /** What was done about it until now. */
  readonly action: HotAction;
  /** How long it was hot, in milliseconds, cooling included. */
  readonly hotMs: number;
}

/** A hot key, as `hotKeys.list()` gives it. */
export interface HotKeyInfo {
  readonly key: string;
  readonly domain: string;
  readonly node: string | null;
  readonly state: HotState;
  /** The highest level reached. */
  readonly level: HotLevel;
  /** Operations a second of this process: for certain, at most, and the highest so far. */
  readonly rate: number;
  readonly upper: number;
  readonly peak: number;
  readonly action: HotAction;
  /** Names of the keys that hold copies. */
  readonly replicas: readonly string[];
  /** Bytes of its value when it became hot; null when that is not known, or it is no string. */
  readonly valueBytes: number | null;
  /** The value is over 64 KiB: each read of it is costly. */
  readonly big: boolean;
  readonly pinned: boolean;
  /** Another process found it hot; nothing but that makes it hot here. */
  readonly remote: boolean;
  /** Milliseconds since it became hot, and since it is in this state. */
  readonly hotMs: number;
  readonly stateMs: number;
}

/** A key that is used much, hot or not, as `hotKeys.top()` gives it. */
export interface TopKey {
  /** The key; of one longer than 256 bytes its first 256. */
  readonly key: string;
  /** Null when the key goes to no domain. */
  readonly domain: string | null;
  /** Operations a second: for certain, and at most. */
  readonly rate: number;
  readonly upper: number;
}

/** What `hotKeys.pin` makes of a key. */
export interface PinOptions {
  /** Copies on other nodes, at most the number of primaries; 0 for none. Default 0. */
  readonly replicas?: number;
}

/** Counters of hot keys. */
export interface HotKeysStats {
  /** Whether operations are counted; when not, `reason` says why. */
  readonly counting: boolean;
  readonly reason: string | null;
  /** Operations counted in all threads. */
  readonly hits: number;
  /** Keys in `list()`, and of these at `critical`. */
  readonly keys: number;
  readonly critical: number;
  /** `hotkey` events, and `hotkey:recovered` events. */
  readonly reported: number;
  readonly recovered: number;
  /** Times that a hot key found no place in the list of 1,000. */
  readonly refused: number;
  /** Where processes tell each other, and what is wrong with it now, null when nothing is; null without a source. */
  readonly source: { readonly name: string; readonly trouble: string | null } | null;
}
