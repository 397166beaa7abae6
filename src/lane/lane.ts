/**
 * The lane of one domain in one thread: takes operations, has them sent (`outbox.ts`), and settles each exactly once — by its
 * value, its error, its deadline, or `destroy`. The invariant: nothing is sent again unless it certainly did not run, reads
 * excepted.
 */
import { commandChannel, connectChannel } from "../diagnostics.js";
import { KeylaneError } from "../errors.js";
import type { ErrorContext, KeylaneErrorCode } from "../errors.js";
import { KEY_NONE, Opcode } from "../native/types.js";
import type { Topology } from "../routing/topology.js";
import type { HitCounts } from "../shared/hit-counts.js";
import type { CommandOptions, DomainStats, Reply } from "../types.js";
import { BlockingLines } from "./blocking.js";
import { RetryBudget } from "./budget.js";
import { LaneCalls } from "./calls.js";
import { ClusterKeeper } from "./cluster-keeper.js";
import { CODECS } from "./codec.js";
import type { Codec } from "./codec.js";
import type { LaneConfig } from "./config.js";
import type { ConnectionHooks, Lane, LaneListener, WriteGate } from "./contract.js";
import { Failures } from "./failures.js";
import { Fleet } from "./fleet.js";
import { Holds } from "./holds.js";
import type { Keeper, KeeperLane } from "./keeper.js";
import { oversize } from "./limits.js";
import { Moves } from "./moves.js";
import type { NodeLane, NodeOwner } from "./node.js";
import { OP_INTERNAL, Op, QUEUED, SETTLED, headOf } from "./op.js";
import type { Settle, Stamper, WireArg } from "./op.js";
import { Outbox } from "./outbox.js";
import type { OutboxOwner } from "./outbox.js";
import { Redirector } from "./redirect.js";
import type { Detours } from "./redirect.js";
import { ValueShape } from "./replies.js";
import type { ReplyRows, Shape } from "./replies.js";
import { RingKeeper } from "./ring-keeper.js";
import { SingleKeeper } from "./single-keeper.js";
import { deadlineIn, joinTicks } from "./turn.js";
import { traceCommand, watchSignal } from "./watch.js";

const HEAD_GENERIC = headOf(Opcode.GENERIC, KEY_NONE, false);

export class DomainLane extends LaneCalls implements Lane, NodeOwner, OutboxOwner, Detours, KeeperLane {
  readonly config: LaneConfig;
  readonly codec: Codec;
  readonly valueShape: ValueShape;
  readonly topology: Topology;
  gate: WriteGate | null = null;
  readonly fetcher = null;
  /** Where operations marked so are stamped. */
  stamper: Stamper | null = null;
  readonly fleet: Fleet;
  readonly holds = new Holds();
  /** Where the keys of calls are counted; null when they are not. */
  readonly hits: HitCounts | null;
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
  #hooks: ConnectionHooks | null = null;
  readonly #outbox: Outbox;
  readonly #moves: Moves;
  readonly #keeper: Keeper;
  /** Set for rings: which operations a stand-in server may run. */
  readonly #ring: RingKeeper | null;
  readonly #budget = new RetryBudget();
  readonly #blocking: BlockingLines;
  readonly #redirector: Redirector;
  readonly #failures: Failures;
  #state: "open" | "closing" | "closed" = "open";
  /** Longest argument the nodes accept, in bytes. */
  #maxBulk: number;
  /** Operations taken and not settled. */
  #outstanding = 0;
  #idle: (() => void)[] = [];

