/**
 * A reply on its way through a worker: what a shape leaves for the settling that follows at once, so that the reply goes on as the
 * server sent it.
 */
import type { ReplyRows } from "../lane/replies.js";

/** Where the worker keeps a value: index of the proof word (-1: nowhere), proof, and when to look again. */
export interface Kept {
  readonly index: number;
  readonly proof: number;
  readonly check: number;
}

/** Who asked for values by id: each is told once. */
export interface Asker {
  /** The reply is in `passed`. */
  kept(id: number, kept: Kept): void;
  failed(id: number, error: unknown): void;
}

class Passed {
  rows: ReplyRows | null = null;
  from = 0;
  to = 0;

  /** It is `rows.table[from, to)`. */
  is(rows: ReplyRows, from: number, to: number): void {
    this.rows = rows;
    this.from = from;
    this.to = to;
  }
}

/** The reply last read in this thread. */
export const passed = new Passed();
