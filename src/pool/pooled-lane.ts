/**
 * A domain's lane whose connections live in worker threads. It takes calls, keeps their deadlines, and settles each exactly
 * once: by the worker's answer, by its own clock, or because the worker died. What was sent is retried at most once, and only
 * if it reads.
 */
import { commandChannel } from "../diagnostics.js";
import { KeylaneError } from "../errors.js";
import type { KeylaneErrorCode } from "../errors.js";
import { blockTimeMs } from "../lane/blocking.js";
import { CODECS } from "../lane/codec.js";
import type { Codec } from "../lane/codec.js";
import type { LaneConfig } from "../lane/config.js";
import type { CallLimits, Fetch, Fetcher, Lane, LoadShapes, WriteGate } from "../lane/contract.js";
import { SHORT_KEY, oversize } from "../lane/limits.js";
import { HEAD_GET, HEAD_UNCOUNTED, OP_OWN, QUEUED, SENT, SETTLED, headOf, settleAsking } from "../lane/op.js";
import type { AskingOp, Block, Settle, WireArg } from "../lane/op.js";
import { uncounting } from "../lane/own.js";
import { BUFFER_SHAPE, RAW_SHAPE, ValueShape } from "../lane/replies.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import { HEAD_TRANSACTION } from "../lane/transaction.js";
import { NEVER, deadlineIn } from "../lane/turn.js";
import { traceCommand, watchSignal } from "../lane/watch.js";
import { native } from "../native/index.js";
import { KEY_NONE, Opcode } from "../native/types.js";
import type { Topology } from "../routing/topology.js";
import type { CommandOptions, DomainStats, Reply } from "../types.js";
import type { Board } from "./board.js";
import { PooledOp } from "./pooled-op.js";
import { KEPT_WORDS, OpKind, expectationOf } from "./protocol.js";

const NO_LIMITS: CallLimits = {};
const HEAD_BLOCK = headOf(Opcode.GENERIC, KEY_NONE, false);

let grabbed: Settle = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Settle): void => {
  grabbed = resolve;
};

/** Where operations go. */
export interface OpTaker {
  readonly board: Board;
  add(op: PooledOp): void;
  /** A plain GET: a text key, the domain's deadline, nobody watches it. */
  get(lane: PooledLane, key: string, settle: Settle): void;
  /** The same of a GET that missed the cache. */
  fetch(lane: PooledLane, fetch: Fetch): void;
  /** A sent operation needs no answer any more. */
  cancel(op: PooledOp): void;
  /** Removes everything of a lane that is not settled. */
  clear(lane: PooledLane): PooledOp[];
  /** Workers lost so far. */
  losses(): number;
  /** Operations were settled while they waited. */
  dropped(): void;
}

export class PooledLane implements Lane, Fetcher {
  readonly config: LaneConfig;
  readonly codec: Codec;
  readonly valueShape: ValueShape;
  readonly topology: Topology;
  gate: WriteGate | null = null;
  readonly fetcher: Fetcher = this;
  readonly #taker: OpTaker;
  readonly #counts = { commands: 0, succeeded: 0, failed: 0, timeouts: 0, overloaded: 0 };
  #state: "open" | "closing" | "closed" = "open";
  /** Operations taken and not settled; of these, keylane's own. */
  #outstanding = 0;
  #own = 0;
  #idle: (() => void)[] = [];

  constructor(config: LaneConfig, topology: Topology, taker: OpTaker) {
    this.config = config;
    this.topology = topology;
    this.codec = CODECS[config.codec];
    this.valueShape = new ValueShape(this.codec);
    this.#taker = taker;
  }

  // ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

