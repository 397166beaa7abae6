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
import { KeylaneError } from "../errors.js";
import type { ErrorContext, KeylaneErrorCode } from "../errors.js";
import { commandChannel, connectChannel } from "../diagnostics.js";
import { native } from "../native/index.js";
import {
  FLAG_ASKING,
  FLAG_READ,
  HEAD_FLAGS_SHIFT,
  Opcode,
  PLACE_HELD,
  PLACE_KEYLESS,
  PLACE_UNASSIGNED,
  SECTION_WORDS,
} from "../native/types.js";
import type { NodeView, Topology } from "../routing/topology.js";
import type { DomainStats, NodeStats } from "../types.js";
import { CODECS } from "./codec.js";
import type { Codec } from "./codec.js";
import type { LaneConfig } from "./config.js";
import { mapAddress } from "./discover.js";
import { encoder } from "./frame.js";
import { Holds } from "./holds.js";
import { NodeLane } from "./node.js";
import type { NodeOwner } from "./node.js";
import { HEAD_GET, Op, QUEUED, SENT, SETTLED, headOf } from "./op.js";
import type { Settle, WireArg } from "./op.js";
import { Refresher } from "./refresh.js";
import { parseRedirect, replyError, ruleFor } from "./redirect.js";
import type { ReplyRows, Shape } from "./replies.js";
import { ValueShape } from "./replies.js";
import { joinTicks, joinTurn, turnNow } from "./turn.js";
import type { TurnMember } from "./turn.js";

const MAX_NODES = 512;
/** A turn's batch is sent early when it reaches this many operations or bytes. */
const FLUSH_OPS = 4096;
const FLUSH_BYTES = 1 << 20;
/** Pending longer than this (a blocked event loop): deadlines are looked at before sending. */
const STALE_MS = 50;
/** First delay before a refused operation is tried again; doubles up to `RETRY_MAX_MS`. */
const RETRY_MIN_MS = 10;
const RETRY_MAX_MS = 250;

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

