/** What the finders at the servers are asked, and what they found. */
import type { KeylaneError } from "../../errors.js";

/**
 * How a server told its hot keys: `frequency`, by `OBJECT FREQ` of every key; `hotkeys-redis` and `hotkeys-valkey`, by what
 * `HOTKEYS` of Redis 8.6 and of Valkey 9.2 had counted.
 */
export type Finder = "frequency" | "hotkeys-redis" | "hotkeys-valkey";

/** A hot key as one server sees it. Which measures it has depends on the finder. */
export interface FoundKey {
  readonly key: Buffer;
  /** `host:port` of the primary that told it. */
  readonly node: string;
  /** Its hash slot; null outside of a cluster. */
  readonly slot: number | null;
  readonly finder: Finder;
  /** `frequency`: the server's logarithmic counter, 0–255. */
  readonly frequency?: number;
  /** `hotkeys-redis`: microseconds of CPU time spent on the key while it was watched. */
  readonly cpuMicros?: number;
  /** `hotkeys-redis`: bytes received and sent for the key while it was watched. */
  readonly bytes?: number;
  /** `hotkeys-valkey`: estimated accesses a second over the server's last window. */
  readonly perSecond?: number;
}

/** A key and what its finder measured. */
export type Measured = Pick<FoundKey, "key" | "frequency" | "cpuMicros" | "bytes" | "perSecond">;

/** What a slot cost its server over a time. */
export interface SlotLoad {
  readonly slot: number;
  readonly node: string;
  readonly keys: number;
  /** Share of one CPU, 0–1. */
  readonly cpuShare: number;
  /** Bytes a second. */
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/** What became of one primary. */
export interface NodeFindings {
  readonly node: string;
  /** Kind and version, as `redis 7.0.15`; empty when it could not be asked. */
  readonly server: string;
  /** Null when it told nothing. */
  readonly finder: Finder | null;
  /** Why it told nothing. */
  readonly refused: KeylaneError | null;
  /** What a reader should know, such as a better finder that is off. */
  readonly notes: readonly string[];
  /** Keys looked at (`frequency`), those that the server told twice counted twice. */
  readonly looked: number;
  /** Of these, keys that were gone or that another node owns. */
  readonly skipped: number;
  /** False when the time ended before all keys were looked at. */
  readonly complete: boolean;
  /** How long its keys were watched, in milliseconds. */
  readonly watchedMs: number;
  /** The hottest slots, hottest first; null where the server does not tell. */
  readonly slots: readonly SlotLoad[] | null;
}

/** What all primaries told. */
export interface Findings {
  /** Finder by finder, hottest first, each key once, at most `top` of each finder. */
  readonly keys: readonly FoundKey[];
  /** Hottest first, at most `top`. */
  readonly slots: readonly SlotLoad[];
  readonly nodes: readonly NodeFindings[];
}

/** How far one primary is. */
export interface Progress {
  readonly node: string;
  /** Keys of a scan, or milliseconds of a watch. */
  readonly unit: "keys" | "ms";
  readonly done: number;
  readonly total: number;
}

/** Options of the finders. */
export interface FindOptions {
  /** Keys and slots to report, 1–10,000. Default 20. */
  readonly top?: number;
  /** Only keys that begin so. Default: all. */
  readonly prefix?: string;
  /** Keys a second that a scan looks at, per primary, 1–1,000,000. Default 10,000. */
  readonly rate?: number;
  /** How long servers that count are watched, 1–3,600. Default 5. */
  readonly seconds?: number;
  /** A scan that takes longer ends, and says so. Milliseconds. Default: never. */
  readonly scanLimitMs?: number;
  /** Turn Valkey's tracking on where it is off, and off again afterwards. Default false. */
  readonly enable?: boolean;
  /** Time for each question and for the connection, in milliseconds. Default 5,000. */
  readonly timeoutMs?: number;
  /** Ends everything with `KEYLANE_ERR_ABORTED`; what was turned on is turned off first. */
  readonly signal?: AbortSignal;
  /** Told as a primary advances. */
  readonly progress?: (progress: Progress) => void;
}

/** The options with their defaults. */
export type Plan = Required<Omit<FindOptions, "signal" | "progress">> & Pick<FindOptions, "signal" | "progress">;
