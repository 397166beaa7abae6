/**
 * The vocabulary of the public API: keys, arguments, options of a call, results, and the types that let a key's prefix
 * decide the type of its value.
 */
import type { KeylaneError } from "./errors.js";
import type { HotKeyEvent, HotKeyRecoveredEvent, HotKeysStats } from "./hotkeys/types.js";

/** A key. A string counts as its UTF-8 bytes, lone surrogates as U+FFFD; a `Uint8Array` as exactly its own bytes. */
export type Key = string | Uint8Array;

/** An argument of `command()`. Integers of any size are written exactly; `NaN` and `undefined` are refused. */
export type CommandArg = string | number | bigint | Uint8Array;

/** Accepted by every asynchronous call. */
export interface CallOptions {
  /** Rejects the call with `KEYLANE_ERR_ABORTED`; the connection and its other callers are unharmed. */
  readonly signal?: AbortSignal | undefined;
  /** Deadline of this call in milliseconds from now (positive safe integer). Default: `commandTimeoutMs`. */
  readonly timeoutMs?: number | undefined;
}

/** Options of `set`. */
export interface SetOptions extends CallOptions {
  /** Time to live in milliseconds (positive safe integer). */
  readonly ttlMs?: number | undefined;
  /** Store only when the key does not exist. */
  readonly ifAbsent?: boolean | undefined;
  /** Store only when the key exists. */
  readonly ifPresent?: boolean | undefined;
  /** Leave the key's remaining time to live as it is. */
  readonly keepTtl?: boolean | undefined;
}

/** Options of `command`, given as its last argument. */
export interface CommandOptions extends CallOptions {
  /** Texts of the reply come as `Buffer`. */
  readonly buffers?: boolean | undefined;
}

/** What `command()` gives back: RESP decoded to JavaScript. Integers past 2^53 are `bigint`. */
export type Reply =
  | string
  | number
  | bigint
  | boolean
  | null
  | Buffer
  | KeylaneError
  | Reply[]
  | { [field: string]: Reply };

/** Where a key lives. */
export interface Route {
  readonly domain: string;
  /** Hash slot, 0–16383. */
  readonly slot: number;
  /** `host:port` of the primary that serves the slot now, or null while none is known. */
  readonly node: string | null;
  /** The prefix that decided, or null when the fallback did. */
  readonly matched: string | null;
}

/** How a domain's values are written and read. */
export type CodecName = "utf8" | "buffer" | "json" | "msgpack";

/** Reads served by: the primary, any replica, or the nearest node by round-trip time. Same names as ioredis. */
export type ScaleReads = "master" | "slave" | "replica" | "all" | "nearest";

/** Counters of one domain in this thread, since `open`. */
export interface DomainStats {
  /** Commands accepted. */
  readonly commands: number;
  /** Calls settled with a value / with an error. */
  readonly succeeded: number;
  readonly failed: number;
  /** Calls past their deadline. */
  readonly timeouts: number;
  /** Calls refused because a queue was full. */
  readonly overloaded: number;
  readonly moved: number;
  readonly asked: number;
  /** Commands sent again, for whatever reason. */
  readonly retries: number;
  readonly bytesSent: number;
  readonly bytesReceived: number;
  /** Socket writes; `commands / writes` is the batch size reached. */
  readonly writes: number;
  /** Connections made after the first one to each node. */
  readonly reconnects: number;
  /** Topology requests sent. */
  readonly refreshes: number;
  /** Calls not settled yet. */
  readonly pending: number;
  readonly nodes: readonly NodeStats[];
}

/** One node as this thread sees it. */
export interface NodeStats {
  readonly node: string;
  readonly role: "primary" | "replica";
  readonly state: "connecting" | "ready" | "down";
  readonly slots: number;
  /** Sent and not answered yet. */
  readonly inFlight: number;
  /** Waiting for the connection. */
  readonly waiting: number;
}