export class DomainLane implements TurnMember, NodeOwner {
  readonly config: LaneConfig;
  readonly codec: Codec;
  readonly topology: Topology;
  /** By node index of the topology. */
  readonly nodes: (NodeLane | undefined)[] = [];
  readonly #value: ValueShape;
  readonly #listener: LaneListener;
  readonly #refresher: Refresher;
  readonly #holds = new Holds();
  readonly #alias = Int32Array.from({ length: MAX_NODES }, (_, index) => index);
  readonly #tables: { slots: Int32Array; held: Int32Array; alias: Int32Array };
  #pending: Op[] = [];
  #spare: Op[] = [];
  #pendingBytes = 0;
  #pendingSince = 0;
  #joined = false;
  #seenVersion = 0;
  #rotation = 0;
  #closed: "open" | "closing" | "closed" = "open";
  #maxBulk: number;
  #outstanding = 0;
  #counts = {
    commands: 0,
    succeeded: 0,
    failed: 0,
    timeouts: 0,
    overloaded: 0,
    moved: 0,
    asked: 0,
    retries: 0,
  };
  #idle: (() => void)[] = [];

  constructor(config: LaneConfig, topology: Topology, listener: LaneListener) {
    this.config = config;
    this.topology = topology;
    this.codec = CODECS[config.codec];
    this.#value = new ValueShape(this.codec);
    this.#listener = listener;
    this.#maxBulk = config.maxValueBytes;
    this.#tables = { slots: topology.slots, held: this.#holds.bits, alias: this.#alias };
    this.#refresher = new Refresher(this);
  }

  /** Longest value the nodes accept, in bytes. */
  get maxBulk(): number {
    return this.#maxBulk;
  }

  /** Calls not settled yet. */
  get outstanding(): number {
    return this.#outstanding;
  }

  get refresher(): Refresher {
    return this.#refresher;
  }

  /** Contacts the seeds, reads the topology and dials. Rejects when no seed answers before the connect deadline. */
  async open(): Promise<void> {
    await this.#refresher.open();
  }

  /** The hot path: one GET. */
  get(key: WireArg): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    this.#accept(new Op(HEAD_GET, key, null, grabbed, this.#value, turnNow() + this.config.commandTimeoutMs, 0));
    return promise;
  }

  /** Any other command. `timeoutMs` and `signal` are already validated. */
  call(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    timeoutMs: number | undefined,
    signal: AbortSignal | undefined,
    script: string | null = null,
  ): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const deadline = turnNow() + (timeoutMs ?? this.config.commandTimeoutMs);
    const op = new Op(head, first, rest, grabbed, shape ?? this.#value, deadline, 0);
    op.script = script;
    const oversize = this.#oversize(op);
    if (oversize !== null) {
      this.#outstanding += 1;
      this.failed(op, oversize);
      return promise;
    }
    if (signal !== undefined) this.#watch(op, signal);
    if (op.state !== SETTLED) this.#accept(op);
    return promise;
  }

  /** An operation of keylane's own to one node (topology, health); not counted, not retried. */
  callNode(node: NodeLane, name: string, args: readonly string[], shape: Shape, timeoutMs: number): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const head = headOf(Opcode.GENERIC, 0x7fff, false);
    const op = new Op(head, name, args, grabbed, shape, performance.now() + timeoutMs, OP_INTERNAL);
    this.#outstanding += 1;
    joinTicks(this);
    if (node.accepts(1)) node.send([op], false);
    else this.failed(op, this.#error("KEYLANE_ERR_CONNECT", `node ${node.name} is not connected`, op, node));
    return promise;
  }

  flush(): void {
    this.#joined = false;
    const ops = this.#pending;
    if (ops.length === 0) return;
    this.#pending = this.#spare;
    this.#spare = ops;
    this.#pendingBytes = 0;
    if (this.topology.version !== this.#seenVersion) this.#sync();
    const now = turnNow();
    if (now - this.#pendingSince > STALE_MS) this.#expirePending(ops, now);
    if (this.config.scaleReads !== "master") this.#rotate();
    if (ops.length > 0) this.#send(ops);
    ops.length = 0;
  }

  sweep(now: number): boolean {
    const expired = (op: Op, node?: NodeLane): void => this.#expire(op, node);
    for (const node of this.nodes) {
      if (node === undefined) continue;
      node.sweep(now, expired);
      if (node.inFlight > 0 && node.state === "ready" && now - node.heardAt > this.config.silenceTimeoutMs) {
        node.reset(new KeylaneError("KEYLANE_ERR_TIMEOUT", `node ${node.name} takes bytes and sends none`));
      }
    }
    if (this.#holds.active) {
      this.#holds.sweep(now, expired);
      this.#releaseHolds(now);
    }
    if (this.topology.version !== this.#seenVersion) this.#sync();
    return this.#outstanding > 0;
  }

  // ── NodeOwner ────────────────────────────────────────────────────────────────────────────────────────────────────

  answered(op: Op, value: unknown): void {
    op.state = SETTLED;
    this.#counts.succeeded += 1;
    this.#outstanding -= 1;
    op.settle(value);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  failed(op: Op, error: KeylaneError): void {
    if (op.state === SETTLED) return;
    op.state = SETTLED;
    this.#counts.failed += 1;
    this.#outstanding -= 1;
    const rejected = Promise.reject(error);
    op.settle(rejected);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  refused(op: Op, message: string, node: NodeLane): void {
    const { action } = ruleFor(message);
    if (action === "moved") this.#moved(op, message, node);
    else if (op.state === SETTLED) return;
    else if (action === "surface" || (op.flags & OP_INTERNAL) !== 0) this.#surface(op, message, node);
    else if (action === "ask") this.#asked(op, message, node);
    else if (action === "eval") this.#evalOnce(op, message, node);
    else this.#retryLater(op, message, node, action);
  }

  lost(op: Op, node: NodeLane): void {
    const reason = node.lastError?.message ?? "the connection was closed";
    if (
      op.isRead &&
      (op.flags & OP_INTERNAL) === 0 &&
      this.#closed === "open" &&
      op.attempts < this.config.maxRedirections
    ) {
      this.#again(op);
      return;
    }
    const code =
      node.lastError instanceof KeylaneError && node.lastError.code === "KEYLANE_ERR_PROTOCOL"
        ? "KEYLANE_ERR_PROTOCOL"
        : "KEYLANE_ERR_CONNECTION_LOST";
    this.failed(op, this.#error(code, `the connection to ${node.name} broke: ${reason}`, op, node, node.lastError));
  }

  pushed(_node: NodeLane, _rows: ReplyRows): void {
    // Invalidations arrive here once the shared cache subscribes to them.
  }

  progressed(_node: NodeLane): void {
    if (this.#holds.active) this.#releaseHolds(performance.now());
  }

  up(node: NodeLane): void {
    this.#maxBulk = Math.min(this.#maxBulk, node.maxBulk);
    this.#listener.nodeUp(this.config.domain, node.name);
    if (connectChannel.hasSubscribers) {
      connectChannel.publish({ domain: this.config.domain, node: node.name, state: "ready", reason: null });
    }
    this.#refresher.wake();
    const { waiting } = node;
    node.waiting = [];
    this.#resend(waiting);
  }

  down(node: NodeLane, reason: string): void {
    this.#listener.nodeDown(this.config.domain, node.name, reason);
    if (connectChannel.hasSubscribers) {
      connectChannel.publish({ domain: this.config.domain, node: node.name, state: "down", reason });
    }
    if (this.#closed === "open") this.#refresher.request();
  }

  // ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The lane's node for a topology record, dialling it when it is new. */
  nodeAt(index: number): NodeLane | null {
    const known = this.nodes[index];
    const view = this.topology.node(index);
    if (view === null) return known ?? null;
    if (known !== undefined && known.generation === view.generation) return known;
    if (known !== undefined) this.#retire(known);
    if (this.#closed === "closed") return null;
    const node = new NodeLane(this, view);
    this.nodes[index] = node;
    return node;
  }

  /** Resolves when nothing is outstanding. */
  drained(): Promise<void> {
    this.#closed = this.#closed === "open" ? "closing" : this.#closed;
    this.#refresher.stop();
    if (this.#outstanding === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Ends everything now. Operations not sent fail as `not-sent`, sent writes as `unknown`. Returns how many failed. */
  destroy(): number {
    if (this.#closed === "closed") return 0;
    this.#closed = "closed";
    this.#refresher.stop();
    const before = this.#outstanding;
    const closed = (op: Op): void => this.failed(op, this.#error("KEYLANE_ERR_CLOSED", "keylane was closed", op));
    for (const op of [...this.#pending.splice(0), ...this.#holds.clear()]) if (op.state !== SETTLED) closed(op);
    for (const node of this.nodes) {
      if (node === undefined) continue;
      for (const op of node.waiting.splice(0)) if (op.state !== SETTLED) closed(op);
      node.lastError ??= new KeylaneError("KEYLANE_ERR_CLOSED", "keylane was closed");
      node.close();
    }
    return before;
  }

  stats(): DomainStats {
    const live = this.nodes.filter((node) => node !== undefined && node.state !== "closed") as NodeLane[];
    const sum = (of: (node: NodeLane) => number): number => live.reduce((total, node) => total + of(node), 0);
    return {
      ...this.#counts,
      bytesSent: sum((node) => node.bytesSent),
      bytesReceived: sum((node) => node.bytesReceived),
      writes: sum((node) => node.writes),
      reconnects: sum((node) => Math.max(0, node.connects - 1)),
      refreshes: this.topology.refreshes,
      pending: this.#outstanding,
      nodes: live.map((node) => this.#nodeStats(node)),
    };
  }

  notifyTopology(): void {
    this.#listener.topology(this.config.domain, this.topology.version);
  }

  notifyDegraded(reason: string): void {
    this.#listener.degraded(this.config.domain, reason);
  }

  notifyError(error: KeylaneError): void {
    this.#listener.error(error);
  }

  // ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #accept(op: Op): void {
    this.#outstanding += 1;
    this.#counts.commands += 1;
    if (this.#closed !== "open") {
      this.failed(op, this.#error("KEYLANE_ERR_CLOSED", "keylane is closed", op));
      return;
    }
    if (commandChannel.hasSubscribers) this.#trace(op);
    this.#enqueue(op);
  }

  #enqueue(op: Op): void {
    this.#pending.push(op);
    if (op.rest !== null) this.#pendingBytes += op.weight;
    if (!this.#joined) {
      this.#joined = true;
      this.#pendingSince = turnNow();
      joinTurn(this);
      joinTicks(this);
    } else if (this.#pending.length >= FLUSH_OPS || this.#pendingBytes >= FLUSH_BYTES) {
      this.flush();
      this.#joined = true;
    }
  }

  #send(ops: Op[]): void {
    const target = encoder.encode(ops, this.#tables);
    const { place, sections } = encoder;
    const slow: Op[][] = [];
    let encoded = 0;
    let groups = 0;
    if (target !== null) {
      target.uses += 1;
      groups = this.#openSections(ops.length, place, sections, slow);
    }
    for (let i = 0; i < ops.length; i += 1) {
      const op = ops[i]!;
      const index = place[i]!;
      if (index < 0) this.#unplaced(op, index);
      else {
        const queue = slow[index];
        if (queue === undefined) {
          this.nodes[index]!.push(op);
          encoded += 1;
        } else queue.push(op);
      }
    }
    if (target === null) return;
    for (let at = 0; encoded > 0 && at < groups * SECTION_WORDS; at += SECTION_WORDS) {
      const index = sections[at]!;
      if (slow[index] === undefined) this.nodes[index]!.write(target, sections[at + 1]!, sections[at + 2]!);
    }
    target.release();
    for (const [index, queue] of slow.entries()) if (queue !== undefined) this.#offer(index, queue);
  }

  /** Marks, in `slow`, the nodes that cannot take their whole run now. Returns the number of runs. */
  #openSections(ops: number, place: Int32Array, sections: Int32Array, slow: Op[][]): number {
    let placed = 0;
    for (let i = 0; i < ops; i += 1) if (place[i]! >= 0) placed += 1;
    let groups = 0;
    for (let seen = 0; seen < placed; groups += 1) {
      const at = groups * SECTION_WORDS;
      const index = sections[at]!;
      seen += sections[at + 3]!;
      const node = this.nodeAt(index);
      if (node === null || !node.accepts(sections[at + 3]!)) slow[index] = [];
    }
    return groups;
  }

  /** Operations for a node that is not connected, or full: they wait, or are refused at once. */
  #offer(index: number, ops: Op[]): void {
    const node = this.nodeAt(index);
    const { maxQueue } = this.config;
    const send: Op[] = [];
    for (const op of ops) {
      if (node === null) this.#unplaced(op, PLACE_UNASSIGNED);
      else if (node.state === "ready" && node.accepts(send.length + 1)) send.push(op);
      else if (node.state !== "ready" && node.state !== "closed" && node.waiting.length < maxQueue)
        node.waiting.push(op);
      else this.#overloaded(op, node);
    }
    node?.send(send, false);
  }

  #unplaced(op: Op, place: number): void {
    if (place === PLACE_KEYLESS) {
      const node = this.nodes.find((candidate) => candidate?.state === "ready" && !candidate.replica);
      if (node?.accepts(1) === true) node.send([op], false);
      else this.failed(op, this.#error("KEYLANE_ERR_NO_NODE", "no node is connected", op));
      return;
    }
    const slot = native.slot(op.key!);
    if (this.#holds.size >= this.config.maxQueue) this.#overloaded(op, null);
    else if (place === PLACE_HELD) this.#holds.add(slot, op);
    else {
      this.#refresher.request();
      const refusal = this.#error("KEYLANE_ERR_NO_NODE", `no node of ${this.config.domain} serves slot ${slot}`, op);
      this.#delay(op, slot, null, refusal);
    }
  }

  #overloaded(op: Op, node: NodeLane | null): void {
    this.#counts.overloaded += 1;
    const where = node === null ? `domain ${this.config.domain}` : `node ${node.name}`;
    this.failed(op, this.#error("KEYLANE_ERR_OVERLOADED", `the queue of ${where} is full`, op, node));
  }

  /** Puts operations that wait already before those of this turn. */
  #resend(ops: Op[]): void {
    const live = ops.filter((op) => op.state !== SETTLED);
    if (live.length === 0) return;
    for (const op of live) op.state = QUEUED;
    this.#pending.unshift(...live);
    this.flush();
  }

  /** Sends one operation that was sent before once more. */
  #again(op: Op): void {
    this.#counts.retries += 1;
    op.attempts += 1;
    op.state = QUEUED;
    this.#enqueue(op);
  }

  // ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #moved(op: Op, message: string, node: NodeLane): void {
    const redirect = parseRedirect(message);
    if (redirect === null) {
      if (op.state !== SETTLED) this.#surface(op, message, node);
      return;
    }
    this.#counts.moved += 1;
    const { slot } = redirect;
    const target = this.#dial(redirect.address, node);
    if (target === null) {
      if (op.state !== SETTLED) this.#surface(op, message, node);
      return;
    }
    this.topology.assign(slot, target);
    this.#refresher.request();
    if (op.state === SETTLED) return;
    if (op.attempts >= this.config.maxRedirections) {
      this.#surface(op, message, node);
      return;
    }
    op.attempts += 1;
    op.state = QUEUED;
    if (node.replica) op.head &= ~(FLAG_READ << HEAD_FLAGS_SHIFT);
    this.#counts.retries += 1;
    const key = op.key;
    const own = key === null ? slot : native.slot(key);
    if (own === slot) this.#holds.addFenced(slot, op, node);
    // The server computes another slot than we do (a managed product may): its word decides, for this operation.
    else this.#offer(this.topology.intern(target), [op]);
  }

  #asked(op: Op, message: string, node: NodeLane): void {
    const redirect = parseRedirect(message);
    const address = redirect === null ? null : this.#dial(redirect.address, node);
    const index = address === null ? -1 : this.topology.intern(address);
    const target = index === -1 ? null : this.nodeAt(index);
    if (target === null || op.attempts >= this.config.maxRedirections) {
      this.#surface(op, message, node);
      return;
    }
    this.#counts.asked += 1;
    if (!target.accepts(2)) {
      this.#retryLater(op, message, node, "wait");
      return;
    }
    op.attempts += 1;
    this.#counts.retries += 1;
    const { head } = op;
    op.head |= FLAG_ASKING << HEAD_FLAGS_SHIFT;
    target.send([op], true);
    op.head = head;
  }

  #evalOnce(op: Op, message: string, node: NodeLane): void {
    if (op.script === null || (op.head & 0xff) !== Opcode.EVALSHA) {
      this.#surface(op, message, node);
      return;
    }
    this.#counts.retries += 1;
    // The refused call did not run; EVAL runs it and loads the script, so the next call is one EVALSHA again.
    const again = new Op(
      headOf(Opcode.GENERIC, op.key === null ? 0x7fff : 3, op.isRead),
      "EVAL",
      [op.script, ...op.rest!],
      op.settle,
      op.shape,
      op.deadline,
      op.flags,
    );
    again.attempts = op.attempts + 1;
    op.state = SETTLED;
    this.#enqueue(again);
  }

  #retryLater(op: Op, message: string, node: NodeLane, action: "wait" | "refresh" | "primary"): void {
    if (action === "refresh") this.#refresher.request();
    if (action === "primary" && node.replica) {
      op.head &= ~(FLAG_READ << HEAD_FLAGS_SHIFT);
      this.#again(op);
      return;
    }
    const refusal = replyError(message, this.#context(op, node));
    const key = op.key;
    if (key === null) this.failed(op, refusal);
    else this.#delay(op, native.slot(key), node, refusal);
  }

  /** Holds the slot back until the operation may be tried again, or gives the refusal when the deadline comes first. */
  #delay(op: Op, slot: number, node: NodeLane | null, refusal: KeylaneError): void {
    const now = performance.now();
    const pause = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** Math.min(op.attempts, 8)) * (0.5 + Math.random() / 2);
    if (now + pause >= op.deadline) {
      this.failed(op, refusal);
      return;
    }
    op.attempts += 1;
    op.refusal = refusal;
    op.state = QUEUED;
    this.#counts.retries += 1;
    this.#holds.addDelayed(slot, op, node, now + pause);
  }

  #surface(op: Op, message: string, node: NodeLane): void {
    this.failed(op, replyError(message, this.#context(op, node)));
  }

  /** The address of a redirect as this client must dial it; null (and an error event) when it is not mapped. */
  #dial(address: { host: string; port: number }, node: NodeLane): { host: string; port: number } | null {
    try {
      if (address.host !== "") return mapAddress(address, this.config.natMap, this.config.domain);
      return { host: node.name.slice(0, node.name.lastIndexOf(":")), port: address.port };
    } catch (error) {
      this.#listener.error(error as KeylaneError);
      return null;
    }
  }

  #releaseHolds(now: number): void {
    this.#resend(this.#holds.release(now));
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
    this.#counts.timeouts += 1;
    if (op.refusal !== null && op.state === QUEUED) {
      this.failed(op, op.refusal);
      return;
    }
    const sent = op.state === SENT;
    const why = !sent && node?.lastError ? `; ${node.name}: ${node.lastError.message}` : "";
    const what = sent ? "no reply came" : "it could not be sent";
    this.failed(
      op,
      this.#error("KEYLANE_ERR_TIMEOUT", `${what} before the deadline${why}`, op, node, sent ? null : node?.lastError),
    );
  }

  #watch(op: Op, signal: AbortSignal): void {
    const abort = (): void => {
      if (op.state === SETTLED) return;
      if (!counted) {
        counted = true;
        this.#outstanding += 1;
      }
      this.failed(op, this.#error("KEYLANE_ERR_ABORTED", "the caller aborted", op, undefined, signal.reason));
    };
    let counted = false;
    const { settle } = op;
    op.settle = (value) => {
      signal.removeEventListener("abort", abort);
      settle(value);
    };
    if (signal.aborted) {
      abort();
      return;
    }
    counted = true;
    signal.addEventListener("abort", abort, { once: true });
  }

  #trace(op: Op): void {
    const { settle } = op;
    const began = performance.now();
    const { command } = op;
    const { domain } = this.config;
    op.settle = (value) => {
      settle(value);
      const publish = (error: KeylaneErrorCode | null): void =>
        commandChannel.publish({ domain, command, durationMs: performance.now() - began, error });
      if (value instanceof Promise) value.catch((error: KeylaneError) => publish(error.code));
      else publish(null);
    };
  }

  // ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Follows the shared topology: dials new nodes, lets go of removed ones, and places their waiting operations anew. */
  #sync(): void {
    this.#seenVersion = this.topology.version;
    const waiting: Op[] = [];
    for (const view of this.topology.nodes()) {
      const node = this.nodes[view.index];
      if (node?.generation === view.generation && node.replica !== view.replica) this.#retire(node);
      if (!view.replica || this.config.scaleReads !== "master") this.nodeAt(view.index);
    }
    for (const node of this.nodes) {
      if (node === undefined) continue;
      const view = this.topology.node(node.index);
      if (node.state !== "ready" && node.waiting.length > 0) waiting.push(...node.waiting.splice(0));
      if (view === null || view.generation !== node.generation) this.#retire(node);
    }
    this.notifyTopology();
    if (waiting.length > 0) for (const op of waiting) if (op.state !== SETTLED) this.#enqueue(op);
  }

  #retire(node: NodeLane): void {
    const waiting = node.waiting.splice(0);
    if (this.nodes[node.index] === node) this.nodes[node.index] = undefined;
    node.close();
    for (const op of waiting) if (op.state !== SETTLED) this.#enqueue(op);
  }

  /** Chooses, for this turn, which node answers the reads of each primary. */
  #rotate(): void {
    const { scaleReads } = this.config;
    this.#rotation += 1;
    const choices = new Map<number, NodeLane[]>();
    for (const node of this.nodes) {
      if (node === undefined) continue;
      this.#alias[node.index] = node.index;
      if (!node.replica || node.state !== "ready") continue;
      const view = this.topology.node(node.index);
      if (view === null || view.primary < 0) continue;
      const list = choices.get(view.primary) ?? [];
      list.push(node);
      choices.set(view.primary, list);
    }
    for (const [primary, replicas] of choices) {
      const all = scaleReads === "all" && this.nodes[primary]?.state === "ready";
      const count = replicas.length + (all ? 1 : 0);
      const pick = this.#rotation % count;
      this.#alias[primary] = pick === replicas.length ? primary : replicas[pick]!.index;
    }
  }

  // ── small ────────────────────────────────────────────────────────────────────────────────────────────────────────

  #oversize(op: Op): KeylaneError | null {
    const { maxKeyBytes } = this.config;
    const count = op.rest === null ? 1 : op.rest.length + 1;
    if (count > MAX_ARGS) {
      return this.#error("KEYLANE_ERR_TOO_LARGE", `${count} arguments; the protocol's limit is ${MAX_ARGS}`, op);
    }
    const key = op.key;
    if (key !== null && bytesOver(key, maxKeyBytes)) {
      return this.#error("KEYLANE_ERR_TOO_LARGE", `the key is longer than ${maxKeyBytes} bytes`, op);
    }
    if (op.rest === null || op.weight * 3 <= this.#maxBulk) return null;
    for (const arg of op.rest) {
      if (bytesOver(arg, this.#maxBulk)) {
        return this.#error("KEYLANE_ERR_TOO_LARGE", `an argument is longer than ${this.#maxBulk} bytes`, op);
      }
    }
    if (op.weight > MAX_COMMAND_BYTES) {
      return this.#error("KEYLANE_ERR_TOO_LARGE", `the command is longer than ${MAX_COMMAND_BYTES} bytes`, op);
    }
    return null;
  }

  #context(op: Op, node?: NodeLane | null): ErrorContext {
    const key = op.key;
    return {
      command: op.command,
      domain: this.config.domain,
      slot: key === null ? undefined : native.slot(key),
      node: node?.name,
    };
  }

  #error(code: KeylaneErrorCode, message: string, op: Op, node?: NodeLane | null, cause?: unknown): KeylaneError {
    return new KeylaneError(code, `${op.command}: ${message}`, {
      ...this.#context(op, node),
      outcome: op.state === SENT ? "unknown" : "not-sent",
      ...(cause === undefined || cause === null ? {} : { cause }),
    });
  }

  #nodeStats(node: NodeLane): NodeStats {
    return {
      node: node.name,
      role: node.replica ? "replica" : "primary",
      state: node.state === "closed" ? "down" : node.state,
      slots: this.topology.slotCount(node.index),
      inFlight: node.inFlight,
      waiting: node.waiting.length,
    };
  }

  #notifyIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** `Op.flags`: keylane's own, judged by nobody else. */
const OP_INTERNAL = 1;
/** Arguments of one command that a server accepts, the name included. */
const MAX_ARGS = 1_048_575;
/** Bytes of one command that a server's query buffer takes (its limit is 1 GiB). */
const MAX_COMMAND_BYTES = 1_000_000_000;

function bytesOver(arg: WireArg, limit: number): boolean {
  if (typeof arg !== "string") return arg.length > limit;
  return arg.length > limit || (arg.length * 3 > limit && Buffer.byteLength(arg) > limit);
}

export type { NodeView };
