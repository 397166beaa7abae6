/**
 * Operations sent over one connection and not answered, in order.
 *
 * ```text
 * … | answered | head → waiting for replies … | tail → free | …      power of two; positions are int32 and wrap
 * ```
 */
import type { Op } from "./op.js";

const FIRST_SIZE = 1024;

export class OpRing {
  /** Position of the next operation to be answered; positions are compared by their difference. */
  head = 0;
  /** Position of the next operation to be pushed. */
  tail = 0;
  #slots: (Op | undefined)[] = Array.from({ length: FIRST_SIZE });
  #mask = FIRST_SIZE - 1;

  get size(): number {
    return (this.tail - this.head) | 0;
  }

  push(op: Op): void {
    if (this.size > this.#mask) this.#grow();
    this.#slots[this.tail & this.#mask] = op;
    this.tail = (this.tail + 1) | 0;
  }

  /** The oldest operation, or undefined when there is none. */
  shift(): Op | undefined {
    if (this.head === this.tail) return undefined;
    const at = this.head & this.#mask;
    const op = this.#slots[at];
    this.#slots[at] = undefined;
    this.head = (this.head + 1) | 0;
    return op;
  }

  /** Calls `visit` for every operation, oldest first. */
  forEach(visit: (op: Op) => void): void {
    for (let at = this.head; at !== this.tail; at = (at + 1) | 0) visit(this.#slots[at & this.#mask]!);
  }

  /** Removes everything and returns it, oldest first. */
  clear(): Op[] {
    const all: Op[] = [];
    for (let op = this.shift(); op !== undefined; op = this.shift()) all.push(op);
    return all;
  }

  #grow(): void {
    const size = (this.#mask + 1) * 2;
    const grown: (Op | undefined)[] = Array.from({ length: size });
    for (let at = this.head; at !== this.tail; at = (at + 1) | 0) grown[at & (size - 1)] = this.#slots[at & this.#mask];
    this.#slots = grown;
    this.#mask = size - 1;
  }
}
