/**
 * A thread's use of the pool: collects the operations of one event-loop turn from all its domains, chooses the worker of each by
 * its slot, and sends every worker one message. The invariant: operations of one slot go through one worker in the order they
 * were issued.
 */
import type { LaneConfig } from "../lane/config.js";
import { SETTLED } from "../lane/op.js";
import { joinTicks, joinTurn } from "../lane/turn.js";
import type { TurnMember } from "../lane/turn.js";
import { native } from "../native/index.js";
import type { Topology } from "../routing/topology.js";
import { workerOf } from "./balance.js";
import type { Board } from "./board.js";
import { Crates } from "./crates.js";
import { Link } from "./link.js";
import type { LinkBounds } from "./link.js";
import { PooledLane } from "./pooled-lane.js";
import type { OpTaker, PooledOp } from "./pooled-lane.js";
import { processMs } from "./protocol.js";

/** A turn's operations are sent early when there are so many, or so many bytes of arguments. */
const FLUSH_OPS = 4096;
const FLUSH_BYTES = 1 << 20;
/** Pending longer than this (a blocked event loop): deadlines are looked at before sending. */
const STALE_MS = 50;
/** What waits for a worker may leave in one message, and its offsets are words of 32 bits. */
const MOST_BYTES = 1 << 29;

export class PoolClient implements OpTaker, TurnMember {
  readonly board: Board;
  readonly lanes: readonly PooledLane[];
  readonly links: readonly Link[];
  readonly #bounds: LinkBounds;
  readonly #maxQueue: number;
  /** Sum of the topologies' versions when the bounds were computed. */
  #versions = -1;
  #pending: PooledOp[] = [];
  #spare: PooledOp[] = [];
  #bytes = 0;
  #joined = false;
  /** When the turn began: in milliseconds of this thread, and as a stamp. */
  #since = 0;
  #stamp = 0;
  #dropped = false;
  #lengths = new Int32Array(4096);
  #slots = new Int32Array(4096);
  #keys: string[] = [];

  constructor(configs: readonly LaneConfig[], topologies: readonly Topology[], workers: number, board: Board) {
    this.board = board;
    this.lanes = configs.map((config, index) => new PooledLane(config, topologies[index]!, this));
    const [{ maxQueue, maxQueueBytes }] = configs as [LaneConfig];
    this.#maxQueue = maxQueue;
    this.#bounds = { operations: maxQueue, bytes: Math.min(maxQueueBytes, MOST_BYTES) };
    const crates = new Crates();
    this.links = Array.from({ length: workers }, () => new Link(crates, this.#bounds));
  }

  add(op: PooledOp): void {
    this.#pending.push(op);
    if (op.rest !== null) this.#bytes += op.weight;
    if (!this.#joined) this.#join();
    else if (this.#pending.length >= FLUSH_OPS || this.#bytes >= FLUSH_BYTES) this.#flushEarly();
  }

  cancel(op: PooledOp): void {
    for (const link of this.links) link.cancel(op);
    if (!this.#joined) this.#join();
  }

  losses(): number {
    return this.links.reduce((sum, { losses }) => sum + losses, 0);
  }

  dropped(): void {
    this.#dropped = true;
  }

  clear(lane: PooledLane): PooledOp[] {
    const found = this.#pending.filter((op) => op.lane === lane);
    this.#pending = this.#pending.filter((op) => op.lane !== lane);
    for (const link of this.links) found.push(...link.clear(lane));
    return found.filter((op) => op.state !== SETTLED);
  }

  flush(): void {
    this.#joined = false;
    const ops = this.#pending;
    this.#pending = this.#spare;
    this.#spare = [];
    this.#bytes = 0;
    const now = performance.now();
    if (this.#dropped || now - this.#since > STALE_MS) this.#expire(ops, now);
    this.#measure();
    const [first] = this.links as [Link];
    if (this.links.length > 1) this.#spread(ops);
    else for (let i = 0; i < ops.length; i += 1) first.take(ops[i]!, this.#since);
    for (const link of this.links) link.post(this.#stamp);
    ops.length = 0;
    this.#spare = ops;
  }

  sweep(now: number): boolean {
    for (const link of this.links) link.sweep(now);
    return this.#pending.length > 0 || this.links.some((link) => link.busy);
  }

  #join(): void {
    this.#joined = true;
    this.#since = Math.floor(performance.now());
    this.#stamp = processMs();
    joinTurn(this);
    joinTicks(this);
  }

  /** Sends before the turn ends; a flush already announced finds what comes after. */
  #flushEarly(): void {
    this.flush();
    this.#joined = true;
  }

  /** What a node holds back must not keep others' operations out: there is room for all nodes' queues. */
  #measure(): void {
    let versions = 0;
    for (const { topology } of this.lanes) versions += topology.version;
    if (versions === this.#versions) return;
    this.#versions = versions;
    const nodes = this.lanes.reduce((sum, { topology }) => sum + Math.max(1, topology.nodes().length), 0);
    this.#bounds.operations = this.#maxQueue * nodes;
  }

  #spread(ops: readonly PooledOp[]): void {
    const count = ops.length;
    if (this.#lengths.length < count) {
      this.#lengths = new Int32Array(count * 2);
      this.#slots = new Int32Array(count * 2);
    }
    const keys = this.#keys;
    for (let i = 0; i < count; i += 1) {
      const { key } = ops[i]!;
      const text = typeof key === "string" ? key : "";
      keys.push(text);
      this.#lengths[i] = text.length;
    }
    native.slotBatch(keys.join(""), this.#lengths, count, this.#slots);
    keys.length = 0;
    for (let i = 0; i < count; i += 1) {
      const op = ops[i]!;
      this.#linkOf(op, this.#slots[i]!).take(op, this.#since);
    }
  }

  #linkOf(op: PooledOp, slot: number): Link {
    const { links } = this;
    const { key } = op;
    if (key === null) return links.find((link) => link.up) ?? links[0]!;
    return links[workerOf(typeof key === "string" ? slot : native.slot(key), links.length)]!;
  }

  #expire(ops: PooledOp[], now: number): void {
    for (const op of ops) if (op.state !== SETTLED && now >= op.deadline) op.lane.expired(op);
    this.#dropped = false;
  }
}