  get(key: WireArg): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    if (typeof key === "string" && this.#state === "open" && !commandChannel.hasSubscribers) {
      this.#outstanding += 1;
      this.#counts.commands += 1;
      this.#taker.get(this, key, grabbed);
    } else this.#accept(PooledOp.ofGet(this, key, grabbed, deadlineIn(this.config.commandTimeoutMs)));
    return promise;
  }

  call(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    limits: CallLimits = NO_LIMITS,
    script: string | null = null,
  ): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const read = shape ?? this.valueShape;
    const deadline = this.#deadline(limits);
    const op = new PooledOp(this, OpKind.CALL, expectationOf(read), head, first, rest, grabbed, read, deadline);
    op.script = script;
    this.#begin(op, limits.signal);
    return promise;
  }

  own(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    limits: CallLimits,
    stands: boolean,
  ): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const settle = uncounting(this.#counts, stands, grabbed, () => {
      this.#own -= 1;
    });
    const read = shape ?? this.valueShape;
    const kind = expectationOf(read);
    const deadline = this.#deadline(limits);
    const op = new PooledOp(this, OpKind.CALL, kind, head | HEAD_UNCOUNTED, first, rest, settle, read, deadline);
    op.flags |= OP_OWN;
    this.#own += 1;
    this.#begin(op, limits.signal);
    return promise;
  }

  ask(asking: AskingOp, limits: CallLimits): void {
    const deadline = this.#deadline(limits);
    asking.expand();
    const { head, first, rest, script } = asking;
    const op = new PooledOp(
      this,
      OpKind.CALL,
      expectationOf(asking),
      head,
      first,
      rest,
      settleAsking,
      asking,
      deadline,
    );
    op.script = script;
    this.#begin(op, limits.signal);
  }

  fetch(fetch: Fetch): void {
    if (this.#state === "open" && !commandChannel.hasSubscribers) {
      this.#outstanding += 1;
      this.#counts.commands += 1;
      this.#taker.fetch(this, fetch);
    } else this.#accept(PooledOp.ofFetch(this, fetch, deadlineIn(this.config.commandTimeoutMs)));
  }

  load({ key, fetched, counted }: LoadShapes, limits: CallLimits, settle: Settle): void {
    const deadline = this.#deadline(limits);
    const head = counted ? HEAD_GET : HEAD_GET | HEAD_UNCOUNTED;
    const op = new PooledOp(this, OpKind.LOAD, 0, head, key, null, settle, fetched, deadline);
    if (limits.signal === undefined && key.length <= SHORT_KEY) this.#accept(op);
    else this.#begin(op, limits.signal);
  }

  transact(key: WireArg, frames: WireArg, shape: Shape, block: Block, limits: CallLimits): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const commands = block.stand.length - 1;
    const deadline = this.#deadline(limits);
    this.#begin(
      new PooledOp(this, OpKind.TRANSACTION, commands, HEAD_TRANSACTION, key, [frames], grabbed, shape, deadline),
      limits.signal,
    );
    return promise;
  }

  block(name: string, args: readonly WireArg[], slot: number, options: CommandOptions): Promise<Reply> {
    const promise = new Promise<unknown>(executor);
    const asked = blockTimeMs(name, args);
    const withinMs = options.timeoutMs ?? (asked === 0 ? null : (asked ?? 0) + this.config.commandTimeoutMs);
    const deadline = withinMs === null ? NEVER : deadlineIn(withinMs);
    const shape = options.buffers === true ? BUFFER_SHAPE : RAW_SHAPE;
    this.#begin(
      new PooledOp(this, OpKind.BLOCK, slot, HEAD_BLOCK, name, args, grabbed, shape, deadline),
      options.signal,
    );
    return promise as Promise<Reply>;
  }

  // ── what becomes of them ─────────────────────────────────────────────────────────────────────────────────────────

  /** The value of a plain GET. */
  gotten(settle: Settle, value: unknown): void {
    this.#counts.succeeded += 1;
    this.#outstanding -= 1;
    settle(value);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  /** What became of a plain GET that missed the cache: three words and the value, at the cursor. */
  fetched(fetch: Fetch, rows: ReplyRows): void {
    const { table, at } = rows;
    rows.at = at + KEPT_WORDS;
    const value = this.valueShape.read(rows);
    this.#counts.succeeded += 1;
    this.#outstanding -= 1;
    fetch.land(value, table[at]!, table[at + 1]!, table[at + 2]!);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  answered(op: PooledOp, value: unknown): void {
    op.state = SETTLED;
    if (op.kind !== OpKind.BLOCK) {
      this.#counts.succeeded += 1;
      this.#outstanding -= 1;
    }
    const { gate } = this;
    if (gate === null || !gate.active || op.isRead || !gate.holds(op, value)) op.settle(value);
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  /** Settles by an error, of a worker or of this thread. */
  failed(op: PooledOp, given: KeylaneError): void {
    if (op.state === SETTLED) return;
    const told = op.aborted !== null && given.code === "KEYLANE_ERR_ABORTED";
    const error = told ? new KeylaneError(given.code, given.message, { ...given, cause: op.aborted!.reason }) : given;
    if (op.state === QUEUED) this.#taker.dropped();
    op.state = SETTLED;
    if (op.kind !== OpKind.BLOCK) this.#countFailed(op, error.code);
    const { gate } = this;
    if (gate === null || !gate.active || op.isRead || !gate.failed(op, error)) op.settle(Promise.reject(error));
    if (this.#outstanding === 0 && this.#idle.length > 0) this.#notifyIdle();
  }

  undecodable(op: PooledOp, cause: Error): void {
    const context = { cause, command: op.command, domain: this.config.domain } as const;
    if (cause instanceof KeylaneError)
      this.failed(op, new KeylaneError(cause.code, `${op.command}: ${cause.message}`, context));
    else {
      const message = `the reply cannot be decoded: ${cause.message}`;
      this.failed(op, new KeylaneError("KEYLANE_ERR_CODEC", message, { ...context, outcome: "unknown" }));
    }
  }

  expired(op: PooledOp, why = "it could not be sent before the deadline"): void {
    if (op.aborted !== null) {
      this.#fail(op, "KEYLANE_ERR_ABORTED", "the caller aborted", op.aborted.reason);
      return;
    }
    const message = op.state === SENT ? "no reply came before the deadline" : why;
    this.#fail(op, "KEYLANE_ERR_TIMEOUT", message);
  }

  overloaded(op: PooledOp): void {
    this.#fail(op, "KEYLANE_ERR_OVERLOADED", "the queue of the worker is full");
  }

  /** The worker that had it died, or none will come to take it. */
  lost(op: PooledOp, reason: string): void {
    if (op.attempts > 0) op.state = SENT;
    if (op.aborted !== null) this.expired(op);
    else this.#fail(op, "KEYLANE_ERR_WORKER_LOST", `the worker thread ended: ${reason}`);
  }

  // ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  drained(): Promise<void> {
    if (this.#state === "open") this.#state = "closing";
    if (this.#outstanding === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  destroy(): number {
    if (this.#state === "closed") return 0;
    this.#state = "closed";
    const left = this.#taker.clear(this);
    for (const op of left) this.#fail(op, "KEYLANE_ERR_CLOSED", "keylane was closed");
    return left.length;
  }

  /** A worker's end counts too. */
  reconnects(): number {
    return this.#taker.board.counts(this.config.index).reconnects + this.#taker.losses();
  }

  stats(): DomainStats {
    const { board } = this.#taker;
    const { index } = this.config;
    return {
      ...this.#counts,
      ...board.counts(index),
      refreshes: this.topology.refreshes,
      pending: this.#outstanding - this.#own,
      nodes: board.nodes(index, this.topology),
    };
  }

  // ── own ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  #deadline(limits: CallLimits): number {
    return deadlineIn(limits.timeoutMs ?? this.config.commandTimeoutMs);
  }

  #begin(op: PooledOp, signal: AbortSignal | undefined): void {
    const fault = oversize(op, this.config.maxKeyBytes, this.config.maxValueBytes);
    if (fault !== null) this.#refuse(op, "KEYLANE_ERR_TOO_LARGE", fault);
    else if (signal?.aborted === true) this.#refuse(op, "KEYLANE_ERR_ABORTED", "the caller aborted", signal.reason);
    else {
      if (signal !== undefined) {
        op.cancellable = true;
        watchSignal(op, signal, (reason) => this.#abort(op, reason));
      }
      this.#accept(op);
    }
  }

  #accept(op: PooledOp): void {
    this.#countTaken(op);
    if (this.#state !== "open") {
      this.#fail(op, "KEYLANE_ERR_CLOSED", "keylane is closed");
      return;
    }
    if (commandChannel.hasSubscribers) traceCommand(op, this.config.domain);
    this.#taker.add(op);
  }

  #refuse(op: PooledOp, code: KeylaneErrorCode, message: string, cause?: unknown): void {
    this.#countTaken(op);
    this.#fail(op, code, message, cause);
  }

  /** The worker of a sent operation knows whether a server got it, and is asked; if it cannot tell soon, that is unknown. */
  #abort(op: PooledOp, reason: unknown): void {
    if (op.state !== SENT) {
      this.#fail(op, "KEYLANE_ERR_ABORTED", "the caller aborted", reason);
      return;
    }
    op.aborted = { reason };
    op.deadline = Math.floor(performance.now());
    this.#taker.cancel(op);
  }

  #fail(op: PooledOp, code: KeylaneErrorCode, message: string, cause?: unknown): void {
    if (op.state === SETTLED) return;
    const { key, command } = op;
    const error = new KeylaneError(code, `${command}: ${message}`, {
      command,
      domain: this.config.domain,
      slot: key === null ? undefined : native.slot(key),
      outcome: op.state === SENT ? "unknown" : "not-sent",
      ...(cause === undefined ? {} : { cause }),
    });
    this.failed(op, error);
  }

  /** Blocking calls count for nothing, and nobody waits for them to end. */
  #countTaken(op: PooledOp): void {
    if (op.kind === OpKind.BLOCK) return;
    this.#outstanding += 1;
    this.#counts.commands += 1;
  }

  #countFailed({ flags }: PooledOp, code: KeylaneErrorCode): void {
    this.#counts.failed += 1;
    this.#outstanding -= 1;
    if ((flags & OP_OWN) !== 0) return;
    if (code === "KEYLANE_ERR_TIMEOUT") this.#counts.timeouts += 1;
    else if (code === "KEYLANE_ERR_OVERLOADED") this.#counts.overloaded += 1;
  }

  #notifyIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}
