/**
 * One connection to one node. ioredis dials and keeps it; between `ready` and `close` the lane writes frames and reads
 * replies itself (`inbox.ts`). Replies come in the order of the requests, so a ring of operations is all the state there is.
 *
 * The invariant: bytes of an operation are written if and only if it is pushed to the ring in the same order, and it leaves
 * the ring by its reply or by the loss of the connection, once.
 */
import type { Socket } from "node:net";
import { Redis } from "ioredis";
import { KeylaneError } from "../errors.js";
import { KEY_NONE, Opcode } from "../native/types.js";
import type { Address, NodeView } from "../routing/topology.js";
import type { LaneConfig } from "./config.js";
import { SocketSource, takeStream } from "./connector.js";
import { backOff, dialOptions } from "./dial.js";
import { encoder } from "./frame.js";
import type { Outgoing } from "./frame.js";
import { Inbox } from "./inbox.js";
import type { ReplyTaker } from "./inbox.js";
import { OpRing } from "./op-ring.js";
import { Op, QUEUED, SENT, SETTLED, headOf } from "./op.js";
import { PAIRS_SHAPE, RAW_SHAPE } from "./replies.js";
import type { Feed, ReplyRows, Shape } from "./replies.js";
import { NEVER } from "./turn.js";

/** Bulk limit of a server that does not tell. */
const DEFAULT_MAX_BULK = 512 << 20;

/** What a node tells its domain's lane. */
export interface NodeOwner {
  readonly config: LaneConfig;
  /** Sends a command of keylane's own to one node. */
  callNode(node: NodeLane, name: string, args: readonly string[], shape: Shape, timeoutMs: number): Promise<unknown>;
  /** An error reply to `op`. */
  refused(op: Op, message: string, node: NodeLane): void;
  /** The connection broke with `op` sent and unanswered. */
  lost(op: Op, node: NodeLane): void;
  /** `op` got its value. */
  answered(op: Op, value: unknown): void;
  /** A replica says that there is none, which its primary must confirm. */
  doubted(op: Op): void;
  /** `op` cannot be answered. */
  failed(op: Op, error: KeylaneError): void;
  pushed(node: NodeLane, rows: ReplyRows): void;
  /** The handshake is over: whatever has to be sent before the first operation. */
  prepare(node: NodeLane): Promise<void>;
  /** The connection that kept the values of `feeder` coherent is gone. */
  unfed(feeder: number): void;
  /** Replies were handled (or the ring was emptied): fences may have been passed. */
  progressed(node: NodeLane): void;
  up(node: NodeLane): void;
  down(node: NodeLane, reason: string): void;
}

/** `leaving` and `renewing`: nothing is sent, and when it owes nothing the connection ends, or is made anew. */
export type NodeState = "connecting" | "ready" | "down" | "leaving" | "renewing" | "closed";

/** A connection that is leaving or renewing and silent for so long, in milliseconds, is given up. */
const LEAVE_MS = 200;

/** Stands in the ring for a reply that nobody waits for. */
const IGNORED = new Op(headOf(Opcode.GENERIC, KEY_NONE, false), "ASKING", null, () => {}, RAW_SHAPE, NEVER, 0);
IGNORED.state = SETTLED;

