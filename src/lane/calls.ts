/**
 * What a lane is called for, as operations: each call makes one, or two where a value is asked for together with its life, and hands
 * it over to be accepted. The invariant: a call makes nothing but its operation and the caller's promise.
 */
import { Opcode } from "../native/types.js";
import type { LaneConfig } from "./config.js";
import type { CallLimits, LoadShapes } from "./contract.js";
import { HEAD_GET, HEAD_UNCOUNTED, OP_OWN, Op, headOf } from "./op.js";
import type { AskingOp, Block, Settle, WireArg } from "./op.js";
import { uncounting } from "./own.js";
import type { CallCounts } from "./own.js";
import type { Shape, ValueShape } from "./replies.js";
import { HEAD_TRANSACTION } from "./transaction.js";
import { deadlineIn } from "./turn.js";

const NO_LIMITS: CallLimits = {};

let grabbed: Settle = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Settle): void => {
  grabbed = resolve;
};

const HEAD_PTTL = headOf(Opcode.PTTL, 0, true) | HEAD_UNCOUNTED;
/** Settles an operation whose result nobody waits for. */
const ignore: Settle = (value) => {
  if (value instanceof Promise) value.catch(() => {});
};

export abstract class LaneCalls {
  abstract readonly config: LaneConfig;
  abstract readonly valueShape: ValueShape;
  abstract readonly counts: CallCounts;
  /** Of the operations taken and not settled, keylane's own. */
  protected ownOutstanding = 0;

  /** Takes an operation. */
  protected abstract accept(op: Op): void;

  /** As `accept`, for what may be too large, or watched by a signal. */
  protected abstract begin(op: Op, signal: AbortSignal | undefined): void;

  /** The hot path: one GET. */
  get(key: WireArg): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    this.accept(new Op(HEAD_GET, key, null, grabbed, this.valueShape, deadlineIn(this.config.commandTimeoutMs), 0));
    return promise;
  }

  /** Any other command. A null shape reads a value by the domain's codec; `script` is the source of an EVALSHA. */
  call(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    limits: CallLimits = NO_LIMITS,
    script: string | null = null,
  ): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const op = new Op(head, first, rest, grabbed, shape ?? this.valueShape, this.deadline(limits), 0);
    op.script = script;
    this.begin(op, limits.signal);
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
    const settle = uncounting(this.counts, stands, grabbed, () => {
      this.ownOutstanding -= 1;
    });
    const deadline = this.deadline(limits);
    const op = new Op(head | HEAD_UNCOUNTED, first, rest, settle, shape ?? this.valueShape, deadline, OP_OWN);
    this.ownOutstanding += 1;
    this.begin(op, limits.signal);
    return promise;
  }

  ask(op: AskingOp, limits: CallLimits): void {
    op.deadline = this.deadline(limits);
    this.begin(op, limits.signal);
  }

  /** The life is asked for first, in the same run of frames, so that `value` can rely on it. */
  load({ key, life, value, counted }: LoadShapes, limits: CallLimits, settle: Settle): void {
    const head = counted ? HEAD_GET : HEAD_GET | HEAD_UNCOUNTED;
    this.submitLoad(new Op(head, key, null, settle, value, this.deadline(limits), 0), life, limits.signal);
  }

  /** A whole transaction; see `transaction.ts`. */
  transact(key: WireArg, frames: WireArg, shape: Shape, block: Block, limits: CallLimits): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const op = new Op(HEAD_TRANSACTION, key, [frames], grabbed, shape, this.deadline(limits), 0);
    op.block = block;
    this.begin(op, limits.signal);
    return promise;
  }

  /** Takes an operation made elsewhere: its deadline is set, and it settles by its own `settle`. */
  submit(op: Op, signal: AbortSignal | undefined): void {
    this.begin(op, signal);
  }

  /** As `submit`, for the GET of a load; `life` reads the reply of the PTTL before it. */
  submitLoad(op: Op, life: Shape, signal: AbortSignal | undefined): void {
    this.begin(new Op(HEAD_PTTL, op.first, null, ignore, life, op.deadline, 0), undefined);
    this.begin(op, signal);
  }

  protected deadline(limits: CallLimits): number {
    return deadlineIn(limits.timeoutMs ?? this.config.commandTimeoutMs);
  }
}
