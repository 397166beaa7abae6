/**
 * One command on its way: what to send, who waits, until when. An `Op` is created by the call, referenced by exactly one
 * queue at a time (pending turn, a node's ring, a node's waiting list, a slot's hold) and settled exactly once; whatever
 * still refers to it after that drops it when it comes by.
 */
import { FLAG_READ, FLAG_UNCOUNTED, HEAD_FLAGS_SHIFT, HEAD_KEY_SHIFT, KEY_NONE, Opcode } from "../native/types.js";
import type { KeylaneError } from "../errors.js";
import type { Asking, Shape } from "./replies.js";

/** An argument as it goes on the wire. */
export type WireArg = string | Uint8Array;

/** Resolves the caller's promise; an error is passed as a rejected promise, so one function is enough. */
export type Settle = (value: unknown) => void;

/** `head` word of an operation (see `native/types.ts`). */
export function headOf(opcode: number, keyIndex: number, read: boolean): number {
  return opcode | ((read ? FLAG_READ : 0) << HEAD_FLAGS_SHIFT) | (keyIndex << HEAD_KEY_SHIFT);
}

/** Whether an operation with this head only reads. */
export function isRead(head: number): boolean {
  return ((head >> HEAD_FLAGS_SHIFT) & FLAG_READ) !== 0;
}

export const HEAD_GET = headOf(Opcode.GET, 0, true);

/** Added to the head of what is no caller's operation on its key, and by the lane to what it has counted. */
export const HEAD_UNCOUNTED = FLAG_UNCOUNTED << HEAD_FLAGS_SHIFT;

/** `Op.state`: not written yet. */
export const QUEUED = 0;
/** `Op.state`: bytes handed to a socket; the server may execute it. */
export const SENT = 1;
/** `Op.state`: the caller has an answer. */
export const SETTLED = 2;

/** `Op.flags`: keylane's own request to one node; refusals go back as they are. */
export const OP_INTERNAL = 1;
/** `Op.flags`: stands in the ring for the reply of MULTI. */
export const OP_MULTI = 2;
/** `Op.flags`: stands in the ring for the reply of a command inside MULTI. */
export const OP_QUEUED = 4;
/** `Op.flags`: an operation of keylane's own that goes the way of callers'; it is in no count of those. */
export const OP_OWN = 16;

/** `Op.flags`: later operations of its slot waited for its answer. */
export const OP_PROBE = 32;

const NAMES: readonly string[] = Object.keys(Opcode);

/** `Op.flags`: what its key tells is to be noted before it is sent (see `Stamper`). */
export const OP_STAMP = 8;

/** The arguments of operations that differ in a part of their key alone: written once where they follow each other. */
export class Template {
  /** Where the key goes. */
  readonly keyAt: number;
  /** All arguments; empty at `keyAt`. */
  readonly args: readonly string[];
  /** What stands in every key before its part, and behind it. */
  readonly head: string;
  readonly tail: string;
  /** Between the parts of two keys that follow each other. */
  readonly between: string;
  /** Bytes of the arguments without the part, near enough for a bound. */
  readonly weight: number;

  constructor(keyAt: number, args: readonly string[], head: string, tail: string) {
    this.keyAt = keyAt;
    this.args = args;
    this.head = head;
    this.tail = tail;
    this.between = tail + head;
    this.weight = args.reduce((sum, arg) => sum + arg.length, this.between.length);
  }

  keyOf(part: WireArg): string {
    return this.head + (part as string) + this.tail;
  }

  /** The arguments of one operation. */
  with(part: WireArg): string[] {
    const args = [...this.args];
    args[this.keyAt] = this.keyOf(part);
    return args;
  }
}

/** A MULTI … EXEC sent as one operation. Its replies before EXEC's are collected by stand-ins in the ring. */
export interface Block {
  /** Stand-ins for the replies of MULTI and of each queued command, settled from the start. */
  readonly stand: readonly Op[];
  /** The first refusal among those replies, in which case nothing was executed. */
  refusal: string | null;
  /** MULTI itself was refused: the commands ran one by one. */
  broken: boolean;
}

export class Op {
  head: number;
  /** Argument 0: the key of an opcode'd command, the name of a generic one; with a template, the key's part, a string. */
  first: WireArg;
  rest: readonly WireArg[] | null;
  settle: Settle;
  shape: Shape;
  /** Whole milliseconds on the clock of `turn.ts`. */
  deadline: number;
  state = QUEUED;
  /** Times it was redirected or retried. */
  attempts = 0;
  /** A bit set of `OP_*`. */
  flags: number;
  /** The last refusal that made it wait, to be told if the deadline comes first. */
  refusal: KeylaneError | null = null;
  /** Source of the script, for `NOSCRIPT`. */
  script: string | null = null;
  /** The transaction this is the EXEC of: its other replies come first. */
  block: Block | null = null;
  /** All arguments but the key; `rest` is null then. */
  template: Template | null = null;

  constructor(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    settle: Settle,
    shape: Shape,
    deadline: number,
    flags: number,
  ) {
    this.head = head;
    this.first = first;
    this.rest = rest;
    this.settle = settle;
    this.shape = shape;
    this.deadline = deadline;
    this.flags = flags;
  }

  get isRead(): boolean {
    return isRead(this.head);
  }

  /** The key that decides the slot, or null. */
  get key(): WireArg | null {
    if (this.template !== null) return this.template.keyOf(this.first);
    const index = this.head >> HEAD_KEY_SHIFT;
    if (index === KEY_NONE) return null;
    return index === 0 ? this.first : (this.rest?.[index - 1] ?? null);
  }

  /** Command name, upper case. */
  get command(): string {
    const opcode = this.head & 0xff;
    if (opcode === Opcode.RAW) return "MULTI";
    return opcode === Opcode.GENERIC ? String(this.first).toUpperCase() : NAMES[opcode]!;
  }

  /** Bytes of the arguments, near enough for a bound. */
  get weight(): number {
    let bytes = this.first.length;
    if (this.template !== null) return bytes + this.template.weight;
    if (this.rest !== null) for (const arg of this.rest) bytes += arg.length;
    return bytes;
  }

  /** Writes the arguments of its template out. */
  expand(): void {
    if (this.template === null) return;
    const args = this.template.with(this.first);
    this.first = args[0]!;
    this.rest = args.slice(1);
    this.template = null;
  }
}

/** Notes what a lane's operations are to know of their keys, before their bytes are sent. */
export interface Stamper {
  /**
   * `ops` are packed as `scratch` and `desc` describe; those marked `OP_STAMP` want it. Whether some of them were withdrawn:
   * they are settled, and not to be sent.
   */
  stamp(ops: readonly Op[], scratch: Uint8Array, desc: Int32Array): boolean;
}

/** An operation that is its own shape, and takes its own outcome. */
export type AskingOp = Op & Asking;

function settle(this: unknown, value: unknown): void {
  ((this as Op).shape as Asking).settle(value);
}

/** The one `settle` of operations whose shape takes the outcome; called as a method of its operation. */
export const settleAsking: Settle = settle;