export class NodeLane implements ReplyTaker {
  readonly index: number;
  readonly generation: number;
  /** Behind Sentinels: of the one asked first, and from the first connection on of the primary. */
  address: Address;
  /** `host:port` */
  name: string;
  /** Whether it was a replica when it was dialled (and so told READONLY). */
  replica: boolean;
  state: NodeState = "connecting";
  /** Operations for this node that wait for the connection, in order. */
  waiting: Op[] = [];
  /** Last connection error. */
  lastError: Error | null = null;
  /** Longest bulk the server accepts. */
  maxBulk = DEFAULT_MAX_BULK;
  /** Times it became ready. */
  connects = 0;
  bytesSent = 0;
  writes = 0;
  readonly feed: Feed = { feeder: 0, healthy: true };
  /** For replicas: linked to its primary when last asked. */
  linked = false;
  /** Smoothed round trip in milliseconds; 0 before the first measurement. */
  roundTripMs = 0;
  readonly ring = new OpRing();
  readonly inbox: Inbox = new Inbox(this, this.feed);
  readonly #owner: NodeOwner;
  readonly #redis: Redis;
  readonly #source: SocketSource;
  #socket: Socket | null = null;
  /** Earliest deadline in the ring, or an older one. */
  #earliest = NEVER;
  /** Since when replies have been due without a byte arriving. */
  #owedSince = 0;
  /** Dials since a connection was of use. */
  #dials = 0;
  /** The ring's head when the connection was opened: what is past it was answered. */
  #headAtOpen = 0;
  /** The owner knows that the node is down. */
  #downTold = false;
  /** The operation whose reply is being read. */
  #current: Op = IGNORED;

