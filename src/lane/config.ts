/** What a lane needs to know of its domain; made once at open from the validated options. */
import type { ConnectionOptions } from "node:tls";
import type { RingServer } from "../routing/ring.js";
import type { Address } from "../routing/topology.js";
import type { CodecName, ScaleReads } from "../types.js";

/** Announced `host:port` → the address to dial; null leaves the node unreachable. Same shapes as ioredis. */
export type NatMap =
  | Readonly<Record<string, { host: string; port: number }>>
  | ((key: string) => { host: string; port: number } | null);

/** How ioredis finds the primary behind Sentinels. */
export interface SentinelConfig {
  readonly sentinels: readonly Address[];
  /** Name of the monitored primary. */
  readonly name: string;
  readonly username: string | undefined;
  readonly password: string | undefined;
}

export interface LaneConfig {
  readonly domain: string;
  /** Index of the domain in the options. */
  readonly index: number;
  readonly mode: "cluster" | "single" | "ring";
  readonly seeds: readonly Address[];
  /** Servers of a ring, with their weights; empty otherwise. */
  readonly ring: readonly RingServer[];
  /** A ring's server that is down for so long is taken out. */
  readonly ejectMs: number | undefined;
  /** Sentinels that know the primary of a single domain. */
  readonly sentinels: SentinelConfig | undefined;
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
