/**
 * One miss of callers in other threads: the flight that they wait for, the GET of its load, and the shape that reads the reply, all
 * in one object, since a busy worker has many of them. The invariant: each caller is answered once, while the reply is in `passed`.
 */
import { HEAD_GET, Op } from "../lane/op.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import { NEVER } from "../lane/turn.js";
import { Kind } from "../native/types.js";
import { passed } from "../pool/passed.js";
import type { Asker, Kept } from "../pool/passed.js";
import { LifeShape, UNKNOWN_LIFE, readLoaded } from "./load.js";
import type { Loading, Storing } from "./load.js";
import type { Flight } from "./single-flight.js";

/** A load for another thread: it notes where its value is kept (-1: nowhere). */
export interface Passing extends Loading {
  index: number;
  proof: number;
  check: number;
}

/** Who runs errands. */
export interface ErrandRunner {
  readonly target: Storing<Passing>;
  /** Sends the load of an errand that was elected. */
  depart(errand: Errand, timeoutMs: number): void;
  /** The load is over: `value` is a rejected promise if it failed. */
  landed(errand: Errand, value: unknown): void;
}

/** Reads the reply of a load's GET, stores it, and leaves it to be passed on. */
export function readPassed(rows: ReplyRows, load: Passing, target: Storing<Passing>): unknown {
  const kind = rows.kind();
  const from = rows.at;
  readLoaded(rows, load, target);
  passed.is(rows, from, rows.at);
  // Null is what a replica may not decide alone.
  return kind === Kind.NULL ? null : undefined;
}

/** The one `settle` of all: called as a method of its errand. */
function settle(this: unknown, value: unknown): void {
  const errand = this as Errand;
  errand.runner.landed(errand, value instanceof Promise ? value : errand);
}

/** Set by the constructor: an errand is its own shape. */
const NONE: Shape = { read: () => undefined };

export class Errand extends Op implements Shape, Flight<Errand>, Passing, Kept {
  readonly runner: ErrandRunner;
  readonly asker: Asker;
  /** Under which its caller knows it. */
  readonly id: number;
  hash = 0;
  next: Errand | null = null;
  ticket: number | null = null;
  claim = -1;
  claimed = 0;
  began = 0;
  lifeMs = UNKNOWN_LIFE;
  index = -1;
  proof = 0;
  check = 0;
  #others: Errand[] | null = null;

  constructor(runner: ErrandRunner, key: string, asker: Asker, id: number) {
    super(HEAD_GET, key, null, settle, NONE, NEVER, 0);
    this.shape = this;
    this.runner = runner;
    this.asker = asker;
    this.id = id;
  }

  override get key(): string {
    return this.first as string;
  }

  /** Reads the reply of PTTL. */
  get life(): Shape {
    return new LifeShape(this);
  }

  read(rows: ReplyRows): unknown {
    return readPassed(rows, this, this.runner.target);
  }

  depart(timeoutMs: number): void {
    this.runner.depart(this, timeoutMs);
  }

  join(other: Errand): void {
    this.#others ??= [];
    this.#others.push(other);
  }

  /** `value` tells where the reply in `passed` is kept, or is a rejected promise. */
  land(value: unknown): void {
    if (value instanceof Promise) value.catch((error: unknown) => this.#fail(error));
    else {
      this.asker.kept(this.id, value as Kept);
      if (this.#others !== null) for (const { asker, id } of this.#others) asker.kept(id, value as Kept);
    }
  }

  #fail(error: unknown): void {
    this.asker.failed(this.id, error);
    if (this.#others !== null) for (const { asker, id } of this.#others) asker.failed(id, error);
  }
}
