/** One thread's part in hot keys: where it counts, and what it knows to be hot. */
import { KeylaneError } from "../errors.js";
import { HitCounts } from "./hit-counts.js";
import { HotSet, SET_BYTES } from "./hot-set.js";

/** What another thread needs to take part; shared memories only. */
export interface HotHandle {
  /** Null when nothing is counted. */
  readonly hits: SharedArrayBuffer | null;
  readonly set: SharedArrayBuffer;
}

export class HotShare {
  /** Null where nothing is counted: without the addon. */
  readonly counts: HitCounts | null;
  readonly set: HotSet;

  private constructor(counts: HitCounts | null, set: HotSet) {
    this.counts = counts;
    this.set = set;
  }

  /** Shares of its own. */
  static create(): HotShare {
    return new HotShare(HitCounts.open(), new HotSet());
  }

  /** A share in what another thread made. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` when it is something else */
  static join({ hits, set }: HotHandle): HotShare {
    if (!isShared(set) || set.byteLength !== SET_BYTES || (hits !== null && !isShared(hits))) {
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "the handle's hot keys: these are not their memories");
    }
    return new HotShare(hits === null ? null : HitCounts.open(hits), new HotSet(set));
  }

  get handle(): HotHandle {
    return { hits: this.counts?.buffer ?? null, set: this.set.buffer };
  }

  /** Idempotent. */
  end(): void {
    this.counts?.end();
  }
}

function isShared(memory: unknown): boolean {
  return memory instanceof SharedArrayBuffer;
}
