/**
 * What the main thread and a worker of the cache suite share.
 *
 * ```text
 * control of a reader      [ ready | go ]                 both begin a round at `go`
 * control of a watcher     [ asked | armed | seen ]       numbers of writes: wanted, awaited, noticed; asked < 0 ends it
 * ```
 */
import type { KeylaneHandle } from "keylane";
import type { Sample } from "../report/types.js";

/** What the main thread gives a worker. */
export interface WorkerTask {
  readonly handle: KeylaneHandle;
  readonly control: Int32Array;
  /** Profiles to read; 0: watch `key`, and note in `seenAt` when each write was seen. */
  readonly count: number;
  readonly key: `up:${string}`;
  readonly seenAt: BigInt64Array;
}

/** Words of a reader's control. */
export const READY = 0;
export const GO = 1;
/** Words of a watcher's control. */
export const ASKED = 0;
export const ARMED = 1;
export const SEEN = 2;

/** Longest between two looks at a word that is waited for, in milliseconds. */
export const LOOK_MS = 10;
/** What takes longer is lost, in milliseconds. */
export const LOST_MS = 5000;

/** What a worker posts: that it is open, then a sample a round. */
export type WorkerMessage = "open" | Sample;
