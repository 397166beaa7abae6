/**
 * What leaves a lane: this turn's operations, placed on the nodes that own their slots and written with one call per node.
 *
 * ```text
 * add → pending ─ flush, once a turn ─→ encode ─┬→ ring of node n → socket
 *          ↑                                    ├→ waiting list of a node not connected
 *          └────── holds ← MOVED, TRYAGAIN, … ──┴→ hold of a slot held back
 * ```
 *
 * The invariant: operations of one slot leave in the order they were added, and an operation that cannot leave now is in
 * exactly one queue, each with a bound.
 */
import { native } from "../native/index.js";
import { PLACE_HELD, PLACE_KEYLESS, PLACE_UNASSIGNED, SECTION_WORDS } from "../native/types.js";
import type { EncodeTables } from "../native/types.js";
import type { Topology } from "../routing/topology.js";
import type { HitCounts } from "../shared/hit-counts.js";
import type { LaneConfig } from "./config.js";
import type { Fleet } from "./fleet.js";
import { encoder } from "./frame.js";
import type { Holds } from "./holds.js";
import type { NodeLane } from "./node.js";
import { HEAD_UNCOUNTED, QUEUED, SETTLED } from "./op.js";
import type { Op, Stamper } from "./op.js";
import { joinTicks, joinTurn } from "./turn.js";
import type { TurnMember } from "./turn.js";

/** A turn's batch is sent early when it reaches this many operations or bytes. */
const FLUSH_OPS = 4096;
const FLUSH_BYTES = 1 << 20;
/** Pending longer than this (a blocked event loop): deadlines are looked at before sending. */
const STALE_MS = 50;

/** What the outbox needs of its lane. */
export interface OutboxOwner extends TurnMember {
  readonly config: LaneConfig;
  readonly topology: Topology;
  readonly fleet: Fleet;
  readonly holds: Holds;
  /** Where the keys of what is sent are counted; null when they are not. */
  readonly hits: HitCounts | null;
  readonly stamper: Stamper | null;
  /** The topology changed: connections follow. */
  follow(): void;
  expired(op: Op): void;
  overloaded(op: Op, node: NodeLane | null): void;
  /** No node is known for the operation (`slot` null: it has no key). */
  homeless(op: Op, slot: number | null): void;
  /** Some operations may not go where their slot goes: `screen` settles and removes those. */
  readonly restricted: boolean;
  screen(ops: Op[]): void;
}

export class Outbox {
  readonly #owner: OutboxOwner;
  readonly #tables: EncodeTables;
  /** The first `#count` are pending; made as long as the turn before suggests, since an array that grows is copied each time. */
  #pending: Op[] = [];
  #count = 0;
  #bytes = 0;
  #since = 0;
  #joined = false;
  #sending = false;
  /** Operations were settled before they were sent (aborted, say), perhaps some that are pending. */
  dropped = false;

  constructor(owner: OutboxOwner) {
    const { topology, holds, fleet } = owner;
    this.#owner = owner;
    this.#tables = { slots: topology.slots, held: holds.bits, alias: fleet.alias };
  }

