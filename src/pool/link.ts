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
import { BATCH_OPS, Batch, PLACE_BITS } from "./batch.js";
import type { Entry } from "./batch.js";
import type { Crates } from "./crates.js";
import type { PooledLane } from "./pooled-lane.js";
import { PooledOp } from "./pooled-op.js";
import { Expect, OP_BUFFERS, OP_CANCELLABLE, OP_SCRIPT, OpKind } from "./protocol.js";
import { RequestWriter } from "./requests.js";
import type { Envelope, Request } from "./requests.js";

/** How long after its deadline a worker may still tell why an operation failed, in milliseconds. */
const GRACE_MS = 25;
/** Answers read in one turn of the event loop: some 100 µs of it. */
const SLICE = 256;
/** A read that a dead worker had waits at most so long for the next one, in milliseconds. */
const RETRY_MS = 900;

/** Bounds of a link's queue. */
export interface LinkBounds {
  operations: number;
  bytes: number;
}

export class Link {
  readonly #bounds: LinkBounds;
  readonly #crates: Crates;
  readonly #reader = new AnswerReader();
  /** Messages that have arrived and are not begun; and whether a turn of the event loop will go on reading. */
  #arrivals: ArrayBuffer[] = [];
  #reading = false;
  readonly #writer: RequestWriter;
  #port: MessagePort | null = null;
  /** What is in the worker's hands, by slot. */
  #batches: (Batch | null)[] = [];
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
    this.#writer = new RequestWriter(crates);
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
    for (let from = 0; from < waiting.length; from += BATCH_OPS) {
      const batch = new Batch();
      for (const op of waiting.slice(from, from + BATCH_OPS)) if (op.state !== SETTLED) batch.add(op);
      this.send(batch, origin, stamp);
    }
  }

  cancel(op: PooledOp): void {
    if (this.#batches[op.id >> PLACE_BITS]?.entries[op.id & (BATCH_OPS - 1)] !== op) return;
    this.#cancelled.push(op.id);
    this.#earliest = Math.min(this.#earliest, op.deadline);
  }

  /** Sends the operations of a turn that began at `origin`; none of them is settled. What does not fit fails at once. */
  send(given: Batch, origin: number, stamp: number): void {
    const room = this.#bounds.operations - this.#held - this.#waiting.length;
    const fits = this.#port !== null && given.count <= room && this.#unread <= this.#bounds.bytes;
    const batch = fits ? given : this.#admit(given, room);
    const { count } = batch;
    if (count === 0 && this.#cancelled.length === 0) return;
    const slot = this.#free.pop() ?? this.#batches.length;
    const envelope = { stamp, cancelled: this.#cancelled, base: slot << PLACE_BITS };
    const { crate, bytes } = this.#write(batch, envelope, origin);
    if (count > 0) this.#batches[slot] = batch;
    else this.#free.push(slot);
    batch.left = count;
    this.#held += count;
    this.#earliest = Math.min(this.#earliest, batch.earliest);
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
    for (const batch of this.#batches) if (batch !== null) found.push(...batch.takeAll(SENT, lane));
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
    this.#earliest = NEVER;
    for (const batch of this.#batches) {
      if (batch === null) continue;
      for (const op of batch.takeLate(now - GRACE_MS, SENT)) op.lane.expired(op);
      this.#earliest = Math.min(this.#earliest, batch.earliest);
    }
  }

  /** Closes the port and sees to what is in the worker's hands. */
  #abandon(port: MessagePort, reason: string): void {
    this.#readAnswers(Infinity);
    port.removeAllListeners();
    port.close();
    this.#port = null;
    this.losses += 1;
    this.#reason = reason;
    if (this.closing) {
      this.#held = 0;
      return;
    }
    const had = this.#batches;
    this.#reset();
    const until = Math.ceil(performance.now()) + RETRY_MS;
    const again: PooledOp[] = [];
    for (const op of had.flatMap((batch) => batch?.takeAll(SENT) ?? [])) {
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

  /** What of a batch can be sent now; the rest waits for a worker, or fails. */
  #admit(given: Batch, room: number): Batch {
    const ops = given.takeAll(QUEUED);
    const admitted = new Batch();
    const full = this.#unread > this.#bounds.bytes;
    for (const [at, op] of ops.entries()) {
      if (at >= room || full) op.lane.overloaded(op);
      else if (this.#port === null) this.#takeLater(op, this.#bounds.bytes);
      else admitted.add(op);
    }
    return admitted;
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
      if (next === undefined) break;
      this.#arrivals.push(next.message as ArrayBuffer);
    }
    this.#readAnswers(Infinity);
  }

  #write(batch: Batch, envelope: Envelope, origin: number): Request {
    const writer = this.#writer;
    const { entries, keys, lane, kind } = batch;
    if (batch.lanes === null) {
      if (kind === OpKind.GET) return writer.gets(keys, lane!.config.index, envelope);
      if (kind === OpKind.FETCH) return writer.fetches(keys, lane!.config.index, envelope);
    }
    for (let place = 0; place < entries.length; place += 1) {
      const entry = entries[place]!;
      const domain = batch.laneOf(place).config.index;
      if (entry instanceof PooledOp) {
        entry.id = envelope.base + place;
        entry.state = SENT;
        this.#writeOp(entry, domain, origin);
      } else writer.get(domain, keys[place]!, typeof entry === "function" ? OpKind.GET : OpKind.FETCH);
    }
    return writer.finish(envelope);
  }

  #writeOp(op: PooledOp, domain: number, origin: number): void {
    const { script, shape, deadline } = op;
    // A GET with a deadline of its own.
    const short = op.kind === OpKind.GET;
    const kind = short ? OpKind.CALL : op.kind;
    const extra = short ? Expect.VALUE : op.extra;
    const buffers = kind === OpKind.BLOCK && shape === BUFFER_SHAPE ? OP_BUFFERS : 0;
    const flags = (op.cancellable ? OP_CANCELLABLE : 0) | (script === null ? 0 : OP_SCRIPT) | buffers;
    const timeoutMs = deadline === NEVER ? 0 : Math.max(1, deadline - origin);
    this.#writer.add(kind, flags, domain, op.head, timeoutMs, extra, op.first, op.rest, script);
  }

  /** Several messages may have come, and their events are one turn: none is read in its event. */
  #arrived(crate: ArrayBuffer): void {
    this.#arrivals.push(crate);
    if (this.#reading) return;
    this.#reading = true;
    setImmediate(this.#readSome);
  }

  /** Reads so many answers that the event loop is not held up, and the rest in turns of their own. */
  readonly #readSome = (): void => {
    this.#reading = this.#readAnswers(SLICE);
    if (this.#reading) setImmediate(this.#readSome);
  };

  /** Reads up to `most` answers of the messages that are there. Whether any are left. */
  #readAnswers(most: number): boolean {
    const reader = this.#reader;
    for (let room = most; room > 0;) {
      if (reader.left === 0) {
        const crate = this.#arrivals.shift();
        if (crate === undefined) return false;
        reader.open(crate);
        this.#unread = (this.#posted - reader.taken) | 0;
      }
      const count = Math.min(room, reader.left);
      room -= count;
      this.#settle(count);
      if (reader.left === 0) this.#crates.give(reader.close());
    }
    return reader.left > 0 || this.#arrivals.length > 0;
  }

  /** One try block for all: an answer that cannot be decoded is passed over and the rest goes on. */
  #settle(count: number): void {
    const reader = this.#reader;
    const { rows } = reader;
    let batch: Batch | undefined;
    let place = 0;
    let entry: Entry = null;
    for (let done = 0; done < count;) {
      try {
        for (; done < count; done += 1) {
          const id = reader.next();
          batch = this.#batches[id >> PLACE_BITS]!;
          place = id & (BATCH_OPS - 1);
          entry = batch.entries[place]!;
          batch.entries[place] = null;
          batch.left -= 1;
          this.#held -= 1;
          if (batch.left === 0) this.#release(id >> PLACE_BITS);
          if (entry === null) continue;
          if (reader.failed || entry instanceof PooledOp) {
            this.#answer(batch.held(place, entry));
            continue;
          }
          const lane = batch.laneOf(place);
          if (typeof entry === "function") lane.gotten(entry, lane.valueShape.read(rows));
          else lane.fetched(entry, rows);
        }
      } catch (cause) {
        done += 1;
        const op = batch!.held(place, entry!);
        op.lane.undecodable(op, cause as Error);
      }
    }
  }

  /** The answer at the reader is that of `op`. */
  #answer(op: PooledOp): void {
    if (op.state === SETTLED) return;
    if (this.#reader.failed) op.lane.failed(op, this.#reader.error());
    else op.lane.answered(op, op.shape.read(this.#reader.rows));
  }

  #release(slot: number): void {
    this.#batches[slot] = null;
    this.#free.push(slot);
  }

  #reset(): void {
    this.#batches = [];
    this.#free = [];
    this.#held = 0;
    this.#posted = 0;
    this.#unread = 0;
    this.#cancelled = [];
    this.#earliest = NEVER;
  }
}