/** The shared cache; counts are of all threads of the process, `l0Hits` of this one. */
export interface CacheStats {
  /** Answered by this thread's own map. */
  readonly l0Hits: number;
  /** Answered by the shared region with a value. */
  readonly l1Hits: number;
  /** Answered by the shared region: the key is known to be absent. */
  readonly absentHits: number;
  /** Answered by the shared region past the expiry, because a node could not be reached. */
  readonly staleHits: number;
  /** Lookups of the shared region that found nothing to answer with. */
  readonly misses: number;
  /** Values asked of a server, refreshes included. */
  readonly loads: number;
  /** Times that a hit elected a refresher. */
  readonly refreshes: number;
  /** Keys, prefixes and connections whose values were dropped. */
  readonly invalidations: number;
  /** Values removed to make room. */
  readonly evictions: number;
  /** Loads not stored because their key was invalidated meanwhile. */
  readonly overtaken: number;
  /** Values held now, expired ones included. */
  readonly entries: number;
  /** Bytes of the region in use. */
  readonly bytesUsed: number;
  /** What bounds staleness: the servers' invalidations, or only the time to live. */
  readonly staleness: "tracked" | "ttl";
  /** Longest that an answer may be stale now, in milliseconds. */
  readonly stalenessBoundMs: number;
}

/** Decisions about frequency caps in this thread, since `open`. */
export interface CapsStats {
  /** Made by the servers. */
  readonly allowed: number;
  readonly denied: number;
  /** Denials that were known without asking. */
  readonly cached: number;
  /** Decisions that could not be had: answered, or thrown, by `onError`. */
  readonly degraded: number;
  /** Counters raised to what was seen before a failover. */
  readonly repaired: number;
}

/** What `stats()` gives. */
export interface Stats {
  readonly native: "rust" | "portable";
  /** Null when no domain is cached and the options name no caps. */
  readonly cache: CacheStats | null;
  readonly caps: CapsStats;
  readonly hotKeys: HotKeysStats;
  readonly domains: Readonly<Record<string, DomainStats>>;
}

/** Events of a `Keylane` instance. */
export interface KeylaneEvents {
  /** The slot map of a domain changed. */
  topology: [event: { domain: string; version: number }];
  "node:up": [event: { domain: string; node: string }];
  "node:down": [event: { domain: string; node: string; reason: string }];
  /** A domain answers under restrictions (for example: slots without a node). */
  degraded: [event: { domain: string; reason: string }];
  /** A worker thread of the pool ended. Another one takes its place, number `worker` (from 0 on). */
  "worker:exit": [event: { worker: number; reason: string }];
  /** A key is hot. Told by the thread that opened, when it reaches a level and once a minute while it stays there. */
  hotkey: [event: HotKeyEvent];
  /** A key that was reported is cold again. */
  "hotkey:recovered": [event: HotKeyRecoveredEvent];
  /** A fault that belongs to no call. Never thrown when nobody listens. */
  error: [error: KeylaneError];
}

declare const VALUE: unique symbol;

/** Carries a type and no data; made by `valueOf`. */
export interface ValueType<T> {
  readonly [VALUE]?: T;
}

/** States the TypeScript type of a domain's values: `{ value: valueOf<Profile>() }`. */
export function valueOf<T>(): ValueType<T> {
  return {};
}

/** What a domain's options say of its values. */
type DomainValue<D> = D extends { readonly value: ValueType<infer T> }
  ? T
  : D extends { readonly codec: "json" | "msgpack" }
    ? unknown
    : D extends { readonly codec: "buffer" }
      ? Buffer
      : string;

/** One `{ prefix, value }` for every configured prefix. */
export type Schema<Domains> = {
  [Name in keyof Domains]: Domains[Name] extends { readonly prefixes: readonly (infer Prefix)[] }
    ? Prefix extends string
      ? { prefix: Prefix; value: DomainValue<Domains[Name]> }
      : never
    : never;
}[keyof Domains];

/** Every value type of the domains: what a key of unknown prefix may hold. */
export type AnyValue<Domains> = { [Name in keyof Domains]: DomainValue<Domains[Name]> }[keyof Domains];

type Matching<Entry, K> = Entry extends { prefix: infer P extends string }
  ? K extends `${P}${string}`
    ? Entry
    : never
  : never;

type Longest<Entry extends { prefix: string }, All extends { prefix: string } = Entry> = Entry extends {
  prefix: infer P;
}
  ? [Extract<Exclude<All["prefix"], P>, `${P & string}${string}`>] extends [never]
    ? Entry
    : never
  : never;

/** The value type behind a key: decided by the longest prefix of its literal or template-literal type. */
export type ValueFor<Domains, K> = K extends string
  ? string extends K
    ? AnyValue<Domains>
    : [Matching<Schema<Domains>, K>] extends [never]
      ? AnyValue<Domains>
      : Longest<Matching<Schema<Domains>, K>>["value"]
  : AnyValue<Domains>;
