/**
 * The lane of one domain in one thread: takes operations, sends each turn's batch to the nodes that own their slots, and
 * judges every refusal alone. The invariant: an accepted operation is settled exactly once — by its value, its error, its
 * deadline, or `destroy` — and is never sent again unless it certainly did not run (reads excepted).
 *
 * ```text
 * get() … → pending ─ flush, once a turn ─→ encode ─┬→ ring of node n → socket
 *              ↑                                    ├→ waiting list of a node not connected
 *              └── holds ← MOVED, TRYAGAIN, … ──────┴→ hold of a slot held back
 * ```
 */
import { commandChannel, connectChannel } from "../diagnostics.js";
import { KeylaneError } from "../errors.js";
import type { ErrorContext, KeylaneErrorCode } from "../errors.js";
import { native } from "../native/index.js";
import { KEY_NONE, Opcode, PLACE_HELD, PLACE_KEYLESS, PLACE_UNASSIGNED, SECTION_WORDS } from "../native/types.js";
import type { EncodeTables } from "../native/types.js";
import type { Topology } from "../routing/topology.js";
import type { CommandOptions, DomainStats, Reply } from "../types.js";
import { CODECS } from "./codec.js";
import type { Codec } from "./codec.js";
import type { LaneConfig } from "./config.js";
import { mapAddress } from "./discover.js";
import { Fleet } from "./fleet.js";
import { encoder } from "./frame.js";
import { Holds } from "./holds.js";
import { oversize } from "./limits.js";
import type { NodeLane, NodeOwner } from "./node.js";
import { HEAD_GET, OP_INTERNAL, Op, QUEUED, SENT, SETTLED, headOf } from "./op.js";
import type { Block, Settle, WireArg } from "./op.js";
import { Redirector } from "./redirect.js";
import type { Detours } from "./redirect.js";
import { BlockingLines, blockTimeMs } from "./blocking.js";
import { RetryBudget } from "./budget.js";
import { ClusterKeeper } from "./cluster-keeper.js";
import type { Keeper } from "./keeper.js";
import { RingKeeper } from "./ring-keeper.js";
import { SingleKeeper } from "./single-keeper.js";
import { ValueShape } from "./replies.js";
import type { ReplyRows, Shape } from "./replies.js";
import { HEAD_TRANSACTION } from "./transaction.js";
import { joinTicks, joinTurn, turnNow } from "./turn.js";
import type { TurnMember } from "./turn.js";

/** A turn's batch is sent early when it reaches this many operations or bytes. */
const FLUSH_OPS = 4096;
const FLUSH_BYTES = 1 << 20;
/** Pending longer than this (a blocked event loop): deadlines are looked at before sending. */
const STALE_MS = 50;

/** What a lane tells the facade. */
export interface LaneListener {
  nodeUp(domain: string, node: string): void;
  nodeDown(domain: string, node: string, reason: string): void;
  topology(domain: string, version: number): void;
  degraded(domain: string, reason: string): void;
  error(error: KeylaneError): void;
}

let grabbed: Settle = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Settle): void => {
  grabbed = resolve;
};

export class DomainLane implements TurnMember, NodeOwner, Detours {
  readonly config: LaneConfig;
  readonly codec: Codec;
  readonly topology: Topology;
  readonly fleet: Fleet;
  readonly valueShape: ValueShape;
  readonly holds = new Holds();
  readonly counts = {
    commands: 0,
    succeeded: 0,
    failed: 0,
    timeouts: 0,
    overloaded: 0,
    moved: 0,
    asked: 0,
    retries: 0,
  };
  readonly #listener: LaneListener;
  readonly #keeper: Keeper;
  /** Set for rings: which operations a stand-in server may run. */
  readonly #ring: RingKeeper | null;
  readonly #budget = new RetryBudget();
  readonly #blocking: BlockingLines;
  readonly #redirector: Redirector;
  readonly #tables: EncodeTables;
  #pending: Op[] = [];
  #spare: Op[] = [];
  #pendingBytes = 0;
  #pendingSince = 0;
  #joined = false;
  #state: "open" | "closing" | "closed" = "open";
  /** Longest argument the nodes accept, in bytes. */
  #maxBulk: number;
  /** Operations accepted and not settled. */
  #outstanding = 0;
  #idle: (() => void)[] = [];

