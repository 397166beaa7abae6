/**
 * How the processes of a fleet tell each other of hot keys. The invariant of every source: each process says what it found by
 * itself, hears what all others say, and a source that is down keeps nobody from acting.
 */
import type { HotLevel } from "../types.js";

/** A hot key as processes tell it each other. */
export interface SharedHotKey {
  /** Name of the domain. */
  readonly domain: string;
  readonly key: string;
  readonly level: HotLevel;
  /** Operations a second in the process that tells it. */
  readonly rate: number;
  /** Full names of the keys that hold copies, made by the process that tells it. */
  readonly replicas: readonly string[];
}

/** Where hot keys are told. */
export interface HotKeySource {
  /** Kind and place, without secrets. */
  readonly name: string;
  /**
   * Begins to listen; resolves after the first look, also when that failed. `changed` gets what all *other* processes say,
   * whenever it changes: each key once, the hottest first, at most 1,000. `trouble` gets each failure once, when it begins,
   * and null when nothing is wrong any more.
   */
  start(changed: (others: readonly SharedHotKey[]) => void, trouble: (error: Error | null) => void): Promise<void>;
  /** What this process says from now on; coalesced, retried until it is told. Never throws, never waits long. */
  publish(entries: readonly SharedHotKey[]): void;
  /** Withdraws what this process said, best effort within the time. */
  stop(withinMs: number): Promise<void>;
}
