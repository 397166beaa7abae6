/**
 * A caller, seen from a worker: its requests become operations of the worker's lanes, and what becomes of them goes back, all
 * that is settled in one event-loop turn in one message. A slow operation holds nobody back.
 */
import type { MessagePort } from "node:worker_threads";
import { KeylaneError } from "../errors.js";
import type { DomainLane } from "../lane/lane.js";
import { HEAD_GET, Op } from "../lane/op.js";
import type { WireArg } from "../lane/op.js";
import { mismatch } from "../lane/replies.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import { transactionBlock } from "../lane/transaction.js";
import { NEVER } from "../lane/turn.js";
import { Kind } from "../native/types.js";
import type { Reply } from "../types.js";
import { AnswerWriter } from "./answers.js";
import { Crates } from "./crates.js";
import { passed } from "./passed.js";
import type { Asker, Kept } from "./passed.js";
import {
  DOMAIN_SHIFT,
  Expect,
  FLAGS_MASK,
  KIND_BITS,
  KIND_MASK,
  OP_BUFFERS,
  OP_CANCELLABLE,
  OP_SCRIPT,
  OpKind,
  elapsedMs,
  processMs,
} from "./protocol.js";
import { RequestReader } from "./requests.js";

/** A load in the worker: shapes that store and pass on, and where they stored. */
export interface StoredLoad extends Kept {
  readonly life: Shape;
  readonly value: Shape;
}

/** What accompanies a worker's lanes: the shared cache. */
export interface Companion {
  /** Begins a load of a cached domain's key; null when the domain is not cached here. */
  load(domain: number, key: WireArg): StoredLoad | null;
  /**
   * Loads a cached domain's key, unless another caller of the process does, and tells `asker`. False when the domain is not cached
   * here.
   */
  fetch(domain: number, key: string, timeoutMs: number, asker: Asker, id: number): boolean;
  /** The lanes know their topologies. */
  opened(): void;
  end(): void;
}

/** Turns of the event loop that answers wait for others to go with them, when most are still to come. */
const WAIT_TURNS = 3;
/** Requests read and not answered by a message are told to the caller when they are so many bytes. */
const TELL_BYTES = 1 << 20;

/** Passes a reply on unread, except for its kind. What a replica may not decide alone comes as null or false. */
function pass(rows: ReplyRows, expect: number): unknown {
  const kind = rows.kind();
  const { at, table } = rows;
  rows.skip();
  passed.is(rows, at, rows.at);
  if (kind === Kind.NULL)
    return expect === Expect.INTEGER || expect === Expect.FLAG ? mismatch("an integer", kind) : null;
  switch (expect) {
    case Expect.VALUE:
      return kind === Kind.BULK || kind === Kind.STREAM ? undefined : mismatch("a value", kind);
    case Expect.INTEGER:
    case Expect.FLAG:
      if (kind === Kind.INT32) return expect === Expect.FLAG && table[at + 2]! <= 0 ? false : undefined;
      return kind === Kind.INT || kind === Kind.BIGNUM ? undefined : mismatch("an integer", kind);
    case Expect.STORED:
      return kind === Kind.SIMPLE || kind === Kind.BULK ? undefined : mismatch("OK", kind);
    default:
      return undefined;
  }
}

const PASSES: readonly Shape[] = Object.values(Expect).map((expect) => ({ read: (rows) => pass(rows, expect) }));
const PASS_VALUE = PASSES[Expect.VALUE]!;

/** An operation of a caller. */
class StationOp extends Op {
  readonly station: Station;
  readonly id: number;
  load: StoredLoad | null = null;

  constructor(
    station: Station,
    id: number,
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape,
    deadline: number,
  ) {
    super(head, first, rest, settle, shape, deadline, 0);
    this.station = station;
    this.id = id;
  }
}

/** The one `settle` of all: called as a method of its operation. */
function settle(this: unknown, value: unknown): void {
  const op = this as StationOp;
  if (value instanceof Promise) value.catch((error: unknown) => op.station.failed(op.id, error));
  else op.station.answered(op);
}

