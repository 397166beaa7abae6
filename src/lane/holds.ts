/**
 * Slots held back. While an operation of a slot is on a detour (its slot moved, or the server asked to wait), later ones
 * of the same slot queue up behind it, so order per key survives. A hold ends when every operation sent to the old node
 * before the detour is settled (the fence) and its delay is over; then the queue leaves in order.
 */
import type { NodeLane } from "./node.js";
import { SETTLED } from "./op.js";
import type { Op } from "./op.js";

class Hold {
  queue: Op[] = [];
  until = 0;
  fences: { node: NodeLane; tail: number }[] = [];
}

export class Holds {
  /** Bit `slot & 31` of word `slot >> 5`; the encoder reads it. */
  readonly bits = new Int32Array(512);
  readonly #holds = new Map<number, Hold>();
  /** Operations queued in all holds. */
  size = 0;

  get active(): boolean {
    return this.#holds.size > 0;
  }

  /** Queues `op` behind what `slot` already holds, starting the hold if needed. */
  add(slot: number, op: Op): void {
    this.#of(slot).queue.push(op);
    this.size += 1;
  }

  /** As `add`, and the hold lasts until everything `node` was sent so far is settled. */
  addFenced(slot: number, op: Op, node: NodeLane): void {
    this.add(slot, op);
    const { fences } = this.#of(slot);
    if (!fences.some((fence) => fence.node === node)) fences.push({ node, tail: node.tail });
  }

  /** As `addFenced`, and the hold lasts at least until `until`. */
  addDelayed(slot: number, op: Op, node: NodeLane | null, until: number): void {
    if (node === null) this.add(slot, op);
    else this.addFenced(slot, op, node);
    const hold = this.#of(slot);
    hold.until = Math.max(hold.until, until);
  }

  /** Ends the holds that are over and returns their operations, in order per slot. */
  release(now: number): Op[] {
    const freed: Op[] = [];
    for (const [slot, hold] of this.#holds) {
      if (now < hold.until || !hold.fences.every(passed)) continue;
      this.#holds.delete(slot);
      this.bits[slot >> 5]! &= ~(1 << (slot & 31));
      this.size -= hold.queue.length;
      for (const op of hold.queue) if (op.state !== SETTLED) freed.push(op);
    }
    return freed;
  }

  /** Calls `expired` for every held operation past its deadline and forgets the settled ones. */
  sweep(now: number, expired: (op: Op) => void): void {
    for (const hold of this.#holds.values()) {
      for (const op of hold.queue) if (op.state !== SETTLED && now >= op.deadline) expired(op);
      const before = hold.queue.length;
      hold.queue = hold.queue.filter((op) => op.state !== SETTLED);
      this.size -= before - hold.queue.length;
    }
  }

  /** Removes everything and returns it. */
  clear(): Op[] {
    const all = [...this.#holds.values()].flatMap((hold) => hold.queue);
    this.#holds.clear();
    this.bits.fill(0);
    this.size = 0;
    return all;
  }

  #of(slot: number): Hold {
    let hold = this.#holds.get(slot);
    if (hold === undefined) {
      hold = new Hold();
      this.#holds.set(slot, hold);
      this.bits[slot >> 5]! |= 1 << (slot & 31);
    }
    return hold;
  }
}

function passed({ node, tail }: { node: NodeLane; tail: number }): boolean {
  return ((node.head - tail) | 0) >= 0;
}
