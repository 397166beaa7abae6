/** Faults of the spool: always typed, always with the place. */
import { KeylaneError } from "../errors.js";
import type { Outcome } from "../errors.js";

/** `outcome` tells what became of the entries concerned. */
export function spoolFault(where: string, what: string, cause?: unknown, outcome: Outcome = "not-sent"): KeylaneError {
  const why = cause instanceof Error ? `: ${cause.message}` : "";
  return new KeylaneError("KEYLANE_ERR_SPOOL", `the ledger's spool ${where}: ${what}${why}`, {
    cause,
    outcome,
    retryable: cause !== undefined,
  });
}
