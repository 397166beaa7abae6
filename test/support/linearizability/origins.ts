/**
 * Where the value that an operation saw can have come from: the last SET before it, or the value at first. Amounts are not
 * negative: what was stored is at most what was seen, and the difference at most the sum of all increments.
 */
import type { Operation, State } from "./operation.js";

/** More than one SET, or none, can have led there. */
export const UNSURE = -1;

export interface Origins {
  /** By operation: the only SET that can have led to what it saw, the number of operations for the value at first, `UNSURE`. */
  readonly only: Int32Array;
  /** By operation: 1 for a SET that may have led to what some operation saw. */
  readonly seen: Uint8Array;
}

/** O(n log n), and more where many SETs store about the same. */
export function originsOf(operations: readonly Operation[], initial: State): Origins {
  const first = operations.length;
  const only = new Int32Array(first).fill(UNSURE);
  const seen = new Uint8Array(first + 1);
  let most = 0;
  const origins = [{ value: initial ?? 0, from: first }];
  for (const [from, { kind, input }] of operations.entries()) {
    if (kind === "set") origins.push({ value: input, from });
    else if (kind === "incr") most += input;
  }
  origins.sort((a, b) => a.value - b.value);
  for (const [index, { kind, input, output, outcome }] of operations.entries()) {
    if (kind === "set" || outcome !== "ok") continue;
    if (output === null) {
      if (initial === null) only[index] = first;
      continue;
    }
    // The input of a GET is 0.
    const saw = output - input;
    let at = firstAtLeast(origins, saw - most);
    let found = 0;
    for (; at < origins.length && origins[at]!.value <= saw; at += 1) {
      found += 1;
      only[index] = origins[at]!.from;
      seen[origins[at]!.from] = 1;
    }
    if (found !== 1) only[index] = UNSURE;
  }
  return { only, seen };
}

function firstAtLeast(origins: readonly { readonly value: number }[], value: number): number {
  let from = 0;
  let to = origins.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (origins[middle]!.value < value) from = middle + 1;
    else to = middle;
  }
  return from;
}
