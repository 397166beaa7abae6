/**
 * A caller's link to one worker. The invariant: an operation is in the table under its id from the message that carries it to
 * the answer (or the worker's death), also when its caller has stopped waiting, so that no id means two operations; what cannot
 * be sent waits in order, within a bound.
 */
import { receiveMessageOnPort } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { HEAD_UNCOUNTED, QUEUED, SENT, SETTLED } from "../lane/op.js";
import { BUFFER_SHAPE } from "../lane/replies.js";
import { NEVER } from "../lane/turn.js";
import { AnswerReader } from "./answers.js";
import type { Crates } from "./crates.js";
import type { PooledLane, PooledOp } from "./pooled-lane.js";
import { Expect, OP_BUFFERS, OP_CANCELLABLE, OP_SCRIPT, OpKind } from "./protocol.js";
import { RequestWriter } from "./requests.js";

/** How long after its deadline a worker may still tell why an operation failed, in milliseconds. */
const GRACE_MS = 25;
/** A read that a dead worker had waits at most so long for the next one, in milliseconds. */
const RETRY_MS = 900;

/** Bounds of a link's queue. */
export interface LinkBounds {
  operations: number;
  bytes: number;
}

export class Link {
  readonly #crates: Crates;
  readonly #bounds: LinkBounds;
  readonly #reader = new AnswerReader();
  readonly #writer = new RequestWriter();
  #port: MessagePort | null = null;
  /** By id. */
  #ops: (PooledOp | undefined)[] = [];
  #free: number[] = [];
  #held = 0;
  /** Bytes of requests sent, and sent but not read by the worker. */
  #posted = 0;
  #unread = 0;
  /** Ids whose callers aborted, for the next message. */
  #cancelled: number[] = [];
  #waiting: PooledOp[] = [];
  /** Bytes of what waits. */
  #weight = 0;
  #earliest = NEVER;
  #reason = "it is being started";
  #ended = false;
  /** What is in the worker's hands when it goes is left to `clear`: the pool is being ended. */
  closing = false;
  /** Workers lost so far. */
  losses = 0;

  constructor(crates: Crates, bounds: LinkBounds) {
    this.#crates = crates;
    this.#bounds = bounds;
  }

  get up(): boolean {
    return this.#port !== null;
  }

  /** Whether anything is in the worker's hands or waits for one. */
  get busy(): boolean {
    return this.#held > 0 || this.#waiting.length > 0;
  }

