/**
 * Operations of keylane's own that go the way of callers'. The invariant: `stats` tell what callers have asked for. A lane counts
 * these like any others while they are under way, and takes them out again as they settle.
 */
import type { Settle } from "./op.js";

/** The counts of calls, as a lane keeps them. */
export interface CallCounts {
  commands: number;
  succeeded: number;
  failed: number;
}

/**
 * What settles such an operation: out of the counts, then `settle`. With `stands` it is made in place of a caller's call, and
 * stays counted when it gives a value other than null. `ended` is called before.
 */
export function uncounting(counts: CallCounts, stands: boolean, settle: Settle, ended: () => void): Settle {
  counts.commands -= 1;
  return (value) => {
    ended();
    if (value instanceof Promise) counts.failed -= 1;
    else if (stands && value !== null) counts.commands += 1;
    else counts.succeeded -= 1;
    settle(value);
  };
}