  constructor(owner: NodeOwner, view: NodeView) {
    this.#owner = owner;
    this.index = view.index;
    this.generation = view.generation;
    this.address = { host: view.host, port: view.port };
    this.name = `${view.host}:${view.port}`;
    this.replica = view.replica;
    this.feed.healthy = !view.replica;
    this.#source = new SocketSource({ ...this.address, serverName: view.serverName, tls: owner.config.tls });
    this.#redis = new Redis(dialOptions(owner.config, this.#source, this.address, view.replica, () => this.#pause()));
    this.#redis.on("error", (error: Error) => {
      this.lastError = error;
    });
    this.#redis.on("ready", () => this.#ready());
    this.#redis.on("close", () => this.#lost());
    this.#redis.connect().catch((error: Error) => {
      // It only says that the connection closed; why was told before.
      this.lastError ??= error;
    });
  }

  /** Whether bytes can be written: from the handshake's end on. */
  get writable(): boolean {
    return this.#socket !== null && this.#socket.writable;
  }

  /** Whether the server can tell something that was not asked: only RESP3 has frames for that. */
  get takesPushes(): boolean {
    return (this.#redis as unknown as { condition?: { protocol: number } }).condition?.protocol === 3;
  }

  /** Whether it is worth waiting for: not ready yet (or just broken, and about to be told so), and not given up. */
  get awaited(): boolean {
    if (this.state === "ready") return !this.#socket!.writable;
    return this.state === "connecting" || this.state === "down" || this.state === "renewing";
  }

  /** Whether `count` more operations may be sent now. */
  accepts(count: number): boolean {
    const { maxQueue, maxQueueBytes } = this.#owner.config;
    if (this.state !== "ready" || this.ring.size + count > maxQueue) return false;
    const socket = this.#socket!;
    return socket.writable && socket.writableLength < maxQueueBytes;
  }

  /** Notes that the bytes of `op` are about to be written. */
  push(op: Op): void {
    if (op.block !== null) for (const stand of op.block.stand) this.ring.push(stand);
    this.ring.push(op);
    if (op.state === QUEUED) op.state = SENT;
    if (op.deadline < this.#earliest) this.#earliest = op.deadline;
  }

  /** Writes the frames of the operations just pushed. */
  write(target: Outgoing, offset: number, bytes: number): void {
    target.uses += 1;
    this.writes += 1;
    this.bytesSent += bytes;
    if (this.#owedSince === 0) this.#owedSince = performance.now();
    this.#socket!.write(target.bytes.subarray(offset, offset + bytes), target.release);
  }

  /** Sends operations to this very node, in order; `asking` precedes each by that command (their heads say so too). */
  send(ops: readonly Op[], asking: boolean): void {
    if (ops.length === 0) return;
    const { target, bytes } = encoder.encodeTo(ops);
    for (const op of ops) {
      if (asking) this.ring.push(IGNORED);
      this.push(op);
    }
    this.write(target, 0, bytes);
    target.release();
  }

  /** Whether the node owes replies and has been silent for `limitMs`. */
  silentFor(now: number, limitMs: number): boolean {
    return this.#owedSince !== 0 && now - Math.max(this.#owedSince, this.inbox.heardAt) > limitMs;
  }

  /** Fails what is past its deadline in the ring and the waiting list. The ring keeps the places: replies still come. */
  sweep(now: number, expired: (op: Op, node: NodeLane) => void): void {
    if (now >= this.#earliest) {
      let earliest = NEVER;
      this.ring.forEach((op) => {
        if (op.state === SETTLED) return;
        if (now >= op.deadline) expired(op, this);
        else if (op.deadline < earliest) earliest = op.deadline;
      });
      this.#earliest = earliest;
    }
    if (this.state === "leaving" && this.silentFor(now, LEAVE_MS)) this.close();
    if (this.state === "renewing" && this.silentFor(now, LEAVE_MS)) this.reset(this.lastError!);
    if (this.waiting.length === 0) return;
    for (const op of this.waiting) if (op.state !== SETTLED && now >= op.deadline) expired(op, this);
    this.waiting = this.waiting.filter((op) => op.state !== SETTLED);
  }

  /** Drops the connection at once; ioredis dials again. */
  reset(reason: Error): void {
    this.lastError = reason;
    this.#socket?.destroy();
  }

  /**
   * A replica became the primary. The connection stays, and takes READONLY back: else it would answer reads with old values
   * when the node is demoted one day.
   */
  promote(): void {
    this.replica = false;
    this.feed.healthy = true;
    if (this.#redis.options.readOnly !== true) return;
    this.#redis.options.readOnly = false;
    const { connectTimeoutMs } = this.#owner.config;
    if (this.writable) this.#owner.callNode(this, "READWRITE", [], RAW_SHAPE, connectTimeoutMs).catch(() => {});
    else this.#redis.disconnect(true);
  }

  /** Takes nothing any more, and ends when it owes nothing. */
  leave(): void {
    if (this.state === "ready" && this.ring.size > 0) this.state = "leaving";
    else this.close();
  }

  /** Makes the connection anew, as soon as it owes nothing: whom it leads to is no longer right. */
  renew(reason: Error): void {
    if (this.state !== "ready") return;
    this.state = "renewing";
    this.lastError = reason;
    if (this.ring.size === 0) this.reset(reason);
  }

  /** Ends the connection for good. In-flight operations are reported lost. */
  close(): void {
    if (this.state === "closed") return;
    const wasReady = this.state === "ready" || this.state === "leaving";
    this.state = "closed";
    this.#redis.disconnect();
    (this.#socket ?? this.#source.socket)?.destroy();
    this.#socket = null;
    this.#drain();
    if (wasReady) this.#owner.down(this, "closed");
  }

  // ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────────

  reply(rows: ReplyRows): boolean {
    const op = this.ring.shift();
    if (op === undefined) return false;
    if (op.state === SETTLED) rows.skip();
    else {
      this.#current = op;
      const value = op.shape.read(rows);
      if ((value === null || value === false) && !this.feed.healthy && op.isRead) this.#owner.doubted(op);
      else this.#owner.answered(op, value);
    }
    return true;
  }

  error(rows: ReplyRows): boolean {
    const op = this.ring.shift();
    if (op === undefined) return false;
    this.#current = op;
    this.#owner.refused(op, rows.text(), this);
    return true;
  }

  pushed(rows: ReplyRows): void {
    this.#owner.pushed(this, rows);
  }

  undecodable(cause: Error): boolean {
    const op = this.#current;
    const context = { cause, command: op.command, domain: this.#owner.config.domain, node: this.name } as const;
    if (!(cause instanceof KeylaneError)) {
      const message = `the reply cannot be decoded: ${cause.message}`;
      this.#owner.failed(op, new KeylaneError("KEYLANE_ERR_CODEC", message, { ...context, outcome: "unknown" }));
      return true;
    }
    this.#owner.failed(op, new KeylaneError(cause.code, `${op.command}: ${cause.message}`, context));
    if (cause.code !== "KEYLANE_ERR_PROTOCOL") return true;
    // Replies and operations are out of step, or the server is broken: nothing that follows can be trusted.
    this.broken(cause);
    return false;
  }

  handled(): void {
    this.#current = IGNORED;
    if (this.ring.size === 0) {
      this.#owedSince = 0;
      if (this.state === "leaving") this.close();
      else if (this.state === "renewing") this.reset(this.lastError!);
    }
    this.#owner.progressed(this);
  }

  broken(error: KeylaneError): void {
    this.reset(error);
  }

  // ── connection ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Milliseconds before the next dial: they grow until a connection has answered something. */
  #pause(): number {
    const useful = (this.state === "ready" || this.state === "renewing") && this.ring.head !== this.#headAtOpen;
    this.#dials = useful ? 1 : this.#dials + 1;
    return backOff(this.#dials);
  }

  #ready(): void {
    if (this.state === "closed") return;
    if (unanswered(this.#redis) > 0) {
      this.lastError = new KeylaneError("KEYLANE_ERR_PROTOCOL", "the server left a part of the handshake unanswered");
      this.#redis.stream.destroy();
      return;
    }
    try {
      this.#socket =
        this.#owner.config.sentinels === undefined
          ? this.#source.handOver(this.inbox)
          : takeStream(this.#redis.stream as Socket, this.inbox);
    } catch (error) {
      this.lastError = error as Error;
      return;
    }
    this.#socket.on("error", (error: Error) => {
      this.lastError = error;
    });
    if (this.#owner.config.sentinels !== undefined) this.#learnAddress(this.#socket);
    this.connects += 1;
    void this.#preflight();
  }

  /** Asks for the server's bulk limit: a longer value would make it close the connection on everybody. */
  async #preflight(): Promise<void> {
    try {
      const ask = ["GET", "proto-max-bulk-len"];
      const told = await this.#owner.callNode(this, "CONFIG", ask, PAIRS_SHAPE, this.#owner.config.connectTimeoutMs);
      const limit = Number((told as Record<string, string> | null)?.["proto-max-bulk-len"]);
      if (limit > 0) this.maxBulk = limit;
    } catch (error) {
      // A user without CONFIG, or a product that hides it, keeps the protocol's own limit; a lost connection is no answer.
      if ((error as KeylaneError).outcome !== "rejected") {
        this.#socket?.destroy();
        return;
      }
    }
    await this.#owner.prepare(this);
    this.#open();
  }

  #learnAddress({ remoteAddress: host, remotePort: port }: Socket): void {
    if (host === undefined || port === undefined) return;
    this.address = { host, port };
    this.name = `${host}:${port}`;
  }

  #open(): void {
    if (this.state === "closed" || !this.writable) return;
    this.state = "ready";
    this.lastError = null;
    this.#headAtOpen = this.ring.head;
    this.#downTold = false;
    this.#owner.up(this);
  }

  #lost(): void {
    if (this.state === "leaving") this.close();
    if (this.state === "closed") return;
    this.state = "down";
    this.#socket = null;
    const reason = this.lastError?.message ?? "the connection was closed";
    this.#drain();
    if (this.#downTold) return;
    this.#downTold = true;
    this.#owner.down(this, reason);
  }

  #drain(): void {
    const { feeder } = this.feed;
    this.feed.feeder = 0;
    if (feeder !== 0) this.#owner.unfed(feeder);
    this.inbox.reset();
    this.#current = IGNORED;
    const lost = this.ring.clear();
    this.#earliest = NEVER;
    this.#owedSince = 0;
    for (const op of lost) if (op.state !== SETTLED) this.#owner.lost(op, this);
    this.#owner.progressed(this);
  }
}

/** Replies that ioredis still waits for; they would be taken for answers to the lane's operations. */
function unanswered(redis: Redis): number {
  return (redis as unknown as { commandQueue?: { length: number } }).commandQueue?.length ?? 0;
}