export class Station implements Asker {
  readonly #port: MessagePort;
  readonly #lanes: readonly DomainLane[];
  readonly #companion: Companion | null;
  readonly #crates = new Crates();
  readonly #answers = new AnswerWriter(this.#crates);
  /** Of operations that may be aborted, by id. */
  readonly #aborts = new Map<number, AbortController>();
  readonly #left: () => void;
  /** Bytes of requests read; and of these, not told yet. */
  #taken = 0;
  #untold = 0;
  #joined = false;
  #waited = 0;
  #closed = false;
  /** When the request that is being read arrived. */
  #now = 0;
  /** Operations taken and not answered. */
  pending = 0;

  /** `left` hears when the caller is gone. */
  constructor(port: MessagePort, lanes: readonly DomainLane[], companion: Companion | null, left: () => void) {
    this.#port = port;
    this.#lanes = lanes;
    this.#companion = companion;
    this.#left = left;
    port.on("message", (crate: ArrayBuffer) => this.#arrived(crate));
    port.on("close", () => {
      this.#closed = true;
      for (const abort of this.#aborts.values()) abort.abort();
      this.#left();
    });
  }

  /** Whether other callers share the worker: then bytes of a run of replies go to several. */
  set alone(alone: boolean) {
    this.#answers.alone = alone;
  }

  answered(op: StationOp): void {
    const { id, load } = op;
    if (load === null) this.#answers.reply(id, passed.rows!, passed.from, passed.to);
    else this.#answers.loaded(id, load, passed.rows!, passed.from, passed.to);
    this.#settled(id);
  }

  kept(id: number, kept: Kept): void {
    this.#answers.loaded(id, kept, passed.rows!, passed.from, passed.to);
    this.#settled(id);
  }

  failed(id: number, error: unknown): void {
    this.#answers.error(id, error);
    this.#settled(id);
  }

  /** Sends what is settled and ends the link. */
  close(): void {
    if (this.#closed) return;
    this.#post();
    this.#closed = true;
    this.#port.close();
  }

  #arrived(crate: ArrayBuffer): void {
    const request = new RequestReader(crate);
    const age = elapsedMs(request.stamp, processMs());
    this.#now = Math.ceil(performance.now());
    const origin = this.#now - Math.min(age, 0x3fff_ffff);
    for (const id of request.cancelled()) this.#aborts.get(id)?.abort();
    this.pending += request.count;
    if (request.gets >= 0) this.#takeGets(request, origin);
    else if (request.fetches >= 0) this.#takeFetches(request, origin);
    else for (let i = 0; i < request.count; i += 1) this.#take(request, request.base + i, origin);
    this.#taken = (this.#taken + request.size) | 0;
    this.#untold += request.size;
    this.#crates.give(crate);
    if (this.#untold > TELL_BYTES) this.#join();
  }

  #takeGets(request: RequestReader, origin: number): void {
    const lane = this.#lanes[request.gets]!;
    const deadline = origin + lane.config.commandTimeoutMs;
    const late = deadline <= this.#now;
    for (let i = 0; i < request.count; i += 1) {
      const get = new StationOp(this, request.base + i, HEAD_GET, request.arg(), null, PASS_VALUE, deadline);
      if (late) this.#refuse(lane, get);
      else lane.submit(get, undefined);
    }
  }

  #takeFetches(request: RequestReader, origin: number): void {
    const lane = this.#lanes[request.fetches]!;
    for (let i = 0; i < request.count; i += 1) this.#fetch(lane, request.base + i, request.arg(), origin);
  }

  #fetch(lane: DomainLane, id: number, key: WireArg, origin: number): void {
    const { index, commandTimeoutMs } = lane.config;
    const left = origin + commandTimeoutMs - this.#now;
    if (left > 0 && this.#companion?.fetch(index, typeof key === "string" ? key : String(key), left, this, id)) return;
    const op = new StationOp(this, id, HEAD_GET, key, null, PASS_VALUE, this.#now + left);
    if (left > 0) this.#load(lane, op, undefined);
    else this.#refuse(lane, op);
  }

  #take(request: RequestReader, id: number, origin: number): void {
    const meta = request.word();
    const kind = meta & KIND_MASK;
    const lane = this.#lanes[meta >> DOMAIN_SHIFT]!;
    if (kind === OpKind.GET) {
      const deadline = origin + lane.config.commandTimeoutMs;
      const get = new StationOp(this, id, HEAD_GET, request.arg(), null, PASS_VALUE, deadline);
      if (deadline > this.#now) lane.submit(get, undefined);
      else this.#refuse(lane, get);
      return;
    }
    if (kind === OpKind.FETCH) {
      this.#fetch(lane, id, request.arg(), origin);
      return;
    }
    const flags = (meta >> KIND_BITS) & FLAGS_MASK;
    const head = request.word();
    const timeoutMs = request.word();
    const extra = request.word();
    const count = request.word();
    const first = request.arg();
    const scripted = (flags & OP_SCRIPT) === 0 ? 0 : 1;
    const rest = request.args(count - 1 - scripted);
    const script = scripted === 1 ? String(request.arg()) : null;
    const shape = kind === OpKind.CALL ? PASSES[extra]! : PASSES[Expect.ANY]!;
    const deadline = timeoutMs === 0 ? NEVER : origin + timeoutMs;
    const op = new StationOp(this, id, head, first, rest, shape, deadline);
    if (deadline <= this.#now) {
      this.#refuse(lane, op);
      return;
    }
    // A blocking command ends with its caller, else it would take what nobody receives.
    const abortable = kind === OpKind.BLOCK || (flags & OP_CANCELLABLE) !== 0;
    const signal = abortable ? this.#abortable(id) : undefined;
    if (kind === OpKind.BLOCK) {
      const leftMs = deadline === NEVER ? undefined : deadline - this.#now;
      const options = { buffers: (flags & OP_BUFFERS) !== 0, timeoutMs: leftMs, signal };
      void this.#block(id, lane.block(String(first), rest ?? [], extra, options));
      return;
    }
    op.script = script;
    if (kind === OpKind.TRANSACTION) op.block = transactionBlock(extra);
    if (kind === OpKind.LOAD) this.#load(lane, op, signal);
    else lane.submit(op, signal);
  }

  /** The deadline passed while the request waited for this thread. */
  #refuse({ config }: DomainLane, { id, command }: StationOp): void {
    const message = `${command}: it could not be sent before the deadline`;
    const { domain } = config;
    this.failed(id, new KeylaneError("KEYLANE_ERR_TIMEOUT", message, { command, domain, outcome: "not-sent" }));
  }

  async #block(id: number, call: Promise<Reply>): Promise<void> {
    try {
      this.#answers.value(id, await call);
      this.#settled(id);
    } catch (error) {
      this.failed(id, error);
    }
  }