  /** Queues an operation for this turn's flush. */
  add(op: Op): void {
    this.#pending[this.#count] = op;
    this.#count += 1;
    if (op.rest !== null || op.template !== null) this.#bytes += op.weight;
    if (!this.#joined) this.#join();
    else if (this.#count >= FLUSH_OPS || this.#bytes >= FLUSH_BYTES) this.#flushEarly();
  }

  /** Puts operations that waited before those of this turn. False when none of them needs sending any more. */
  prepend(ops: readonly Op[]): boolean {
    const live = ops.filter((op) => op.state !== SETTLED);
    if (live.length === 0) return false;
    for (const op of live) op.state = QUEUED;
    this.#pending = live.concat(this.clear());
    this.#count = this.#pending.length;
    if (!this.#joined) this.#join();
    // They waited: the deadlines are looked at before sending.
    this.#since = 0;
    return true;
  }

  /** As `prepend`, and sends. */
  resend(ops: readonly Op[]): void {
    if (this.prepend(ops)) this.#flushEarly();
  }

  /** Sends what is pending. */
  flush(): void {
    this.#joined = false;
    if (this.#sending) {
      this.#join();
      return;
    }
    const { fleet, config } = this.#owner;
    if (fleet.behind) this.#owner.follow();
    const count = this.#count;
    if (count === 0) return;
    const ops = this.#taken(count + (count >> 2));
    this.#bytes = 0;
    const now = performance.now();
    if (this.dropped || now - this.#since > STALE_MS) this.#expire(ops, now);
    if (this.#owner.restricted) this.#owner.screen(ops);
    if (config.scaleReads !== "master") fleet.rotate(now);
    this.#sending = true;
    try {
      if (ops.length > 0) this.#send(ops);
    } finally {
      this.#sending = false;
    }
  }

  /** Sends operations to one node now, or has them wait for it. */
  offer(index: number, ops: readonly Op[]): void {
    const { fleet, config } = this.#owner;
    const node = fleet.at(index);
    const send: Op[] = [];
    for (const op of ops) {
      if (node === null) this.#unplaced(op, PLACE_UNASSIGNED);
      else if (node.accepts(send.length + 1)) send.push(op);
      else if (node.awaited && node.waiting.length < config.maxQueue) node.waiting.push(op);
      else this.#owner.overloaded(op, node);
    }
    node?.send(send, false);
  }

  /** Removes everything pending. */
  clear(): Op[] {
    return this.#taken(0);
  }

  /** Everything pending, which is then nothing; room for so many is made. */
  #taken(room: number): Op[] {
    const ops = this.#pending;
    ops.length = this.#count;
    this.#pending = [];
    this.#pending.length = Math.min(room, FLUSH_OPS);
    this.#count = 0;
    return ops;
  }

  #join(): void {
    this.#joined = true;
    joinTurn(this.#owner);
    joinTicks(this.#owner);
    this.#since = performance.now();
  }

  /** Sends before the turn ends; a flush already announced finds what comes after. */
  #flushEarly(): void {
    if (this.#sending) return;
    this.flush();
    this.#joined = true;
  }

  #send(ops: Op[]): void {
    const { hits, stamper } = this.#owner;
    const target = encoder.encode(ops, this.#tables, hits, stamper);
    const counted = hits === null ? 0 : HEAD_UNCOUNTED;
    const { place, sections } = encoder;
    const { nodes } = this.#owner.fleet;
    /** By node index: what cannot be written with the batch. */
    const aside: Op[][] = [];
    /** Written by themselves, so only after the batch: a ring holds its operations in the order of their bytes. */
    const keyless: Op[] = [];
    const runs = this.#openRuns(ops.length, place, sections, aside);
    for (let i = 0; i < ops.length; i += 1) {
      const op = ops[i]!;
      const index = place[i]!;
      op.head |= counted;
      if (index === PLACE_KEYLESS) keyless.push(op);
      else if (index < 0) this.#unplaced(op, index);
      else if (aside.length > 0 && aside[index] !== undefined) aside[index].push(op);
      else nodes[index]!.push(op);
    }
    if (target !== null) {
      for (let at = 0; at < runs * SECTION_WORDS; at += SECTION_WORDS) {
        const index = sections[at]!;
        if (aside[index] === undefined) nodes[index]!.write(target, sections[at + 1]!, sections[at + 2]!);
      }
      target.release();
    }
    for (const [index, queue] of aside.entries()) if (queue !== undefined) this.offer(index, queue);
    for (const op of keyless) this.#sendAnywhere(op);
  }

  #sendAnywhere(op: Op): void {
    const node = this.#owner.fleet.ready().find((candidate) => !candidate.replica && candidate.accepts(1));
    if (node === undefined) this.#owner.homeless(op, null);
    else node.send([op], false);
  }

  /** Counts the runs of a batch and opens a queue in `aside` for each node that cannot take its run now. */
  #openRuns(count: number, place: Int32Array, sections: Int32Array, aside: Op[][]): number {
    let placed = 0;
    for (let i = 0; i < count; i += 1) if (place[i]! >= 0) placed += 1;
    let runs = 0;
    for (let seen = 0; seen < placed; runs += 1) {
      const at = runs * SECTION_WORDS;
      const index = sections[at]!;
      const ops = sections[at + 3]!;
      seen += ops;
      if (this.#owner.fleet.at(index)?.accepts(ops) !== true) aside[index] = [];
    }
    return runs;
  }

  #unplaced(op: Op, place: number): void {
    const { holds, config } = this.#owner;
    const slot = native.slot(op.key!);
    if (holds.size >= config.maxQueue) this.#owner.overloaded(op, null);
    else if (place === PLACE_HELD) holds.add(slot, op);
    else this.#owner.homeless(op, slot);
  }

  #expire(ops: Op[], now: number): void {
    let kept = 0;
    for (const op of ops) {
      if (op.state === SETTLED) continue;
      if (now >= op.deadline) this.#owner.expired(op);
      else ops[kept++] = op;
    }
    ops.length = kept;
    this.dropped = false;
  }
}
