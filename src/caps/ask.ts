/** One question to the script, from the call until its answer. It reads its own reply, and settles itself. */
import type { Asking, ReplyRows } from "../lane/replies.js";
import type { CallOptions } from "../types.js";
import type { Denials } from "./denials.js";
import type { Plan } from "./plan.js";
import type { Place } from "./replicas.js";
import type { CapsResult } from "./types.js";

/** c check | t take | r reserve | m commit */
export type Operation = "c" | "t" | "r" | "m";

/** What an impression needs to know of its reservation beside the decision. */
export interface Told {
  /** Counted and billed before. */
  settled: boolean;
  /** Server's time of the decision; 0 when no server made it. */
  at: number;
}

/** Who asks. */
export interface Asker {
  /** The reply stands at the cursor. Gives what `settled` gets. */
  landed(ask: Ask, rows: ReplyRows): unknown;
  /** `value` is what `landed` gave, or a rejected promise. */
  settled(ask: Ask, value: unknown): void;
}

export class Ask implements Asking {
  readonly asker: Asker;
  readonly op: Operation;
  readonly key: string;
  readonly plan: Plan;
  /** What is sent: number of keys, key, question, and what follows it. */
  readonly words: string[];
  readonly options: CallOptions;
  /** Settles the caller's promise. */
  readonly resolve: (value: CapsResult | Promise<CapsResult>) => void;
  /** Of denials. */
  readonly ticket: number;
  readonly slot: number;
  /** Stands for the key. */
  readonly hash: number;
  /** On the clock of `Denials`. */
  readonly sent: number;
  /** The call carries what was seen before a failover. */
  raises = false;
  /** Sent a second time, with the boundaries of the server's time. */
  again = false;
  place: Place | null = null;
  told: Told | null = null;

  constructor(
    asker: Asker,
    op: Operation,
    key: string,
    plan: Plan,
    words: string[],
    options: CallOptions,
    { ticket, slot, hash, now }: Denials,
    resolve: (value: CapsResult | Promise<CapsResult>) => void,
  ) {
    this.asker = asker;
    this.op = op;
    this.key = key;
    this.plan = plan;
    this.words = words;
    this.options = options;
    this.resolve = resolve;
    this.ticket = ticket;
    this.slot = slot;
    this.hash = hash;
    this.sent = now;
  }

  read(rows: ReplyRows): unknown {
    return this.asker.landed(this, rows);
  }

  settle(value: unknown): void {
    this.asker.settled(this, value);
  }
}
