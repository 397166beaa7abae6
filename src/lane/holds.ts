/**
 * Slots held back. While an operation of a slot is on a detour (its slot moved, or the server asked to wait), later ones
 * of the same slot queue up behind it, so order per key survives. A hold ends when every operation sent to the old node
 * before the detour is settled (the fence) and its delay is over; then the operations leave in the order they were issued.
 */
import type { NodeLane } from "./node.js";
import { SETTLED } from "./op.js";
import type { Op } from "./op.js";

class Hold {
  /** Sent, refused and back: these were issued before everything in `queue`, in whatever turn their refusals come. */
  back: Op[] = [];
  /** Not sent yet. */
  queue: Op[] = [];
  until = 0;
  /** Waits for a node to serve the slot. */
  homeless = false;
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

  /** Whether `slot` is held. */
  has(slot: number): boolean {
    return this.#holds.has(slot);
  }

  /** Queues an operation that was not sent behind all that `slot` already holds, starting the hold if needed. */
  add(slot: number, op: Op): void {
    this.#of(slot).queue.push(op);
    this.size += 1;
  }

  /**
   * Takes back an operation that was sent, before all that was not sent yet; the hold lasts until everything `node` was
   * sent so far is settled.
   */
  addFenced(slot: number, op: Op, node: NodeLane | null): void {
    const { back, fences } = this.#of(slot);
    back.push(op);
    this.size += 1;
    if (node !== null && !fences.some((fence) => fence.node === node)) fences.push({ node, tail: node.ring.tail });
  }

  /**
   * As `addFenced`, and the hold lasts at least until `until`. Without a node (none serves the slot) the operation was not
   * sent, and `housed` ends the wait.
   */
  addDelayed(slot: number, op: Op, node: NodeLane | null, until: number): void {
    if (node === null) this.add(slot, op);
    else this.addFenced(slot, op, node);
    const hold = this.#of(slot);
    hold.homeless ||= node === null;
    hold.until = Math.max(hold.until, until);
  }

  /** Slots that waited for a node and have one now need not wait longer. */
  housed(nodeOf: (slot: number) => number): void {
    for (const [slot, hold] of this.#holds) if (hold.homeless && nodeOf(slot) >= 0) hold.until = 0;
  }

  /** Ends the holds that are over and returns their operations, in order per slot. */
  release(now: number): Op[] {
    const freed: Op[] = [];
    for (const [slot, hold] of this.#holds) {
      if (now < hold.until || !hold.fences.every(passed)) continue;
      this.#holds.delete(slot);
      this.bits[slot >> 5]! &= ~(1 << (slot & 31));
      this.size -= hold.back.length + hold.queue.length;
      for (const op of hold.back) if (op.state !== SETTLED) freed.push(op);
      for (const op of hold.queue) if (op.state !== SETTLED) freed.push(op);
    }
    return freed;
  }

  /** Calls `expired` for every held operation past its deadline and forgets the settled ones. */
  sweep(now: number, expired: (op: Op) => void): void {
    const live = (op: Op): boolean => {
      if (op.state !== SETTLED && now >= op.deadline) expired(op);
      return op.state !== SETTLED;
    };
    for (const hold of this.#holds.values()) {
      const before = hold.back.length + hold.queue.length;
      hold.back = hold.back.filter(live);
      hold.queue = hold.queue.filter(live);
      this.size -= before - hold.back.length - hold.queue.length;
    }
  }

  /** Removes everything and returns it. */
  clear(): Op[] {
    const all = [...this.#holds.values()].flatMap((hold) => hold.back.concat(hold.queue));
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
  return ((node.ring.head - tail) | 0) >= 0;
}
