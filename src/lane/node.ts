/**
 * One connection to one node. ioredis dials and keeps it; between `ready` and `close` the lane writes frames and scans
 * replies itself. Replies come in the order of the requests, so a ring of operations is all the state there is:
 *
 * ```text
 * ring   … | answered | head → sent, waiting for replies … | tail → free | …      power of two, int32 positions that wrap
 * ```
 *
 * The invariant: bytes of an operation are written if and only if it is pushed to the ring in the same order, and it leaves
 * the ring by its reply or by the loss of the connection, once.
 */
import type { Socket } from "node:net";
import { Redis } from "ioredis";
import type { RedisOptions } from "ioredis";
import { KeylaneError } from "../errors.js";
import { native } from "../native/index.js";
import {
  KEY_NONE,
  Kind,
  Opcode,
  ROW_WORDS,
  ROWS_BASE,
  SCAN_CONSUMED,
  SCAN_ROWS_NEEDED,
  SCAN_STATUS,
  ScanStatus,
} from "../native/types.js";
import type { Address, NodeView } from "../routing/topology.js";
import { SocketSource, takeStream } from "./connector.js";
import type { ByteSink } from "./connector.js";
import { encoder } from "./frame.js";
import type { Outgoing } from "./frame.js";
import type { LaneConfig, SentinelConfig } from "./config.js";
import { Op, QUEUED, SENT, SETTLED, headOf } from "./op.js";
import { PAIRS_SHAPE, RAW_SHAPE, ReplyRows } from "./replies.js";
import type { Shape } from "./replies.js";

const READ_BYTES = 128 << 10;
const IDLE = 0;
/** Bulk limit of a server that does not tell. */
const DEFAULT_MAX_BULK = 512 << 20;
const LIMITS = { maxBulk: DEFAULT_MAX_BULK, maxRows: 8 << 20, maxDepth: 128, maxLine: 64 << 10 };

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
  /** A replica that may have lost its data says that there is none. */
  doubted(op: Op): void;
  /** `op` cannot be answered. */
  failed(op: Op, error: KeylaneError): void;
  pushed(node: NodeLane, rows: ReplyRows): void;
  /** Replies were handled (or the ring was emptied): fences may have been passed. */
  progressed(node: NodeLane): void;
  up(node: NodeLane): void;
  down(node: NodeLane, reason: string): void;
}

export type NodeState = "connecting" | "ready" | "down" | "closed";

/** Stands in the ring for a reply that nobody waits for. */
const IGNORED = new Op(headOf(Opcode.GENERIC, KEY_NONE, false), "ASKING", null, () => {}, RAW_SHAPE, Infinity, IDLE);
IGNORED.state = SETTLED;

export class NodeLane implements ByteSink {
  readonly index: number;
  readonly generation: number;
  readonly address: Address;
  /** `host:port` */
  readonly name: string;
  /** Whether it was a replica when it was dialled (and so told READONLY). */
  readonly replica: boolean;
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
  bytesReceived = 0;
  writes = 0;
  /** For replicas: linked to its primary when last asked. */
  healthy = true;
  /** Smoothed round trip in milliseconds; 0 before the first measurement. */
  roundTripMs = 0;
  /** When bytes last arrived, on the `performance.now` clock. */
  heardAt = 0;
  /** Earliest deadline in the ring, or an older one. */
  earliest = Infinity;
  tail = 0;
  head = 0;
  readonly #owner: NodeOwner;
  readonly #redis: Redis;
  readonly #source: SocketSource;
  readonly #scanner = native.createScanner(LIMITS);
  readonly #rows: ReplyRows;
  #ring: (Op | undefined)[] = Array.from({ length: 1024 });
  #mask = 1023;
  #socket: Socket | null = null;
  #memory = Buffer.allocUnsafeSlow(READ_BYTES);
  /** End of the bytes received in `#memory`, and start of the first incomplete reply. */
  #fill = 0;
  #parsed = 0;

