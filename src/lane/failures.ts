/**
 * How operations of a lane fail: with which code, what is said, and what is known of the outcome. The invariant: what was never
 * written is `not-sent`, what was written and not answered is `unknown`.
 */
import { KeylaneError } from "../errors.js";
import type { ErrorContext, KeylaneErrorCode } from "../errors.js";
import { native } from "../native/index.js";
import type { LaneConfig } from "./config.js";
import type { NodeLane } from "./node.js";
import { OP_INTERNAL, OP_OWN, QUEUED, SENT, SETTLED } from "./op.js";
import type { Op } from "./op.js";

/** What failures need of their lane. */
export interface FailingLane {
  readonly config: LaneConfig;
  readonly counts: { timeouts: number; overloaded: number };
  failed(op: Op, error: KeylaneError): void;
}

export class Failures {
  readonly #lane: FailingLane;

  constructor(lane: FailingLane) {
    this.#lane = lane;
  }

  expired(op: Op, node?: NodeLane, heldBy: KeylaneError | null = null): void {
    if ((op.flags & (OP_INTERNAL | OP_OWN)) === 0) this.#lane.counts.timeouts += 1;
    if (op.state === QUEUED && op.refusal !== null) {
      this.#lane.failed(op, op.refusal);
      return;
    }
    if (heldBy !== null) {
      this.fail(op, heldBy.code, `an earlier one of the slot was refused: ${heldBy.message}`, null, heldBy);
      return;
    }
    const sent = op.state === SENT;
    const cause = sent ? null : node?.lastError;
    const what = sent ? "no reply came before the deadline" : "it could not be sent before the deadline";
    const why = cause === null || cause === undefined ? what : `${what}; ${node!.name}: ${cause.message}`;
    this.fail(op, "KEYLANE_ERR_TIMEOUT", why, node, cause);
  }

  overloaded(op: Op, node: NodeLane | null): void {
    if ((op.flags & OP_OWN) === 0) this.#lane.counts.overloaded += 1;
    const where = node === null ? `domain ${this.#lane.config.domain}` : `node ${node.name}`;
    this.fail(op, "KEYLANE_ERR_OVERLOADED", `the queue of ${where} is full`, node);
  }

  /** The connection broke and the operation is not asked again. */
  lost(op: Op, node: NodeLane): void {
    const { lastError } = node;
    const broken = lastError instanceof KeylaneError && lastError.code === "KEYLANE_ERR_PROTOCOL";
    const code = broken ? "KEYLANE_ERR_PROTOCOL" : "KEYLANE_ERR_CONNECTION_LOST";
    const reason = lastError?.message ?? "it was closed";
    this.fail(op, code, `the connection to ${node.name} broke: ${reason}`, node, lastError);
  }

  contextOf(op: Op, node: NodeLane | null): ErrorContext {
    const { key, command } = op;
    const slot = key === null ? undefined : native.slot(key);
    return { command, domain: this.#lane.config.domain, slot, node: node?.name };
  }

  /** Settles an operation by an error, unless it is settled. */
  fail(op: Op, code: KeylaneErrorCode, message: string, node?: NodeLane | null, cause?: unknown): void {
    if (op.state !== SETTLED) this.#lane.failed(op, this.error(code, message, op, node, cause));
  }

  error(code: KeylaneErrorCode, message: string, op: Op, node?: NodeLane | null, cause?: unknown): KeylaneError {
    return new KeylaneError(code, `${op.command}: ${message}`, {
      ...this.contextOf(op, node ?? null),
      outcome: op.state === SENT ? "unknown" : "not-sent",
      ...(cause === undefined || cause === null ? {} : { cause }),
    });
  }
}
