/**
 * A thread's use of the pool: collects the operations of one event-loop turn from all its domains, chooses the worker of each by
 * its slot, and sends every worker one message. The invariant: operations of one slot go through one worker in the order they
 * were issued.
 */
import type { LaneConfig } from "../lane/config.js";
import type { Fetch } from "../lane/contract.js";
import { QUEUED, SETTLED } from "../lane/op.js";
import type { Settle } from "../lane/op.js";
import { deadlineIn, joinTicks, joinTurn } from "../lane/turn.js";
import type { TurnMember } from "../lane/turn.js";
import { native } from "../native/index.js";
import type { Topology } from "../routing/topology.js";
import { workerOf } from "./balance.js";
import { BATCH_OPS, Batch } from "./batch.js";
import type { Board } from "./board.js";
import { Crates } from "./crates.js";
import { Link } from "./link.js";
import type { LinkBounds } from "./link.js";
import { PooledLane } from "./pooled-lane.js";
import type { OpTaker } from "./pooled-lane.js";
import { PooledOp } from "./pooled-op.js";
import { processMs } from "./protocol.js";

/** A turn's operations are sent early when they fill a batch, or are so many bytes of arguments. */
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
  readonly #timeoutMs: number;
  /** Sum of the topologies' versions when the bounds were computed. */
  #versions = -1;
  /** What was issued in this turn. */
  #turn = new Batch();
  #joined = false;
  /** When the turn began: in milliseconds of this thread, and as a stamp. */
  #since = 0;
  #stamp = 0;
  #dropped = false;
  readonly #lengths = new Int32Array(BATCH_OPS);
  readonly #slots = new Int32Array(BATCH_OPS);

  constructor(configs: readonly LaneConfig[], topologies: readonly Topology[], workers: number, board: Board) {
    this.board = board;
    this.lanes = configs.map((config, index) => new PooledLane(config, topologies[index]!, this));
    const [{ maxQueue, maxQueueBytes, commandTimeoutMs }] = configs as [LaneConfig];
    this.#maxQueue = maxQueue;
    this.#timeoutMs = commandTimeoutMs;
    this.#bounds = { operations: maxQueue, bytes: Math.min(maxQueueBytes, MOST_BYTES) };
    const crates = new Crates();
    this.links = Array.from({ length: workers }, () => new Link(crates, this.#bounds));
  }

  get(lane: PooledLane, key: string, settle: Settle): void {
    if (!this.#joined) this.#join();
    const turn = this.#turn;
    turn.get(lane, key, settle);
    if (turn.entries.length === BATCH_OPS) this.#flushEarly();
  }

  fetch(lane: PooledLane, fetch: Fetch): void {
    if (!this.#joined) this.#join();
    const turn = this.#turn;
    turn.fetch(lane, fetch);
    if (turn.entries.length === BATCH_OPS) this.#flushEarly();
  }

  add(op: PooledOp): void {
    if (!this.#joined) this.#join();
    const turn = this.#turn;
    turn.add(op);
    if (turn.entries.length === BATCH_OPS || turn.bytes >= FLUSH_BYTES) this.#flushEarly();
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
    const found = this.#turn.takeAll(QUEUED, lane);
    this.#dropped = true;
    for (const link of this.links) found.push(...link.clear(lane));
    return found.filter((op) => op.state !== SETTLED);
  }

  flush(): void {
    this.#joined = false;
    let turn = this.#turn;
    this.#turn = new Batch();
    const now = performance.now();
    if (this.#dropped || now - this.#since > STALE_MS) turn = this.#expire(turn, now);
    this.#measure();
    if (this.links.length === 1) this.links[0]!.send(turn, this.#since, this.#stamp);
    else this.#spread(turn);
  }

  sweep(now: number): boolean {
    for (const link of this.links) link.sweep(now);
    return this.#turn.count > 0 || this.links.some((link) => link.busy);
  }

  #join(): void {
    this.#joined = true;
    this.#since = Math.floor(performance.now());
    this.#stamp = processMs();
    this.#turn.begin(deadlineIn(this.#timeoutMs));
    joinTurn(this);
    joinTicks(this);
  }

  /** Sends before the turn ends; a flush already announced finds what comes after. */
  #flushEarly(): void {
    const { deadline } = this.#turn;
    this.flush();
    this.#turn.begin(deadline);
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

  /** Each operation to the worker of its slot. */
  #spread(turn: Batch): void {
    const { keys, entries, count } = turn;
    for (let i = 0; i < count; i += 1) this.#lengths[i] = keys[i]!.length;
    native.slotBatch(keys.join(""), this.#lengths, count, this.#slots);
    const { links } = this;
    const batches = links.map(() => new Batch());
    for (const batch of batches) batch.begin(turn.deadline);
    for (let i = 0; i < count; i += 1) {
      const entry = entries[i]!;
      const worker = workerOf(this.#slots[i]!, links.length);
      if (entry === null) continue;
      if (!(entry instanceof PooledOp)) batches[worker]!.put(turn.laneOf(i), keys[i]!, entry);
      else batches[typeof entry.key === "string" ? worker : this.#workerOf(entry)]!.add(entry);
    }
    for (const [at, link] of links.entries()) link.send(batches[at]!, this.#since, this.#stamp);
  }

  /** Of a byte key, or of no key at all. */
  #workerOf({ key }: PooledOp): number {
    if (key !== null) return workerOf(native.slot(key), this.links.length);
    return Math.max(
      0,
      this.links.findIndex((link) => link.up),
    );
  }

  /** Settles what is too late; gives what is left. */
  #expire(turn: Batch, now: number): Batch {
    this.#dropped = false;
    for (const op of turn.takeLate(now, QUEUED)) op.lane.expired(op);
    return turn.live();
  }
}