  constructor(owner: NodeOwner, view: NodeView) {
    this.#owner = owner;
    this.index = view.index;
    this.generation = view.generation;
    this.address = { host: view.host, port: view.port };
    this.name = `${view.host}:${view.port}`;
    this.replica = view.replica;
    this.#rows = new ReplyRows(this.#memory);
    const { config } = owner;
    this.healthy = !view.replica;
    this.#source = new SocketSource({ host: view.host, port: view.port, tls: config.tls });
    const options: RedisOptions = {
      ...this.#way(),
      ...config.credentials,
      ...(config.tls === undefined ? {} : { tls: config.tls }),
      ...(config.db === undefined ? {} : { db: config.db }),
      connectionName: config.connectionName,
      readOnly: config.mode === "cluster" && view.replica,
      lazyConnect: true,
      enableReadyCheck: false,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      autoResubscribe: false,
      disableClientInfo: true,
      maxRetriesPerRequest: null,
      commandTimeout: config.connectTimeoutMs,
      connectTimeout: config.connectTimeoutMs,
      retryStrategy: backOff,
    };
    this.#redis = new Redis(options as RedisOptions & { replyMapping?: "legacy" });
    this.#redis.on("error", (error: Error) => {
      this.lastError = error;
    });
    this.#redis.on("ready", () => this.#ready());
    this.#redis.on("close", () => this.#lost());
    this.#redis.connect().catch((error: Error) => {
      this.lastError = error;
    });
  }

  /** Operations sent and not answered. */
  get inFlight(): number {
    return (this.tail - this.head) | 0;
  }

  /** Bytes accepted by the socket and not yet by the kernel. */
  get unwritten(): number {
    return this.#socket?.writableLength ?? 0;
  }

  /** Whether bytes can be written: from the handshake's end on. */
  get writable(): boolean {
    return this.#socket !== null && this.#socket.writable;
  }

  /** Whether replies are due. */
  get owes(): boolean {
    return this.inFlight > 0 && this.#socket !== null;
  }

  /** Whether `count` more operations may be sent now. */
  accepts(count: number): boolean {
    const { maxQueue, maxQueueBytes } = this.#owner.config;
    return this.state === "ready" && this.inFlight + count <= maxQueue && this.unwritten < maxQueueBytes;
  }

  /** Notes that the bytes of `op` are about to be written. */
  push(op: Op): void {
    if (op.block !== null) for (const stand of op.block.stand) this.#place(stand);
    this.#place(op);
  }

  #place(op: Op): void {
    if (this.inFlight > this.#mask) this.#grow();
    this.#ring[this.tail & this.#mask] = op;
    this.tail = (this.tail + 1) | 0;
    if (op.state === QUEUED) op.state = SENT;
    if (op.deadline < this.earliest) this.earliest = op.deadline;
  }

  /** Writes the frames of the operations just pushed. */
  write(target: Outgoing, offset: number, bytes: number): void {
    target.uses += 1;
    this.writes += 1;
    this.bytesSent += bytes;
    if (this.inFlight === 0) this.heardAt = performance.now();
    this.#socket!.write(target.bytes.subarray(offset, offset + bytes), target.release);
  }

  /** Sends operations to this very node, in order; an operation marked ASKING is preceded by that command. */
  send(ops: readonly Op[], asking: boolean): void {
    if (ops.length === 0) return;
    const { target, bytes } = encoder.encodeTo(ops);
    for (const op of ops) {
      if (asking) this.push(IGNORED);
      this.push(op);
    }
    this.write(target, 0, bytes);
  }

  memory(): Buffer {
    return this.#fill === 0 ? this.#memory : this.#memory.subarray(this.#fill);
  }

  received(memory: Uint8Array, count: number): void {
    if (memory.buffer !== this.#memory.buffer) {
      this.#reserve(count);
      this.#memory.set(memory.subarray(0, count), this.#fill);
    }
    this.bytesReceived += count;
    this.#fill += count;
    this.heardAt = performance.now();
    if (!this.#scan()) return;
    this.#compact();
    this.#owner.progressed(this);
  }

  /** Fails what is past its deadline in the ring and the waiting list. The ring keeps the places: replies still come. */
  sweep(now: number, expired: (op: Op, node: NodeLane) => void): void {
    if (this.inFlight > 0 && now >= this.earliest) {
      let earliest = Infinity;
      for (let at = this.head; at !== this.tail; at = (at + 1) | 0) {
        const op = this.#ring[at & this.#mask]!;
        if (op.state === SETTLED) continue;
        if (now >= op.deadline) expired(op, this);
        else if (op.deadline < earliest) earliest = op.deadline;
      }
      this.earliest = earliest;
    }
    if (this.waiting.length === 0) return;
    for (const op of this.waiting) if (op.state !== SETTLED && now >= op.deadline) expired(op, this);
    this.waiting = this.waiting.filter((op) => op.state !== SETTLED);
  }

  /** Drops the connection at once; ioredis dials again. */
  reset(reason: Error): void {
    this.lastError = reason;
    this.#socket?.destroy();
  }

  /** Ends the connection for good. In-flight operations are reported lost. */
  close(): void {
    if (this.state === "closed") return;
    const wasDown = this.state !== "ready";
    this.state = "closed";
    this.#redis.disconnect();
    (this.#socket ?? this.#source.socket)?.destroy();
    this.#socket = null;
    this.#drain();
    if (!wasDown) this.#owner.down(this, "closed");
  }

  /** How ioredis reaches the node: over a socket of ours, or the way its Sentinels say. */
  #way(): RedisOptions {
    const { sentinels } = this.#owner.config;
    if (sentinels !== undefined) return throughSentinels(sentinels);
    return { Connector: this.#source.Connector, ...this.address } as RedisOptions;
  }

  #ready(): void {
    if (this.state === "closed") return;
    try {
      this.#fill = 0;
      this.#parsed = 0;
      this.#scanner.reset();
      this.#socket =
        this.#owner.config.sentinels === undefined
          ? this.#source.handOver(this)
          : takeStream(this.#redis.stream as Socket, this);
    } catch (error) {
      this.lastError = error as Error;
      return;
    }
    this.#socket.on("error", (error: Error) => {
      this.lastError = error;
    });
    this.connects += 1;
    void this.#preflight();
  }

  /** Asks for the server's bulk limit: a longer value would make it close the connection on everybody. */
  async #preflight(): Promise<void> {
    try {
      const ask = ["GET", "proto-max-bulk-len"];
      const told = await this.#owner.callNode(this, "CONFIG", ask, PAIRS_SHAPE, this.#owner.config.connectTimeoutMs);
      const limit = Number((told as Record<string, string>)["proto-max-bulk-len"]);
      if (limit > 0) this.maxBulk = limit;
    } catch (error) {
      // A user without CONFIG, or a product that hides it, keeps the protocol's own limit; a lost connection is no answer.
      if ((error as KeylaneError).outcome !== "rejected") return;
    }
    this.#open();
  }

  #open(): void {
    if (this.state === "closed" || this.#socket === null || this.#socket.destroyed) return;
    this.state = "ready";
    this.lastError = null;
    this.#owner.up(this);
  }

  #lost(): void {
    if (this.state === "closed") return;
    const wasReady = this.state === "ready";
    this.state = "down";
    this.#socket = null;
    const reason = this.lastError?.message ?? "the connection was closed";
    this.#drain();
    if (wasReady || this.connects === 0) this.#owner.down(this, reason);
  }

  #drain(): void {
    const { head, tail } = this;
    this.head = tail;
    this.earliest = Infinity;
    for (let at = head; at !== tail; at = (at + 1) | 0) {
      const op = this.#ring[at & this.#mask]!;
      this.#ring[at & this.#mask] = undefined;
      if (op.state !== SETTLED) this.#owner.lost(op, this);
    }
    this.#owner.progressed(this);
  }

  /** Scans and delivers all complete replies. False when the connection had to be dropped. */
  #scan(): boolean {
    const rows = this.#rows;
    for (;;) {
      const count = this.#scanner.scan(this.#memory, this.#parsed, this.#fill, rows.table);
      if (count > 0 && !this.#deliver(count)) return false;
      this.#parsed = rows.table[SCAN_CONSUMED]!;
      const status = rows.table[SCAN_STATUS]!;
      if (status === ScanStatus.MORE) return true;
      if (status === ScanStatus.BAD) return this.#protocolError("the server sent bytes that are not a reply");
      if (count === 0) rows.table = new Int32Array(ROWS_BASE + ROW_WORDS * 2 * rows.table[SCAN_ROWS_NEEDED]!);
    }
  }

  #deliver(count: number): boolean {
    const rows = this.#rows;
    const owner = this.#owner;
    rows.at = ROWS_BASE;
    let done = 0;
    let begin = ROWS_BASE;
    let op: Op | undefined;
    while (done < count) {
      try {
        for (; done < count; done += 1) {
          begin = rows.at;
          const kind = rows.kind();
          if (kind === Kind.PUSH) {
            op = IGNORED;
            begin = rows.at;
            owner.pushed(this, rows);
            rows.at = begin;
            rows.skip();
            continue;
          }
          if (this.head === this.tail) return this.#protocolError("the server sent a reply that nothing asked for");
          const at = this.head & this.#mask;
          op = this.#ring[at]!;
          this.#ring[at] = undefined;
          this.head = (this.head + 1) | 0;
          if (kind === Kind.ERROR || kind === Kind.BLOB_ERROR) owner.refused(op, rows.text(), this);
          else if (op.state === SETTLED) rows.skip();
          else {
            const value = op.shape.read(rows);
            if (value === null && !this.healthy && op.isRead) owner.doubted(op);
            else owner.answered(op, value);
          }
        }
      } catch (cause) {
        rows.at = begin;
        rows.skip();
        done += 1;
        const error =
          cause instanceof KeylaneError
            ? cause
            : new KeylaneError("KEYLANE_ERR_CODEC", `the reply cannot be decoded: ${(cause as Error).message}`, {
                cause,
                command: op!.command,
                node: this.name,
                outcome: op!.isRead ? "rejected" : "unknown",
              });
        owner.failed(op!, error);
      }
    }
    return true;
  }

  #protocolError(message: string): false {
    this.reset(new KeylaneError("KEYLANE_ERR_PROTOCOL", message, { node: this.name }));
    return false;
  }

  /** Moves an incomplete reply to the front of the memory, which grows only as bytes really arrive. */
  #compact(): void {
    const left = this.#fill - this.#parsed;
    if (left === 0) {
      if (this.#memory.length > READ_BYTES) this.#replaceMemory(READ_BYTES, 0);
    } else if (left * 2 > this.#memory.length) this.#replaceMemory(this.#memory.length * 2, left);
    else if (this.#parsed > 0) this.#memory.copyWithin(0, this.#parsed, this.#fill);
    this.#fill = left;
    this.#parsed = 0;
  }

  #reserve(bytes: number): void {
    if (this.#fill + bytes > this.#memory.length) {
      const left = this.#fill - this.#parsed;
      this.#replaceMemory(2 * (left + bytes), left);
      this.#fill = left;
      this.#parsed = 0;
    }
  }

  #replaceMemory(size: number, left: number): void {
    const memory = Buffer.allocUnsafeSlow(size);
    if (left > 0) this.#memory.copy(memory, 0, this.#parsed, this.#parsed + left);
    this.#memory = memory;
    this.#rows.buffer = memory;
  }

  #grow(): void {
    const size = (this.#mask + 1) * 2;
    const ring: (Op | undefined)[] = Array.from({ length: size });
    for (let at = this.head; at !== this.tail; at = (at + 1) | 0) ring[at & (size - 1)] = this.#ring[at & this.#mask];
    this.#ring = ring;
    this.#mask = size - 1;
  }
}

function throughSentinels({ sentinels, name, username, password }: SentinelConfig): RedisOptions {
  return {
    sentinels: sentinels.map(({ host, port }) => ({ host, port })),
    name,
    role: "master",
    failoverDetector: true,
    sentinelRetryStrategy: backOff,
    ...(username === undefined ? {} : { sentinelUsername: username }),
    ...(password === undefined ? {} : { sentinelPassword: password }),
  };
}

/** Delay before dial number `times`: exponential from 50 ms to 2 s, with full jitter in its upper half. */
function backOff(times: number): number {
  const delay = Math.min(2000, 50 * 2 ** Math.min(times - 1, 6));
  return Math.round(delay * (0.5 + Math.random() / 2));
}
