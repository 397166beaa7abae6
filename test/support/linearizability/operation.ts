/**
 * What a history of calls consists of, and what a key is taken to be: one number that is stored, read and added to, absent at
 * first. The invariant: moments of all operations are of one clock, whichever thread took them.
 */

/** How a call ended. `failed`: it certainly had no effect; `unknown`: it may have one at any later time, or never. */
export type Outcome = "ok" | "failed" | "unknown";

/** One call on a key. Numbers are safe integers. */
export interface Operation {
  readonly key: string;
  readonly kind: "set" | "get" | "incr";
  /** Of SET the value stored, of INCR the amount, not negative, of GET 0. */
  readonly input: number;
  /** Of GET the value read, null for none; of INCR the sum; else null. Means nothing unless the outcome is `ok`. */
  readonly output: number | null;
  readonly outcome: Outcome;
  /** When it was called, and when the caller had its answer. */
  readonly began: number;
  readonly ended: number;
}

/** Value of a key; null when it does not exist. */
export type State = number | null;

/** The state after an operation; undefined when the operation could not have had its output in `state`. */
export function step({ kind, input, output, outcome }: Operation, state: State): State | undefined {
  if (kind === "get") return output === state ? state : undefined;
  if (kind === "set") return input;
  const sum = (state ?? 0) + input;
  return outcome === "unknown" || output === sum ? sum : undefined;
}

/** An operation as one reads it. */
export function describe({ kind, input, output, outcome, began, ended }: Operation): string {
  const call = kind === "get" ? "GET" : kind === "set" ? `SET ${input}` : `INCR ${input}`;
  const answer = outcome !== "ok" ? outcome : kind === "set" ? "OK" : String(output);
  return `${call} → ${answer} [${began.toFixed(3)}, ${outcome === "unknown" ? "…" : ended.toFixed(3)}]`;
}
