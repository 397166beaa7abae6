/**
 * One operation on its way through a worker, as an object: what is not a plain GET, and what becomes of a plain one that is not
 * simply answered.
 */
import type { Fetch } from "../lane/contract.js";
import { HEAD_GET, Op } from "../lane/op.js";
import type { Settle, WireArg } from "../lane/op.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import type { PooledLane } from "./pooled-lane.js";
import { KEPT_WORDS, OpKind } from "./protocol.js";

/** One operation on its way through a worker. */
export class PooledOp extends Op {
  readonly lane: PooledLane;
  /** One of `OpKind`. */
  readonly kind: number;
  /** See `protocol.ts`. */
  readonly extra: number;
  /** Under which a worker knows it; -1 before it is sent. */
  id = -1;
  /** Its caller may abort it. */
  cancellable = false;
  /** Why its caller aborted it, while its worker is asked what became of it. */
  aborted: { readonly reason: unknown } | null = null;

  constructor(
    lane: PooledLane,
    kind: number,
    extra: number,
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    settle: Settle,
    shape: Shape,
    deadline: number,
  ) {
    super(head, first, rest, settle, shape, deadline, 0);
    this.lane = lane;
    this.kind = kind;
    this.extra = extra;
  }

  static ofGet(lane: PooledLane, key: WireArg, settle: Settle, deadline: number): PooledOp {
    return new PooledOp(lane, OpKind.GET, 0, HEAD_GET, key, null, settle, lane.valueShape, deadline);
  }

  /** As a load: one that is asked again comes alone, and nobody has to be elected for it. */
  static ofFetch(lane: PooledLane, fetch: Fetch, deadline: number): PooledOp {
    const shape = new KeptShape(lane);
    const settle: Settle = (value) => fetch.land(value, shape.index, shape.proof, shape.check);
    return new PooledOp(lane, OpKind.LOAD, 0, HEAD_GET, fetch.key, null, settle, shape, deadline);
  }
}

/** Reads a value, and where the worker keeps it. */
class KeptShape implements Shape {
  index = -1;
  proof = 0;
  check = 0;
  readonly #lane: PooledLane;

  constructor(lane: PooledLane) {
    this.#lane = lane;
  }

  read(rows: ReplyRows): unknown {
    const { table, at } = rows;
    rows.at = at + KEPT_WORDS;
    const value = this.#lane.valueShape.read(rows);
    this.index = table[at]!;
    this.proof = table[at + 1]!;
    this.check = table[at + 2]!;
    return value;
  }
}
