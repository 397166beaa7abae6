/**
 * Which worker serves a slot. The invariant: a slot has the same worker for the life of a pool, so operations on one key pass
 * through one worker in the order they were issued. Ranges of slots, not every n-th one: a worker then talks to few nodes, and
 * its batches are long.
 */
const SLOTS = 16_384;

/** Slot → worker. */
export function balance(workers: number): Uint16Array {
  return Uint16Array.from({ length: SLOTS }, (_, slot) => Math.floor((slot * workers) / SLOTS));
}