  #load(lane: DomainLane, op: StationOp, signal: AbortSignal | undefined): void {
    const load = this.#companion?.load(lane.config.index, op.first) ?? UNSTORED;
    op.load = load;
    op.shape = load.value;
    lane.submitLoad(op, load.life, signal);
  }

  /** A signal that fires when the caller aborts; forgotten when the operation is settled, in the same order as ids are. */
  #abortable(id: number): AbortSignal {
    const controller = new AbortController();
    this.#aborts.set(id, controller);
    return controller.signal;
  }

  #settled(id: number): void {
    this.pending -= 1;
    if (this.#aborts.size > 0) this.#aborts.delete(id);
    this.#join();
  }

  #join(): void {
    if (this.#joined) return;
    this.#joined = true;
    this.#waited = 0;
    setImmediate(this.#turn);
  }

  /** Sends what is settled, unless more is about to come: then turns of the event loop, a few, are waited for it. */
  readonly #turn = (): void => {
    if (this.pending > this.#answers.count && this.#waited < WAIT_TURNS) {
      this.#waited += 1;
      setImmediate(this.#turn);
    } else this.#post();
  };

  #post(): void {
    this.#joined = false;
    this.#untold = 0;
    const crate = this.#answers.finish(this.#taken);
    if (!this.#closed) this.#port.postMessage(crate, [crate]);
  }
}

/** A load where there is no cache: nothing is stored. */
const UNSTORED: StoredLoad = {
  life: PASSES[Expect.ANY]!,
  value: PASSES[Expect.VALUE]!,
  index: -1,
  proof: 0,
  check: 0,
};