  constructor(config: LaneConfig, topology: Topology, listener: LaneListener, hits: HitCounts | null = null) {
    super();
    this.config = config;
    this.hits = hits;
    this.topology = topology;
    this.codec = CODECS[config.codec];
    this.valueShape = new ValueShape(this.codec);
    this.fleet = new Fleet(this, topology, (ops) => void this.#outbox.prepend(ops));
    this.#moves = new Moves(topology, this.fleet, this.holds);
    this.#listener = listener;
    this.#maxBulk = config.maxValueBytes;
    this.#outbox = new Outbox(this);
    this.#ring = config.mode === "ring" ? new RingKeeper(this) : null;
    this.#keeper = this.#ring ?? (config.mode === "cluster" ? new ClusterKeeper(this) : new SingleKeeper(this));
    this.#blocking = new BlockingLines(config, topology);
    this.#redirector = new Redirector(this);
    this.#failures = new Failures(this);
  }

  /** Gives the connections to be made a companion; before `open`. */
  accompany(hooks: ConnectionHooks): void {
    this.#hooks = hooks;
  }

  /** Contacts the servers, reads the topology and dials. Rejects when none can serve before the connect deadline. */
  async open(): Promise<void> {
    await this.#keeper.open();
    this.#moves.look();
  }

  // ── calls ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** A command that blocks: on a connection of its own. Without `timeoutMs` it may take as long as it asked the server. */
  block(name: string, args: readonly WireArg[], slot: number, options: CommandOptions): Promise<Reply> {
    return this.#blocking.call(name, args, slot, options, this.#state === "open");
  }

  /** A command of keylane's own to one node: not retried, not redirected. */
  callNode(node: NodeLane, name: string, args: readonly string[], shape: Shape, timeoutMs: number): Promise<unknown> {
    return new Promise((resolve) => {
      // Counted like any operation while it is under way, and taken out again when it is settled: stats tell calls only.
      const uncount: Settle = (value) => {
        if (value instanceof Promise) this.counts.failed -= 1;
        else this.counts.succeeded -= 1;
        this.ownOutstanding -= 1;
        resolve(value);
      };
      const op = new Op(HEAD_GENERIC, name, args, uncount, shape, deadlineIn(timeoutMs), OP_INTERNAL);
      this.#outstanding += 1;
      this.ownOutstanding += 1;
      joinTicks(this);
      if (node.writable) node.send([op], false);
      else this.#failures.fail(op, "KEYLANE_ERR_CONNECT", `node ${node.name} is not connected`, node);
    });
  }

  // ── the turn ─────────────────────────────────────────────────────────────────────────────────────────────────────

  flush(): void {
    this.#outbox.flush();
  }

  sweep(now: number): boolean {
    const expired = (op: Op, node?: NodeLane): void => this.expired(op, node);
    // Reads that a silent replica owes can still be asked of its primary.
    const { silenceTimeoutMs, commandTimeoutMs } = this.config;
    this.fleet.sweep();
    for (const node of this.fleet.all()) {
      node.sweep(now, expired);
      if (node.silentFor(now, node.replica ? Math.min(silenceTimeoutMs, commandTimeoutMs / 2) : silenceTimeoutMs)) {
        node.reset(new KeylaneError("KEYLANE_ERR_TIMEOUT", `node ${node.name} takes bytes and sends none`));
      }
    }
    if (this.holds.active) {
      this.holds.sweep(now, (op, refusal) => this.expired(op, undefined, refusal));
      this.#release(now);
    }
    if (this.fleet.behind) this.follow();
    // What a node owes to nobody any more still tells whether it is alive.
    return this.#outstanding > 0 || this.fleet.owing;
  }

  follow(): void {
    this.#moves.look();
    this.fleet.follow();
    if (this.holds.active) {
      this.holds.housed((slot) => this.topology.nodeOf(slot));
      this.#release(performance.now());
    }
    this.#listener.topology(this.config.domain, this.topology.version);
  }

  expired(op: Op, node?: NodeLane, heldBy: KeylaneError | null = null): void {
    this.#failures.expired(op, node, heldBy);
  }

  overloaded(op: Op, node: NodeLane | null): void {
    this.#failures.overloaded(op, node);
  }

  homeless(op: Op, slot: number | null): void {
    if (slot === null) {
      this.#failures.fail(op, "KEYLANE_ERR_NO_NODE", "no node is connected");
      return;
    }
    this.#keeper.request();
    const fault = this.#keeper.faultOf(slot);
    if (fault !== null) {
      this.#failures.fail(op, fault.code, fault.message, null, fault);
      return;
    }
    const message = `no node of domain ${this.config.domain} serves slot ${slot}`;
    this.#redirector.delay(op, slot, null, this.#failures.error("KEYLANE_ERR_NO_NODE", message, op));
  }

  get restricted(): boolean {
    return this.#ring !== null && this.#ring.ejecting;
  }

  /** Settles an operation that is not sent, as if it had never been taken. */
  withdraw(op: Op, value: unknown): void {
    op.state = SETTLED;
    this.counts.commands -= 1;
    this.#outstanding -= 1;
    op.settle(value);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  screen(ops: Op[]): void {
    let kept = 0;
    for (const op of ops) {
      const refusal = this.#ring!.refusal(op);
      if (refusal === null) ops[kept++] = op;
      else this.#failures.fail(op, "KEYLANE_ERR_NO_NODE", refusal);
    }
    ops.length = kept;
  }

  // ── what nodes report ────────────────────────────────────────────────────────────────────────────────────────────

  answered(op: Op, value: unknown): void {
    op.state = SETTLED;
    this.counts.succeeded += 1;
    this.#outstanding -= 1;
    const { gate } = this;
    if (gate === null || !gate.active || op.isRead || !gate.holds(op, value)) op.settle(value);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  failed(op: Op, error: KeylaneError): void {
    if (op.state === SETTLED) return;
    if (op.state === QUEUED) this.#outbox.dropped = true;
    op.state = SETTLED;
    this.counts.failed += 1;
    this.#outstanding -= 1;
    const { gate } = this;
    if (gate === null || !gate.active || op.isRead || !gate.failed(op, error)) op.settle(Promise.reject(error));
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  refused(op: Op, message: string, node: NodeLane): void {
    this.#redirector.refused(op, message, node);
  }

  lost(op: Op, node: NodeLane): void {
    const retry = op.isRead && (op.flags & OP_INTERNAL) === 0 && op.attempts < this.config.maxRedirections;
    if (retry && this.#state !== "closed" && this.mayRetry(performance.now())) {
      this.#redirector.askAgain(op, node);
      return;
    }
    this.#failures.lost(op, node);
  }

  doubted(op: Op): void {
    this.#redirector.toPrimary(op);
  }

  pushed(node: NodeLane, rows: ReplyRows): void {
    this.#hooks?.pushed(node, rows);
  }

  async prepare(node: NodeLane): Promise<void> {
    await this.#hooks?.prepare(node);
  }

  unfed(feeder: number): void {
    this.#hooks?.unfed(feeder);
  }

  progressed(_node: NodeLane): void {
    if (this.holds.active) this.#release(performance.now());
  }

  up(node: NodeLane): void {
    const { domain } = this.config;
    this.#maxBulk = Math.min(this.#maxBulk, node.maxBulk);
    this.#listener.nodeUp(domain, node.name);
    const state = "ready";
    if (connectChannel.hasSubscribers) connectChannel.publish({ domain, node: node.name, state, reason: null });
    this.#keeper.changed(node);
    this.#outbox.resend(node.waiting.splice(0));
  }

  down(node: NodeLane, reason: string): void {
    const { domain } = this.config;
    node.linked = false;
    this.#listener.nodeDown(domain, node.name, reason);
    if (connectChannel.hasSubscribers) connectChannel.publish({ domain, node: node.name, state: "down", reason });
    this.#keeper.changed(node);
    // Reads that were about to go to a replica need not wait until it is back.
    if (node.replica && node.waiting.length > 0) this.#outbox.resend(node.waiting.splice(0));
    if (this.#state === "open" && node.state !== "closed") this.#keeper.request();
  }

  // ── what detours and keepers need ────────────────────────────────────────────────────────────────────────────────

  enqueue(op: Op): void {
    this.#outbox.add(op);
  }

  offer(index: number, ops: Op[]): void {
    this.#outbox.offer(index, ops);
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

  tell(error: KeylaneError): void {
    this.#keeper.tell(error);
  }

  notifyError(error: KeylaneError): void {
    this.#listener.error(error);
  }

  contextOf(op: Op, node: NodeLane | null): ErrorContext {
    return this.#failures.contextOf(op, node);
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
    const unsent = [...this.#outbox.clear(), ...this.holds.clear()];
    for (const node of this.fleet.all()) unsent.push(...node.waiting.splice(0));
    for (const op of unsent) this.#failures.fail(op, "KEYLANE_ERR_CLOSED", "keylane was closed");
    this.fleet.close();
    this.#blocking.close();
    return this.counts.failed - before;
  }

  reconnects(): number {
    return this.fleet.traffic().reconnects;
  }

  stats(): DomainStats {
    return {
      ...this.counts,
      ...this.fleet.traffic(),
      refreshes: this.topology.refreshes,
      pending: this.#outstanding - this.ownOutstanding,
      nodes: this.fleet.stats(),
    };
  }

  // ── own ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Checks an operation and accepts it. */
  protected begin(op: Op, signal: AbortSignal | undefined): void {
    const fault = oversize(op, this.config.maxKeyBytes, this.#maxBulk);
    if (fault !== null) this.#refuse(op, "KEYLANE_ERR_TOO_LARGE", fault);
    else if (signal?.aborted === true) this.#refuse(op, "KEYLANE_ERR_ABORTED", "the caller aborted", signal.reason);
    else {
      if (signal !== undefined) {
        watchSignal(op, signal, (reason) =>
          this.#failures.fail(op, "KEYLANE_ERR_ABORTED", "the caller aborted", null, reason),
        );
      }
      this.accept(op);
    }
  }

  protected accept(op: Op): void {
    this.#outstanding += 1;
    this.counts.commands += 1;
    if (this.#state !== "open") {
      this.#failures.fail(op, "KEYLANE_ERR_CLOSED", "keylane is closed");
      return;
    }
    if (commandChannel.hasSubscribers) traceCommand(op, this.config.domain);
    this.#outbox.add(op);
  }

  /** Settles an operation that was never accepted. */
  #refuse(op: Op, code: KeylaneErrorCode, message: string, cause?: unknown): void {
    this.#outstanding += 1;
    this.counts.commands += 1;
    this.#failures.fail(op, code, message, null, cause);
  }

  /** Sends what is held back no longer. */
  #release(now: number): void {
    const { free, probes } = this.holds.release(now);
    this.#outbox.resend(free);
    const byNode = new Map<number, Op[]>();
    for (const { slot, op } of probes) {
      const index = this.topology.nodeOf(slot);
      const ops = byNode.get(index);
      if (ops === undefined) byNode.set(index, [op]);
      else ops.push(op);
    }
    for (const [index, ops] of byNode) this.#outbox.offer(index, ops);
  }

  #notifyIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}
