/**
 * Stands in a domain for its lane once `close` was called and keylane itself still needs the lane (the ledger books over it):
 * calls are refused at once, everything else is the lane's.
 */
import { KeylaneError } from "../errors.js";
import type { Topology } from "../routing/topology.js";
import type { DomainStats } from "../types.js";
import type { Codec } from "./codec.js";
import type { LaneConfig } from "./config.js";
import type { CallLimits, Lane, LoadShapes, WriteGate } from "./contract.js";
import type { AskingOp, Settle } from "./op.js";
import type { ValueShape } from "./replies.js";

export class ClosedLane implements Lane {
  readonly config: LaneConfig;
  readonly codec: Codec;
  readonly valueShape: ValueShape;
  readonly topology: Topology;
  readonly gate: WriteGate | null = null;
  readonly fetcher = null;
  readonly #lane: Lane;

  constructor(lane: Lane) {
    this.#lane = lane;
    this.config = lane.config;
    this.codec = lane.codec;
    this.valueShape = lane.valueShape;
    this.topology = lane.topology;
  }

  get(): Promise<never> {
    return this.#refuse();
  }

  call(): Promise<never> {
    return this.#refuse();
  }

  own(): Promise<never> {
    return this.#refuse();
  }

  ask(op: AskingOp): void {
    op.settle(this.#refuse());
  }

  load(_load: LoadShapes, _limits: CallLimits, settle: Settle): void {
    settle(this.#refuse());
  }

  transact(): Promise<never> {
    return this.#refuse();
  }

  block(): Promise<never> {
    return this.#refuse();
  }

  drained(): Promise<void> {
    return this.#lane.drained();
  }

  destroy(): number {
    return this.#lane.destroy();
  }

  stats(): DomainStats {
    return this.#lane.stats();
  }

  reconnects(): number {
    return this.#lane.reconnects();
  }

  #refuse(): Promise<never> {
    const { domain } = this.config;
    return Promise.reject(new KeylaneError("KEYLANE_ERR_CLOSED", "keylane is closed", { domain }));
  }
}
