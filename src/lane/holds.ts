/**
 * Slots held back. While an operation of a slot is on a detour (its slot moved, or the server asked to wait), later ones of
 * the same slot queue up behind it, so order per key survives.
 *
 * ```text
 * refused: moved ──→ back ─┬─ all sent before is settled ──────────→ leave together
 *          wait  ──→ back ─┼─ … and the delay is over → the first of them goes alone (the probe) ─ settled → the others
 * not sent       ──→ queue ┘
 * ```
 *
 * The invariant: operations of a slot leave in the order of issue, and none is under way while an earlier one that was
 * refused may be refused again.
 */
import type { KeylaneError } from "../errors.js";
import type { NodeLane } from "./node.js";
import { OP_PROBE, SETTLED } from "./op.js";
import type { Op } from "./op.js";

class Hold {
  /** Sent, refused and back: these were issued before everything in `queue`, in whatever turn their refusals come. */
  back: Op[] = [];
  /** Not sent yet. */
  queue: Op[] = [];
  until = 0;
  /** Waits for a node to serve the slot. */
  homeless = false;
  /** A server asked to wait: whether the wait is over, the first operation finds out. */
  refused = false;
  /** In these words. */
  refusal: KeylaneError | null = null;
  /** That operation, under way. */
  probe: Op | null = null;
  fences: { node: NodeLane; tail: number }[] = [];

  get size(): number {
    return this.back.length + this.queue.length;
  }
}

/** What `release` lets go. */
export interface Released {
  /** To be placed anew, in order per slot. */
  readonly free: Op[];
  /** To be sent though their slots stay held. */
  readonly probes: { readonly slot: number; readonly op: Op }[];
}

const NOTHING: Released = { free: [], probes: [] };

export class Holds {
  /** Bit `slot & 31` of word `slot >> 5`; the encoder reads it. */
  readonly bits = new Int32Array(512);
  readonly #holds = new Map<number, Hold>();
  /** Operations queued in all holds. */
  size = 0;

  get active(): boolean {
    return this.#holds.size > 0;
  }

  /** Whether `op` must not be sent now because its slot is held for another. */
  blocks(slot: number, op: Op): boolean {
    const hold = this.#holds.get(slot);
    return hold !== undefined && hold.probe !== op;
  }

  /** Queues an operation that was not sent behind all that `slot` already holds, starting the hold if needed. */
  add(slot: number, op: Op): void {
    const hold = this.#of(slot);
    if (!unprobe(hold, op)) hold.queue.push(op);
    this.size += 1;
  }

  /**
   * Takes back an operation that was sent, before all that was not sent yet; the hold lasts until everything `node` was
   * sent so far is settled.
   */
  addFenced(slot: number, op: Op, node: NodeLane | null): void {
    const hold = this.#of(slot);
    if (!unprobe(hold, op)) hold.back.push(op);
    this.size += 1;
    if (node !== null) this.fence(slot, node);
  }

  /** Holds `slot` until everything `node` was sent so far is settled. */
  fence(slot: number, node: NodeLane): void {
    const { fences } = this.#of(slot);
    if (!fences.some((fence) => fence.node === node)) fences.push({ node, tail: node.ring.tail });
  }

  /**
   * As `addFenced`, for an operation that was asked to wait: the hold lasts at least until `until`. Without a node (none
   * serves the slot) the operation was not sent, and `housed` ends the wait.
   */
  addDelayed(slot: number, op: Op, node: NodeLane | null, until: number): void {
    if (node === null) this.add(slot, op);
    else this.addFenced(slot, op, node);
    const hold = this.#of(slot);
    if (node === null) hold.homeless = true;
    else {
      hold.refused = true;
      hold.refusal = op.refusal;
    }
    hold.until = Math.max(hold.until, until);
  }

  /** An operation that was asked to wait does not: if it was the probe, another will be, not before `until`. */
  giveUp(slot: number, op: Op, until: number): void {
    const hold = this.#holds.get(slot);
    if (hold?.probe !== op) return;
    hold.probe = null;
    hold.until = until;
  }

  /** Slots that waited for a node and have one now need not wait longer. */
  housed(nodeOf: (slot: number) => number): void {
    for (const [slot, hold] of this.#holds) if (hold.homeless && nodeOf(slot) >= 0) hold.until = 0;
  }

  /** Ends the holds that are over, and begins to try those whose wait is. O(holds + operations let go). */
  release(now: number): Released {
    if (this.#holds.size === 0) return NOTHING;
    const released: Released = { free: [], probes: [] };
    for (const [slot, hold] of this.#holds) {
      if (hold.probe === null ? now < hold.until || !hold.fences.every(passed) : hold.probe.state !== SETTLED) continue;
      const first = hold.refused && hold.probe === null ? this.#first(hold) : null;
      if (first === null) this.#end(slot, hold, released.free);
      else {
        hold.probe = first;
        first.flags |= OP_PROBE;
        hold.fences = [];
        released.probes.push({ slot, op: first });
      }
    }
    return released;
  }

  /**
   * Calls `expired` for every held operation past its deadline, with the refusal that held it back if there was one, and
   * forgets the settled ones.
   */
  sweep(now: number, expired: (op: Op, refusal: KeylaneError | null) => void): void {
    for (const hold of this.#holds.values()) {
      const live = (op: Op): boolean => {
        if (op.state !== SETTLED && now >= op.deadline) expired(op, hold.refusal);
        return op.state !== SETTLED;
      };
      const before = hold.size;
      hold.back = hold.back.filter(live);
      hold.queue = hold.queue.filter(live);
      this.size -= before - hold.size;
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

  #end(slot: number, hold: Hold, free: Op[]): void {
    this.#holds.delete(slot);
    this.bits[slot >> 5]! &= ~(1 << (slot & 31));
    this.size -= hold.size;
    for (const op of hold.back) if (op.state !== SETTLED) free.push(op);
    for (const op of hold.queue) if (op.state !== SETTLED) free.push(op);
  }

  /** Takes the earliest operation that somebody still waits for. */
  #first(hold: Hold): Op | null {
    for (const list of [hold.back, hold.queue]) {
      for (let op = list.shift(); op !== undefined; op = list.shift()) {
        this.size -= 1;
        if (op.state !== SETTLED) return op;
      }
    }
    return null;
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

/** When `op` is the probe of a hold, takes it back to the head of all that is held. */
function unprobe(hold: Hold, op: Op): boolean {
  if (hold.probe !== op) return false;
  hold.probe = null;
  hold.back.unshift(op);
  return true;
}

function passed({ node, tail }: { node: NodeLane; tail: number }): boolean {
  return ((node.ring.head - tail) | 0) >= 0;
}