  constructor(config: LaneConfig, topology: Topology, listener: LaneListener) {
    this.config = config;
    this.topology = topology;
    this.codec = CODECS[config.codec];
    this.fleet = new Fleet(this, topology, (ops) => this.#replace(ops));
    this.valueShape = new ValueShape(this.codec);
    this.#listener = listener;
    this.#maxBulk = config.maxValueBytes;
    this.#tables = { slots: topology.slots, held: this.holds.bits, alias: this.fleet.alias };
    this.#ring = config.mode === "ring" ? new RingKeeper(this) : null;
    this.#keeper = this.#ring ?? (config.mode === "cluster" ? new ClusterKeeper(this) : new SingleKeeper(this));
    this.#blocking = new BlockingLines(config);
    this.#redirector = new Redirector(this);
  }

  /** Contacts the seeds, reads the topology and dials. Rejects when no seed answers before the connect deadline. */
  open(): Promise<void> {
    return this.#keeper.open();
  }

  /** The hot path: one GET. */
  get(key: WireArg): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    this.#accept(new Op(HEAD_GET, key, null, grabbed, this.valueShape, turnNow() + this.config.commandTimeoutMs, 0));
    return promise;
  }

  /** Any other command; `timeoutMs` is already validated. A null shape reads a value by the domain's codec. */
  call(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    timeoutMs?: number,
    signal?: AbortSignal,
    script: string | null = null,
  ): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const deadline = turnNow() + (timeoutMs ?? this.config.commandTimeoutMs);
    const op = new Op(head, first, rest, grabbed, shape ?? this.valueShape, deadline, 0);
    op.script = script;
    this.#begin(op, signal);
    return promise;
  }

  /** Checks an operation and accepts it. */
  #begin(op: Op, signal: AbortSignal | undefined): void {
    const fault = oversize(op, this.config.maxKeyBytes, this.#maxBulk);
    const ring = this.#ring?.refusal(op) ?? null;
    if (fault !== null) this.#refuse(op, "KEYLANE_ERR_TOO_LARGE", fault);
    else if (ring !== null) this.#refuse(op, "KEYLANE_ERR_NO_NODE", ring);
    else if (signal?.aborted === true) this.#refuse(op, "KEYLANE_ERR_ABORTED", "the caller aborted", signal.reason);
    else {
      if (signal !== undefined) this.#watch(op, signal);
      this.#accept(op);
    }
  }

  /** A whole transaction; see `transaction.ts`. */
  transact(
    key: WireArg,
    frames: WireArg,
    shape: Shape,
    block: Block,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const deadline = turnNow() + (timeoutMs ?? this.config.commandTimeoutMs);
    const op = new Op(HEAD_TRANSACTION, key, [frames], grabbed, shape, deadline, 0);
    op.block = block;
    this.#begin(op, signal);
    return promise;
  }

  /** A command that blocks: on a connection of its own. Without `timeoutMs` it may take as long as it asked the server. */
  block(name: string, args: readonly WireArg[], slot: number, options: CommandOptions): Promise<Reply> {
    const { topology, config } = this;
    const node = topology.node(topology.nodeOf(slot));
    const command = name.toUpperCase();
    if (this.#state !== "open" || node === null) {
      const code = node === null ? "KEYLANE_ERR_NO_NODE" : "KEYLANE_ERR_CLOSED";
      return Promise.reject(
        new KeylaneError(code, `${command}: cannot be sent`, { command, domain: config.domain, slot }),
      );
    }
    const asked = blockTimeMs(name, args);
    const timeoutMs = options.timeoutMs ?? (asked === 0 ? null : (asked ?? 0) + config.commandTimeoutMs);
    const call = { name: command, args, buffers: options.buffers === true, timeoutMs, signal: options.signal };
    return this.#blocking.run(node, call, (told) => mapAddress(told, config.natMap, config.domain));
  }

  /** A command of keylane's own to one node: not retried, not redirected. */
  callNode(node: NodeLane, name: string, args: readonly string[], shape: Shape, timeoutMs: number): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const head = headOf(Opcode.GENERIC, KEY_NONE, false);
    const op = new Op(head, name, args, grabbed, shape, performance.now() + timeoutMs, OP_INTERNAL);
    this.#outstanding += 1;
    joinTicks(this);
    if (node.writable) node.send([op], false);
    else this.failed(op, this.#error("KEYLANE_ERR_CONNECT", `node ${node.name} is not connected`, op, node));
    return promise;
  }

  flush(): void {
    this.#joined = false;
    const ops = this.#pending;
    if (ops.length === 0) return;
    this.#pending = this.#spare;
    this.#spare = [];
    this.#pendingBytes = 0;
    if (this.fleet.behind) this.#follow();
    const now = performance.now();
    if (now - this.#pendingSince > STALE_MS) this.#expirePending(ops, now);
    if (this.config.scaleReads !== "master") this.fleet.rotate();
    if (ops.length > 0) this.#send(ops);
    ops.length = 0;
    this.#spare = ops;
  }

  sweep(now: number): boolean {
    const expired = (op: Op, node?: NodeLane): void => this.#expire(op, node);
    for (const node of this.fleet.live()) {
      node.sweep(now, expired);
      if (node.owes && now - node.heardAt > this.config.silenceTimeoutMs) {
        node.reset(new KeylaneError("KEYLANE_ERR_TIMEOUT", `node ${node.name} takes bytes and sends none`));
      }
    }
    if (this.holds.active) {
      this.holds.sweep(now, expired);
      this.#resend(this.holds.release(now));
    }
    if (this.fleet.behind) this.#follow();
    return this.#outstanding > 0;
  }

  // ── what nodes report ────────────────────────────────────────────────────────────────────────────────────────────

  answered(op: Op, value: unknown): void {
    op.state = SETTLED;
    this.counts.succeeded += 1;
    this.#outstanding -= 1;
    op.settle(value);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  failed(op: Op, error: KeylaneError): void {
    if (op.state === SETTLED) return;
    op.state = SETTLED;
    this.counts.failed += 1;
    this.#outstanding -= 1;
    op.settle(Promise.reject(error));
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  refused(op: Op, message: string, node: NodeLane): void {
    this.#redirector.refused(op, message, node);
  }

  lost(op: Op, node: NodeLane): void {
    const retry = op.isRead && (op.flags & OP_INTERNAL) === 0 && op.attempts < this.config.maxRedirections;
    if (retry && this.#state !== "closed" && this.mayRetry(performance.now())) {
      this.#redirector.again(op);
      return;
    }
    const { lastError } = node;
    const broken = lastError instanceof KeylaneError && lastError.code === "KEYLANE_ERR_PROTOCOL";
    const code = broken ? "KEYLANE_ERR_PROTOCOL" : "KEYLANE_ERR_CONNECTION_LOST";
    const reason = lastError?.message ?? "it was closed";
    this.failed(op, this.#error(code, `the connection to ${node.name} broke: ${reason}`, op, node, lastError));
  }

  doubted(op: Op): void {
    this.#redirector.toPrimary(op);
  }

  pushed(_node: NodeLane, _rows: ReplyRows): void {
    // Nothing subscribes to pushes on a lane yet; whatever a server sends unasked is passed over.
  }

  progressed(_node: NodeLane): void {
    if (this.holds.active) this.#resend(this.holds.release(performance.now()));
  }

  up(node: NodeLane): void {
    const { domain } = this.config;
    this.#maxBulk = Math.min(this.#maxBulk, node.maxBulk);
    this.#listener.nodeUp(domain, node.name);
    if (connectChannel.hasSubscribers)
      connectChannel.publish({ domain, node: node.name, state: "ready", reason: null });
    this.#keeper.changed(node);
    this.#resend(node.waiting.splice(0));
  }

  down(node: NodeLane, reason: string): void {
    const { domain } = this.config;
    node.healthy = !node.replica;
    this.#listener.nodeDown(domain, node.name, reason);
    if (connectChannel.hasSubscribers) connectChannel.publish({ domain, node: node.name, state: "down", reason });
    this.#keeper.changed(node);
    if (this.#state === "open") this.#keeper.request();
  }

  // ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Refuses new calls; resolves when nothing is outstanding. */
  drained(): Promise<void> {
    if (this.#state === "open") this.#state = "closing";
    this.#keeper.stop();
    if (this.#outstanding === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Ends everything now. Operations not sent fail as `not-sent`, sent ones as `unknown`. Returns how many failed. */
  destroy(): number {
    if (this.#state === "closed") return 0;
    this.#state = "closed";
    this.#keeper.stop();
    const before = this.counts.failed;
    const unsent = [...this.#pending.splice(0), ...this.holds.clear()];
    for (const node of this.fleet.live()) unsent.push(...node.waiting.splice(0));
    for (const op of unsent) this.failed(op, this.#error("KEYLANE_ERR_CLOSED", "keylane was closed", op));
    this.fleet.close();
    this.#blocking.close();
    return this.counts.failed - before;
  }

  stats(): DomainStats {
    const live = this.fleet.live();
    const sum = (of: (node: NodeLane) => number): number => live.reduce((total, node) => total + of(node), 0);
    return {
      ...this.counts,
      bytesSent: sum((node) => node.bytesSent),
      bytesReceived: sum((node) => node.bytesReceived),
      writes: sum((node) => node.writes),
      reconnects: sum((node) => Math.max(0, node.connects - 1)),
      refreshes: this.topology.refreshes,
      pending: this.#outstanding,
      nodes: this.fleet.stats(),
    };
  }

  mayRetry(now: number): boolean {
    return this.#budget.take(this.counts.succeeded, now);
  }

  refresh(): void {
    this.#keeper.request();
  }

  notifyDegraded(reason: string): void {
    this.#listener.degraded(this.config.domain, reason);
  }

  notifyError(error: KeylaneError): void {
    this.#listener.error(error);
  }

  contextOf(op: Op, node: NodeLane | null): ErrorContext {
    const key = op.key;
    const slot = key === null ? undefined : native.slot(key);
    return { command: op.command, domain: this.config.domain, slot, node: node?.name };
  }

  // ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #accept(op: Op): void {
    this.#outstanding += 1;
    this.counts.commands += 1;
    if (this.#state !== "open") {
      this.failed(op, this.#error("KEYLANE_ERR_CLOSED", "keylane is closed", op));
      return;
    }
    if (commandChannel.hasSubscribers) this.#trace(op);
    this.enqueue(op);
  }

  /** Settles an operation that was never accepted. */
  #refuse(op: Op, code: KeylaneErrorCode, message: string, cause?: unknown): void {
    this.#outstanding += 1;
    this.counts.commands += 1;
    this.failed(op, this.#error(code, message, op, null, cause));
  }

  enqueue(op: Op): void {
    this.#pending.push(op);
    if (op.rest !== null) this.#pendingBytes += op.weight;
    if (!this.#joined) {
      this.#joined = true;
      joinTurn(this);
      joinTicks(this);
      this.#pendingSince = turnNow();
    } else if (this.#pending.length >= FLUSH_OPS || this.#pendingBytes >= FLUSH_BYTES) {
      this.flush();
      this.#joined = true;
    }
  }

  #send(ops: Op[]): void {
    const target = encoder.encode(ops, this.#tables);
    const { place, sections } = encoder;
    /** By node index: what cannot be written with the batch. */
    const aside: Op[][] = [];
    const runs = this.#openRuns(ops.length, place, sections, aside);
    const { nodes } = this.fleet;
    for (let i = 0; i < ops.length; i += 1) {
      const op = ops[i]!;
      const index = place[i]!;
      if (index < 0) this.#unplaced(op, index);
      else if (aside.length > 0 && aside[index] !== undefined) aside[index].push(op);
      else nodes[index]!.push(op);
    }
    if (target === null) return;
    for (let at = 0; at < runs * SECTION_WORDS; at += SECTION_WORDS) {
      const index = sections[at]!;
      if (aside[index] === undefined) nodes[index]!.write(target, sections[at + 1]!, sections[at + 2]!);
    }
    target.release();
    for (const [index, queue] of aside.entries()) if (queue !== undefined) this.offer(index, queue);
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
      if (this.fleet.at(index)?.accepts(ops) !== true) aside[index] = [];
    }
    return runs;
  }

  offer(index: number, ops: Op[]): void {
    const node = this.fleet.at(index);
    const { maxQueue } = this.config;
    const send: Op[] = [];
    for (const op of ops) {
      if (node === null) this.#unplaced(op, PLACE_UNASSIGNED);
      else if (node.accepts(send.length + 1)) send.push(op);
      else if (node.state !== "ready" && node.state !== "closed" && node.waiting.length < maxQueue)
        node.waiting.push(op);
      else this.#overloaded(op, node);
    }
    node?.send(send, false);
  }

  #unplaced(op: Op, place: number): void {
    const { domain, maxQueue } = this.config;
    if (place === PLACE_KEYLESS) {
      const node = this.fleet.ready().find((candidate) => !candidate.replica && candidate.accepts(1));
      if (node === undefined) this.failed(op, this.#error("KEYLANE_ERR_NO_NODE", "no node is connected", op));
      else node.send([op], false);
      return;
    }
    const slot = native.slot(op.key!);
    if (this.holds.size >= maxQueue) this.#overloaded(op, null);
    else if (place === PLACE_HELD) this.holds.add(slot, op);
    else {
      this.#keeper.request();
      const refusal = this.#error("KEYLANE_ERR_NO_NODE", `no node of domain ${domain} serves slot ${slot}`, op);
      this.#redirector.delay(op, slot, null, refusal);
    }
  }

  #overloaded(op: Op, node: NodeLane | null): void {
    this.counts.overloaded += 1;
    const where = node === null ? `domain ${this.config.domain}` : `node ${node.name}`;
    this.failed(op, this.#error("KEYLANE_ERR_OVERLOADED", `the queue of ${where} is full`, op, node));
  }

  /** Puts operations that waited before those of this turn, and sends. */
  #resend(ops: Op[]): void {
    const live = ops.filter((op) => op.state !== SETTLED);
    if (live.length === 0) return;
    for (const op of live) op.state = QUEUED;
    this.#pending = live.concat(this.#pending);
    const joined = this.#joined;
    this.flush();
    this.#joined = joined;
  }

  #replace(ops: Op[]): void {
    for (const op of ops) if (op.state !== SETTLED) this.enqueue(op);
  }

  #follow(): void {
    this.fleet.follow();
    this.#listener.topology(this.config.domain, this.topology.version);
  }

  // ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  #expirePending(ops: Op[], now: number): void {
    let kept = 0;
    for (const op of ops) {
      if (op.state === SETTLED) continue;
      if (now >= op.deadline) this.#expire(op);
      else ops[kept++] = op;
    }
    ops.length = kept;
  }

  #expire(op: Op, node?: NodeLane): void {
    this.counts.timeouts += 1;
    if (op.state === QUEUED && op.refusal !== null) {
      this.failed(op, op.refusal);
      return;
    }
    const sent = op.state === SENT;
    const cause = sent ? null : node?.lastError;
    const what = sent ? "no reply came before the deadline" : "it could not be sent before the deadline";
    const why = cause === null || cause === undefined ? what : `${what}; ${node!.name}: ${cause.message}`;
    this.failed(op, this.#error("KEYLANE_ERR_TIMEOUT", why, op, node, cause));
  }

  #watch(op: Op, signal: AbortSignal): void {
    const { settle } = op;
    const abort = (): void =>
      this.failed(op, this.#error("KEYLANE_ERR_ABORTED", "the caller aborted", op, null, signal.reason));
    op.settle = (value) => {
      signal.removeEventListener("abort", abort);
      settle(value);
    };
    signal.addEventListener("abort", abort, { once: true });
  }

  #trace(op: Op): void {
    const { settle, command } = op;
    const { domain } = this.config;
    const began = performance.now();
    const publish = (error: KeylaneErrorCode | null): void =>
      commandChannel.publish({ domain, command, durationMs: performance.now() - began, error });
    op.settle = (value) => {
      settle(value);
      if (value instanceof Promise) value.catch((error: KeylaneError) => publish(error.code));
      else publish(null);
    };
  }

  #error(code: KeylaneErrorCode, message: string, op: Op, node?: NodeLane | null, cause?: unknown): KeylaneError {
    return new KeylaneError(code, `${op.command}: ${message}`, {
      ...this.contextOf(op, node ?? null),
      outcome: op.state === SENT ? "unknown" : "not-sent",
      ...(cause === undefined || cause === null ? {} : { cause }),
    });
  }

  #notifyIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}
