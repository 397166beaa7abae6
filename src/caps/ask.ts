/** One question to the script, from the call until its answer. */
import { native } from "../native/index.js";
import type { CallOptions } from "../types.js";
import type { Decider } from "./decider.js";
import type { Plan } from "./plan.js";
import type { Place } from "./replicas.js";

/** c check | t take | r reserve | m commit */
export type Operation = "c" | "t" | "r" | "m";

/** What an impression needs to know of its reservation beside the decision. */
export interface Told {
  /** Counted and billed before. */
  settled: boolean;
  /** Server's time of the decision; 0 when no server made it. */
  at: number;
}

export class Ask {
  readonly decider: Decider;
  readonly op: Operation;
  readonly user: string;
  readonly key: string;
  readonly slot: number;
  readonly plan: Plan;
  readonly id: string;
  readonly lifeMs: number;
  readonly options: CallOptions;
  floors: string[] | null = null;
  ticket = 0;
  sent = 0;
  place: Place | null = null;
  told: Told | null = null;
  /** Sent a second time, with the boundaries of the server's time. */
  again = false;

  constructor(
    decider: Decider,
    op: Operation,
    user: string,
    key: string,
    plan: Plan,
    id: string,
    lifeMs: number,
    options: CallOptions,
  ) {
    this.decider = decider;
    this.op = op;
    this.user = user;
    this.key = key;
    this.slot = native.slot(key);
    this.plan = plan;
    this.id = id;
    this.lifeMs = lifeMs;
    this.options = options;
  }
}