  /** A worker is there. `stamp` is now, on the clock of `protocol.ts`; `origin` the same in whole milliseconds here. */
  open(port: MessagePort, stamp: number, origin: number): void {
    this.#port = port;
    port.on("message", (crate: ArrayBuffer) => this.#arrived(crate));
    port.on("close", () => {
      // Nothing more can be read from it: a closed port must not be asked.
      if (this.#port === port) this.#abandon(port, "its port was closed");
    });
    const waiting = this.#waiting;
    this.#wait([]);
    for (const op of waiting) this.take(op, origin);
    this.post(stamp);
  }

  /** Takes an operation of this turn, which began at `origin`. */
  take(op: PooledOp, origin: number): void {
    if (op.state === SETTLED) return;
    const { operations, bytes } = this.#bounds;
    if (this.#held + this.#waiting.length >= operations || this.#unread > bytes) {
      op.lane.overloaded(op);
      return;
    }
    if (this.#port === null) {
      this.#takeLater(op, bytes);
      return;
    }
    const id = this.#free.length > 0 ? this.#free.pop()! : this.#ops.length;
    this.#ops[id] = op;
    this.#held += 1;
    op.id = id;
    op.state = SENT;
    if (op.deadline < this.#earliest) this.#earliest = op.deadline;
    const domain = op.lane.config.index;
    if (op.kind === OpKind.GET && op.attempts === 0) this.#writer.get(id, domain, op.first);
    else this.#write(op, domain, origin);
  }

  cancel(op: PooledOp): void {
    if (this.#ops[op.id] !== op) return;
    this.#cancelled.push(op.id);
    this.#earliest = Math.min(this.#earliest, op.deadline);
  }

  /** Sends what was taken. */
  post(stamp: number): void {
    if (this.#writer.count === 0 && this.#cancelled.length === 0) return;
    const { crate, bytes } = this.#writer.finish(this.#crates, { stamp, cancelled: this.#cancelled });
    this.#cancelled = [];
    this.#posted = (this.#posted + bytes) | 0;
    this.#unread += bytes;
    this.#port?.postMessage(crate, [crate]);
  }

  /** The worker is gone: writes in its hands fail, reads wait for the next one. */
  lose(reason: string): void {
    this.#drain();
    if (this.#port !== null) this.#abandon(this.#port, reason);
  }

  /** No worker will come any more. */
  end(reason: string): void {
    this.#ended = true;
    this.#reason = reason;
    this.lose(reason);
    for (const op of this.#waiting) if (op.state !== SETTLED) op.lane.lost(op, reason);
    this.#wait([]);
  }

  /** Removes everything of a lane that is not settled. */
  clear(lane: PooledLane): PooledOp[] {
    const found = this.#waiting.filter((op) => op.lane === lane);
    this.#wait(this.#waiting.filter((op) => op.lane !== lane));
    for (const op of this.#ops) if (op !== undefined && op.lane === lane) found.push(op);
    return found;
  }

  sweep(now: number): void {
    for (const op of this.#waiting) {
      if (op.state === SETTLED || now < op.deadline) continue;
      if (op.attempts > 0) op.lane.lost(op, this.#reason);
      else op.lane.expired(op, `it could not be sent before the deadline; the worker thread ended: ${this.#reason}`);
    }
    if (this.#waiting.length > 0) this.#wait(this.#waiting.filter((op) => op.state !== SETTLED));
    if (now < this.#earliest + GRACE_MS) return;
    this.#drain();
    let earliest = NEVER;
    for (const op of this.#ops) {
      if (op === undefined || op.state === SETTLED) continue;
      if (now >= op.deadline + GRACE_MS) op.lane.expired(op);
      else if (op.deadline < earliest) earliest = op.deadline;
    }
    this.#earliest = earliest;
  }

  /** Closes the port and sees to what is in the worker's hands. */
  #abandon(port: MessagePort, reason: string): void {
    port.removeAllListeners();
    port.close();
    this.#port = null;
    this.losses += 1;
    this.#reason = reason;
    if (this.closing) {
      this.#held = 0;
      return;
    }
    const had = this.#ops;
    this.#reset();
    const until = Math.ceil(performance.now()) + RETRY_MS;
    const again: PooledOp[] = [];
    for (const op of had) {
      if (op === undefined || op.state === SETTLED) continue;
      if (!op.isRead || op.attempts > 0 || op.aborted !== null || this.#ended) {
        op.lane.lost(op, reason);
        continue;
      }
      op.attempts = 1;
      op.head |= HEAD_UNCOUNTED;
      op.state = QUEUED;
      op.deadline = Math.min(op.deadline, until);
      again.push(op);
    }
    this.#wait(again.concat(this.#waiting));
  }

  /** There is no worker now. */
  #takeLater(op: PooledOp, most: number): void {
    if (this.#ended) op.lane.lost(op, this.#reason);
    else if (this.#weight > most) op.lane.overloaded(op);
    else {
      this.#weight += op.weight;
      this.#waiting.push(op);
    }
  }

  #wait(ops: PooledOp[]): void {
    this.#waiting = ops;
    this.#weight = ops.reduce((sum, { weight }) => sum + weight, 0);
  }

  /** Reads what has arrived already: after a turn that took long, answers may be there that only wait to be read. */
  #drain(): void {
    for (let port = this.#port; port !== null; port = this.#port) {
      const next = receiveMessageOnPort(port);
      if (next === undefined) return;
      this.#arrived(next.message as ArrayBuffer);
    }
  }

  #write(op: PooledOp, domain: number, origin: number): void {
    const { script, shape, deadline } = op;
    // A GET with a deadline of its own.
    const short = op.kind === OpKind.GET;
    const kind = short ? OpKind.CALL : op.kind;
    const extra = short ? Expect.VALUE : op.extra;
    const buffers = kind === OpKind.BLOCK && shape === BUFFER_SHAPE ? OP_BUFFERS : 0;
    const flags = (op.cancellable ? OP_CANCELLABLE : 0) | (script === null ? 0 : OP_SCRIPT) | buffers;
    const timeoutMs = deadline === NEVER ? 0 : Math.max(1, deadline - origin);
    this.#writer.add(op.id, kind, flags, domain, op.head, timeoutMs, extra, op.first, op.rest, script);
  }

  /** One try block for the whole message: an answer that cannot be decoded is passed over and the rest goes on. */
  #arrived(crate: ArrayBuffer): void {
    const reader = this.#reader;
    const { rows } = reader;
    reader.open(crate);
    this.#unread = (this.#posted - reader.taken) | 0;
    const ops = this.#ops;
    let op: PooledOp | undefined;
    for (let done = 0; done < reader.count;) {
      try {
        for (; done < reader.count; done += 1) {
          const id = reader.next();
          op = ops[id]!;
          ops[id] = undefined;
          this.#free.push(id);
          this.#held -= 1;
          if (op.state === SETTLED) continue;
          if (reader.failed) op.lane.failed(op, reader.error());
          else op.lane.answered(op, op.shape.read(rows));
        }
      } catch (cause) {
        done += 1;
        op!.lane.undecodable(op!, cause as Error);
      }
    }
    reader.close();
    this.#crates.give(crate);
  }

  #reset(): void {
    this.#ops = [];
    this.#free = [];
    this.#held = 0;
    this.#posted = 0;
    this.#unread = 0;
    this.#cancelled = [];
    this.#earliest = NEVER;
  }
}
