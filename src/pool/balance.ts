/**
 * Which worker serves a slot. The invariant: a slot has the same worker for the life of a pool, so operations on one key pass
 * through one worker in the order they were issued. Ranges of slots, not every n-th one: a worker then talks to few nodes, and
 * its batches are long.
 */

/** There are 2^14 slots. */
const SLOT_BITS = 14;

/** The worker, of so many, that serves a slot. */
export function workerOf(slot: number, workers: number): number {
  return (slot * workers) >> SLOT_BITS;
}
