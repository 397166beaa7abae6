/** What a lane needs to know of its domain; made once at open from the validated options. */
import type { ConnectionOptions } from "node:tls";
import type { Address } from "../routing/topology.js";
import type { CodecName, ScaleReads } from "../types.js";

/** Announced `host:port` → the address to dial; null leaves the node unreachable. Same shapes as ioredis. */
export type NatMap =
  | Readonly<Record<string, { host: string; port: number }>>
  | ((key: string) => { host: string; port: number } | null);

export interface LaneConfig {
  readonly domain: string;
  /** Index of the domain in the options. */
  readonly index: number;
  readonly cluster: boolean;
  readonly seeds: readonly Address[];
  readonly codec: CodecName;
  readonly credentials: { readonly username?: string; readonly password?: string };
  readonly tls: ConnectionOptions | undefined;
  readonly db: number | undefined;
  readonly connectionName: string;
  readonly natMap: NatMap | undefined;
  readonly scaleReads: ScaleReads;
  readonly connectTimeoutMs: number;
  readonly commandTimeoutMs: number;
  /** A node that owes replies and sends nothing for so long is dialled anew. */
  readonly silenceTimeoutMs: number;
  readonly refreshIntervalMs: number;
  /** Least distance of two topology requests of the process. */
  readonly refreshMinimumMs: number;
  readonly maxRedirections: number;
  /** Operations in flight or waiting, per node. */
  readonly maxQueue: number;
  /** Bytes the socket may hold back, per node. */
  readonly maxQueueBytes: number;
  readonly maxKeyBytes: number;
  readonly maxValueBytes: number;
}
