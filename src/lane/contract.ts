/**
 * What the layers above need of a domain's lane, wherever its connections live: in this thread (`DomainLane`) or in a worker's
 * (`src/pool`). The invariant of both: each call is settled exactly once, in order per key, and by its deadline.
 */
import type { KeylaneError } from "../errors.js";
import type { Topology } from "../routing/topology.js";
import type { CommandOptions, DomainStats, Reply } from "../types.js";
import type { Codec } from "./codec.js";
import type { LaneConfig } from "./config.js";
import type { NodeLane } from "./node.js";
import type { AskingOp, Block, Op, Settle, WireArg } from "./op.js";
import type { ReplyRows, Shape, ValueShape } from "./replies.js";

/** What a lane tells the facade. */
export interface LaneListener {
  nodeUp(domain: string, node: string): void;
  nodeDown(domain: string, node: string, reason: string): void;
  topology(domain: string, version: number): void;
  degraded(domain: string, reason: string): void;
  error(error: KeylaneError): void;
}

/** Takes part in the life of a lane's connections: the shared cache, to hear of changes made by others. */
export interface ConnectionHooks {
  /** The handshake is over; operations wait for this. */
  prepare(node: NodeLane): Promise<void>;
  /** A push frame; the cursor stands at it. */
  pushed(node: NodeLane, rows: ReplyRows): void;
  /** The connection with this feeder number is gone. */
  unfed(feeder: number): void;
}

/** Stands between a write and its caller, who must not hear of it while copies of the old value can be read. */
export interface WriteGate {
  /** Whether there are any copies. Asked once per operation: a plain read. */
  readonly active: boolean;
  /** An operation was answered. True when the gate settles it, later. */
  holds(op: Op, value: unknown): boolean;
  /** An operation failed, and may have run all the same, or in part. True when the gate settles it, later. */
  failed(op: Op, error: KeylaneError): boolean;
}

/** What every call may bring. `timeoutMs` is already validated. */
export interface CallLimits {
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The shapes of a load: a value together with its key's remaining life. */
export interface LoadShapes {
  readonly key: WireArg;
  /** Reads the reply of PTTL, which comes first. */
  readonly life: Shape;
  /** Reads the value's reply, and stores it. */
  readonly value: Shape;
  /** Instead of both, where another thread loaded and stored: reads where it is kept (three words), then the value. */
  readonly fetched: Shape;
  /** Whether the lane counts the key: a caller asked for it, and nobody else counts that. */
  readonly counted: boolean;
}

/** A caller's GET that missed, on its way to a thread that has the cache too: there it is decided who loads the key. */
export interface Fetch {
  readonly key: string;
  /** Settles, once: by the value, which is kept in way `index` of the region (-1: nowhere), or by a rejected promise. */
  land(value: unknown, index: number, proof: number, check: number): void;
}

/** The way to such a thread. */
export interface Fetcher {
  fetch(fetch: Fetch): void;
}

/** A domain's lane. Calls reject with a `KeylaneError` and never throw. */
export interface Lane {
  readonly config: LaneConfig;
  readonly codec: Codec;
  readonly valueShape: ValueShape;
  readonly topology: Topology;
  /** What settled writes pass; null for none. */
  gate: WriteGate | null;
  /** Null where the connections are this thread's own. */
  readonly fetcher: Fetcher | null;
  /** The hot path: one GET. */
  get(key: WireArg): Promise<unknown>;
  /** Any other command. A null shape reads a value by the domain's codec; `script` is the source of an EVALSHA. */
  call(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    limits?: CallLimits,
    script?: string | null,
  ): Promise<unknown>;
  /**
   * As `call`, for what keylane does by itself: neither `stats` nor the counters of keys tell it. With `stands` it is made in
   * place of a caller's call, and `stats` tell it once it gives a value other than null.
   */
  own(
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    limits: CallLimits,
    stands: boolean,
  ): Promise<unknown>;
  /** As `call`, for an operation that settles itself; its deadline is set here. */
  ask(op: AskingOp, limits: CallLimits): void;
  /** A value together with the key's remaining life. Only the value's reply settles: by itself, errors as rejected promises. */
  load(load: LoadShapes, limits: CallLimits, settle: Settle): void;
  /** A whole transaction; see `transaction.ts`. */
  transact(key: WireArg, frames: WireArg, shape: Shape, block: Block, limits: CallLimits): Promise<unknown>;
  /** A command that blocks: on a connection of its own. Without `timeoutMs` it may take as long as it asked the server. */
  block(name: string, args: readonly WireArg[], slot: number, options: CommandOptions): Promise<Reply>;
  /** Refuses new calls; resolves when nothing is outstanding. */
  drained(): Promise<void>;
  /** Ends everything now. Returns how many calls failed by it. */
  destroy(): number;
  stats(): DomainStats;
  /** Connections made after the first one to each node. */
  reconnects(): number;
}
