/** The vocabulary of impressions: what is asked, and what is answered. */
import type { Cap, CapsResult } from "../caps/types.js";
import type { AddOptions, Budget } from "../ledger/policy.js";
import type { CallOptions } from "../types.js";

/** An impression: counted for the caps of a user and booked on an account, or neither. */
export interface Impression extends AddOptions, CallOptions {
  /** Whose caps: 1–512 UTF-16 units. */
  readonly user: string;
  /** As for `caps.take`. */
  readonly caps: readonly Cap[];
  /** As for `ledger.add`. */
  readonly account: string;
  /** Minor units. */
  readonly amount: bigint;
  /** As for `ledger.charge`: what the amount is taken out of first. Default: none. */
  readonly budget?: Budget | bigint | undefined;
}

/** What `impression` gives. */
export interface ImpressionResult extends Omit<CapsResult, "source"> {
  /** The amount is booked, or will be whatever dies; the caps are counted, or will be. */
  readonly booked: boolean;
  /** What did not allow it; null when it is allowed. */
  readonly deniedBy: "caps" | "budget" | null;
  /**
   * Who decided: as for caps, or the spool, which has the answer that was given to the id before. `degraded`: nobody; `allowed`
   * is what `caps.onError` says, nothing is counted or booked, and the id may be asked again.
   */
  readonly source: CapsResult["source"] | "spool";
}
