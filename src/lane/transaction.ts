/**
 * MULTI … EXEC as one operation: one write, one place in every queue, so that it is redirected, held back and retried whole
 * or not at all.
 *
 * ```text
 * bytes    MULTI | command … | EXEC
 * replies  OK    | QUEUED …  | array            the first n + 1 are met by stand-ins, EXEC's settles the call
 * ```
 *
 * A command that the server refuses to queue makes EXEC answer EXECABORT: nothing ran, and the refusal (MOVED, say) is acted
 * upon as if it had been the reply.
 */
import { Kind, Opcode } from "../native/types.js";
import type { CallOptions, Key, SetOptions } from "../types.js";
import { assertKey, faultOfAmount, faultOfMs, ownKey, setFlags } from "./arguments.js";
import { numberText } from "./codec.js";
import type { Codec } from "./codec.js";
import { wireArgs } from "./commands.js";
import { OP_MULTI, OP_QUEUED, Op, SETTLED, headOf } from "./op.js";
import type { Block, WireArg } from "./op.js";
import { FLAG_SHAPE, INTEGER_SHAPE, RAW_SHAPE, STORED_SHAPE, mismatch } from "./replies.js";
import type { ReplyRows, Shape } from "./replies.js";
import { NEVER } from "./turn.js";

export const HEAD_TRANSACTION = headOf(Opcode.RAW, 0, false);

/** Bytes of the whole transaction. O(bytes). */
export function transactionFrames(commands: readonly (readonly WireArg[])[]): Buffer {
  const pieces: Buffer[] = [];
  for (const command of [["MULTI"], ...commands, ["EXEC"]]) {
    pieces.push(Buffer.from(`*${command.length}\r\n`));
    for (const arg of command) {
      const bytes = typeof arg === "string" ? Buffer.from(arg) : arg;
      pieces.push(Buffer.from(`$${bytes.length}\r\n`), Buffer.from(bytes), Buffer.from("\r\n"));
    }
  }
  return Buffer.concat(pieces);
}

/** The stand-ins for a transaction of `count` commands. */
export function transactionBlock(count: number): Block {
  const block: { stand: Op[]; refusal: string | null; broken: boolean } = { stand: [], refusal: null, broken: false };
  for (let i = 0; i <= count; i += 1) {
    const flags = i === 0 ? OP_MULTI : OP_QUEUED;
    const stand = new Op(HEAD_TRANSACTION, "", null, () => {}, RAW_SHAPE, NEVER, flags);
    stand.state = SETTLED;
    stand.block = block;
    block.stand.push(stand);
  }
  return block;
}

/** What a transaction needs of its domain. */
export interface TransactionTarget {
  readonly codec: Codec;
  readonly valueShape: Shape;
  /** `written` are the keys of commands that do not only read. */
  call(
    key: WireArg,
    frames: WireArg,
    shape: Shape,
    options: CallOptions,
    block: Block,
    written: readonly WireArg[],
  ): Promise<unknown>;
  /** Checks that a command's keys share the transaction's slot and domain. Gives those it may write. */
  check(name: string, args: WireArg[]): readonly WireArg[];
}

/**
 * A transaction being written down; nothing is sent before `exec`. All keys must share the slot of the key it was begun
 * with. Methods throw on bad arguments and return the transaction.
 */
export class Transaction {
  readonly #key: WireArg;
  readonly #target: TransactionTarget;
  readonly #commands: WireArg[][] = [];
  readonly #shapes: Shape[] = [];
  readonly #written: WireArg[] = [];

  /** @internal */
  constructor(key: WireArg, target: TransactionTarget) {
    this.#key = key;
    this.#target = target;
  }

  /** Any command; its reply comes as `command()` gives it. */
  command(name: string, ...args: readonly unknown[]): this {
    return this.#add(name.toUpperCase(), wireArgs(name, args), RAW_SHAPE);
  }

  get(key: Key): this {
    assertKey(key);
    return this.#add("GET", [ownKey(key)], this.#target.valueShape);
  }

  set(key: Key, value: unknown, options: SetOptions = {}): this {
    assertKey(key);
    return this.#add("SET", [ownKey(key), this.#target.codec.encode(value), ...setFlags(options)], STORED_SHAPE);
  }

  del(key: Key): this {
    assertKey(key);
    return this.#add("DEL", [ownKey(key)], FLAG_SHAPE);
  }

  incrBy(key: Key, amount: number | bigint = 1): this {
    assertKey(key);
    const fault = faultOfAmount(amount);
    if (fault !== null) throw fault;
    return this.#add("INCRBY", [ownKey(key), numberText(amount)], INTEGER_SHAPE);
  }

  expire(key: Key, ttlMs: number): this {
    assertKey(key);
    const fault = faultOfMs("ttlMs", ttlMs);
    if (fault !== null) throw fault;
    return this.#add("PEXPIRE", [ownKey(key), String(ttlMs)], FLAG_SHAPE);
  }

  /**
   * Runs it: all commands or none. Resolves with one result per command; a command that failed while running has its
   * `KeylaneError` as result, as Redis does not roll back. Rejects with `KEYLANE_ERR_EXECABORT` (or the refusal's own code)
   * when nothing ran.
   */
  exec(options: CallOptions = {}): Promise<unknown[]> {
    if (this.#commands.length === 0) return Promise.resolve([]);
    const frames = transactionFrames(this.#commands);
    const block = transactionBlock(this.#commands.length);
    const shape = new ExecShape(this.#shapes);
    return this.#target.call(this.#key, frames, shape, options, block, this.#written) as Promise<unknown[]>;
  }

  #add(name: string, args: WireArg[], shape: Shape): this {
    this.#written.push(...this.#target.check(name.toLowerCase(), args));
    this.#commands.push([name, ...args]);
    this.#shapes.push(shape);
    return this;
  }
}

/** EXEC's array, each element read by its command's shape. */
class ExecShape implements Shape {
  readonly #shapes: readonly Shape[];

  constructor(shapes: readonly Shape[]) {
    this.#shapes = shapes;
  }

  read(rows: ReplyRows): unknown {
    const kind = rows.kind();
    if (kind === Kind.NULL) return rows.value();
    const count = kind === Kind.ARRAY ? rows.enter() : -1;
    if (count !== this.#shapes.length) mismatch(`${this.#shapes.length} results`, kind);
    return this.#shapes.map((shape) => (rows.isError() ? rows.value() : shape.read(rows)));
  }
}
