/**
 * Options of `open`: validated once, with messages that name the path, and turned into what the layers below need. Node
 * options carry ioredis's names where the meaning is the same.
 */
import type { ConnectionOptions } from "node:tls";
import { z } from "zod";
import type { CachePolicy } from "./cache/policy.js";
import type { CapsPolicy } from "./caps/home.js";
import { KeylaneError } from "./errors.js";
import type { LaneConfig, NatMap } from "./lane/config.js";
import type { LedgerPolicy } from "./ledger/policy.js";
import type { FallbackSpec } from "./native/types.js";
import type { Address } from "./routing/topology.js";
import type { CodecName, ScaleReads } from "./types.js";

/** Keys up to 4,096 UTF-16 units (12,288 bytes) are not measured before they are sent. */
const MIN_KEY_LIMIT = 12_288;
/** Longer values are not cached. */
const MAX_CACHED_BYTES = 16 << 10;
/** The region keeps what has expired for a day. */
const MAX_STALE_MS = 86_400_000;
/** Places are held for a day at most. */
const MAX_RESERVATION_MS = 86_400_000;
/** The prefix of the domain that caps live in when the options name none. */
const CAPS_PREFIX = "fc:";
/** The same for the ledger. */
const LEDGER_PREFIX = "rb:";
/** The ledger remembers ids for 30 days at most, holds so many entries back, and books so many at once. */
const MAX_RETENTION_MS = 30 * 86_400_000;
const MAX_PENDING = 1e8;
const MAX_BATCH = 2000;
/** How long an elected refresher has before another one is elected. */
const REFRESH_LEASE_MS = 1000;
/** Worker threads of one pool. */
const MAX_THREADS = 64;
const positive = z.number().int().positive().max(Number.MAX_SAFE_INTEGER);
const timer = positive.max(2 ** 31 - 1, "a timer cannot be longer than 2147483647 ms");
const node = z.union([
  z.string().min(1),
  z.strictObject({
    host: z.string().min(1),
    port: z.number().int().min(1).max(65_535),
    weight: z.number().positive().max(1e6).optional(),
  }),
]);

const domainSchema = z.strictObject({
  prefixes: z
    .array(z.string().refine((text) => text.isWellFormed(), "a prefix cannot hold a lone surrogate"))
    .default([]),
  nodes: z.array(node).default([]),
  mode: z.enum(["cluster", "single", "ring"]).default("cluster"),
  ejectMs: timer.optional(),
  sentinels: z.array(node).min(1).optional(),
  name: z.string().min(1).optional(),
  sentinelUsername: z.string().optional(),
  sentinelPassword: z.string().optional(),
  codec: z.enum(["utf8", "buffer", "json", "msgpack"]).default("utf8"),
  value: z.custom<object>((value) => value === undefined || typeof value === "object").optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  db: z.number().int().nonnegative().optional(),
  tls: z
    .custom<ConnectionOptions>((value) => typeof value === "object" && value !== null, "must be an object")
    .optional(),
  natMap: z
    .custom<NatMap>((value) => (typeof value === "object" && value !== null) || typeof value === "function")
    .optional(),
  scaleReads: z.enum(["master", "slave", "replica", "all", "nearest"]).default("master"),
  connectionName: z
    .string()
    .regex(/^[!-~]*$/, "must be printable without spaces")
    .default("keylane"),
  cache: z
    .strictObject({
      mode: z.enum(["all", "hot", "off"]).default("off"),
      ttlMs: positive.default(60_000),
      refreshAfterMs: positive.optional(),
      negativeTtlMs: positive.default(1000),
      maxValueBytes: positive.max(MAX_CACHED_BYTES).default(MAX_CACHED_BYTES),
      staleIfErrorMs: z.number().int().nonnegative().max(MAX_STALE_MS).default(0),
      broadcast: z.boolean().default(false),
    })
    .optional(),
});

const schema = z.strictObject({
  domains: z.record(z.string().min(1), domainSchema),
  fallback: z
    .union([
      z.literal("reject"),
      z.strictObject({ domain: z.string() }),
      z.strictObject({ hash: z.array(z.string()).min(1), strategy: z.enum(["rendezvous", "md5-modulo"]).optional() }),
    ])
    .default("reject"),
  cacheBytes: positive.default(64 << 20),
  caps: z
    .strictObject({
      domain: z.string().min(1).optional(),
      onError: z.enum(["allow", "deny", "throw"]).default("allow"),
      strict: z.boolean().default(false),
      reservationMs: positive.max(MAX_RESERVATION_MS).default(30_000),
    })
    .optional(),
  ledger: z
    .strictObject({
      domain: z.string().min(1).optional(),
      mode: z.enum(["durable", "fast"]).default("durable"),
      directory: z.string().min(1).optional(),
      idRetentionMs: positive.max(MAX_RETENTION_MS).default(86_400_000),
      keepBookedMs: timer.default(300_000),
      maxPending: positive.max(MAX_PENDING).default(4_000_000),
      batchSize: positive.max(MAX_BATCH).default(500),
      leaseMs: timer.min(100).default(5000),
    })
    .optional(),
  threads: z.number().int().nonnegative().max(MAX_THREADS).default(0),
  commandTimeoutMs: timer.default(1000),
  connectTimeoutMs: timer.default(5000),
  silenceTimeoutMs: timer.optional(),
  refreshIntervalMs: timer.default(15_000),
  refreshMinimumMs: timer.default(500),
  maxRedirections: positive.max(1000).default(16),
  maxQueue: positive.max(1 << 24).default(65_536),
  maxQueueBytes: positive.default(64 << 20),
  maxKeyBytes: positive
    .min(MIN_KEY_LIMIT)
    .max(512 << 20)
    .default(1 << 20),
  maxValueBytes: positive.max(512 << 20).default(512 << 20),
});

/** An address of a server; `weight` counts in rings only. */
export type NodeOption = string | { readonly host: string; readonly port: number; readonly weight?: number };

/** Options of one domain: a set of key prefixes and the cluster that holds them. */
export interface DomainOptions {
  /** Key prefixes of the domain; the empty prefix matches every key. Longest match wins over all domains. */
  readonly prefixes?: readonly string[];
  /**
   * Servers, `host:port` or `{ host, port }`: seeds of the cluster; for `single` the server and its replicas, in any order;
   * for `ring` all of its servers, each with an optional `weight`.
   */
  readonly nodes?: readonly NodeOption[];
  /**
   * `cluster` (default); `single`, one server outside Redis Cluster, or a primary known to Sentinels; `ring`, several
   * standalone servers shared by rendezvous hashing.
   */
  readonly mode?: "cluster" | "single" | "ring";
  /** Ring: a server down for so long (ms) is taken out until it is back. Counters stay with it. Default: never. */
  readonly ejectMs?: number;
  /** Single: Sentinels that know the primary called `name`; `nodes` stays empty. */
  readonly sentinels?: readonly NodeOption[];
  readonly name?: string;
  readonly sentinelUsername?: string;
  readonly sentinelPassword?: string;
  /** How values are written and read. Default `utf8`. */
  readonly codec?: CodecName;
  /** States the TypeScript type of the values: `value: valueOf<Profile>()`. No effect at run time. */
  readonly value?: object;
  /** ACL user. */
  readonly username?: string;
  readonly password?: string;
  /** Database number; `single` only. */
  readonly db?: number;
  /** TLS, as `tls.connect` takes it. `servername` defaults to the node's host name. */
  readonly tls?: ConnectionOptions;
  /** Announced `host:port` → address to dial, as in ioredis. */
  readonly natMap?: NatMap;
  /** Who answers reads. Default `master`. */
  readonly scaleReads?: ScaleReads;
  /** Shown by CLIENT LIST. Default `keylane`. */
  readonly connectionName?: string;
  /** Shared cache of the domain. */
  readonly cache?: CacheOptions;
}

/** How a domain is cached. Times in milliseconds, sizes in bytes. */
export interface CacheOptions {
  /** `all`: every key read; `hot`: only keys that `warm` brought in; `off` (default). */
  readonly mode?: "all" | "hot" | "off";
  /** Longest life of a cached value; never beyond the key's own. Default 60,000. */
  readonly ttlMs?: number;
  /** Age from which on a hit has the value loaded anew behind it. Shorter than `ttlMs`. Default: never. */
  readonly refreshAfterMs?: number;
  /** Life of the knowledge that a key does not exist. Default 1,000. */
  readonly negativeTtlMs?: number;
  /** Longer values are not cached. At most, and by default, 16 KiB. */
  readonly maxValueBytes?: number;
  /** How long past its expiry a value may be answered while its node cannot be reached. At most a day. Default 0: never. */
  readonly staleIfErrorMs?: number;
  /** Have the servers tell of every change under the domain's prefixes, not only of keys read. Default false. */
  readonly broadcast?: boolean;
}

/** Where frequency caps live, and what stands in for a decision that cannot be had. */
export interface CapsOptions {
  /** Name of their domain. Default: the one that has the prefix `fc:`. */
  readonly domain?: string;
  /** What a decision is when the servers cannot make it. Default `allow`. */
  readonly onError?: "allow" | "deny" | "throw";
  /** Tell a decision that counted only once a replica holds it (`WAIT`). Default false. */
  readonly strict?: boolean;
  /** How long `reserve` holds places, in milliseconds; at most a day. Default 30,000. */
  readonly reservationMs?: number;
}

/** Where billing lives, and how safe its entries are. Times in milliseconds. */
export interface LedgerOptions {
  /** Name of its domain. Default: the one that has the prefix `rb:`. */
  readonly domain?: string;
  /** `durable` (default): an entry is on disk before `add` resolves; `fast`: it is in memory only. */
  readonly mode?: "durable" | "fast";
  /** Folder of the spool, this process's own; needed in mode `durable`. */
  readonly directory?: string;
  /** Ids of entries are remembered for so long at least, and twice as long at most. At most 30 days. Default a day. */
  readonly idRetentionMs?: number;
  /** Booked entries are kept for so long, to be booked anew when a failover loses them. Default 300,000. */
  readonly keepBookedMs?: number;
  /** Entries that may wait to be booked; past that `KEYLANE_ERR_OVERLOADED`. Default 4,000,000. */
  readonly maxPending?: number;
  /** Entries of an account that are booked at once; at most 2,000. Default 500. */
  readonly batchSize?: number;
  /** Life of a budget's lease that is not renewed; at least 100. Default 5,000. */
  readonly leaseMs?: number;
}

/** Options of `Keylane.open`. Times in milliseconds, sizes in bytes. */
export interface OpenOptions {
  /** By name; the name is what `route` tells, and what fallback hashing is computed from. */
  readonly domains: Readonly<Record<string, DomainOptions>>;
  /** Where keys go that no prefix matches. Default `reject`. */
  readonly fallback?:
    | "reject"
    | { readonly domain: string }
    | { readonly hash: readonly string[]; readonly strategy?: "rendezvous" | "md5-modulo" };
  /**
   * Size of the shared cache of all threads; allocated when a domain is cached. 131,136 bytes to 4 GiB; up to 2 MiB it takes
   * shorter values only. Default 64 MiB.
   */
  readonly cacheBytes?: number;
  /** Frequency caps. */
  readonly caps?: CapsOptions;
  /** Billing. */
  readonly ledger?: LedgerOptions;
  /** Worker threads that hold the connections, at most 64. Default 0: they live in the calling thread. */
  readonly threads?: number;
  /** Deadline of a call that names none. Default 1,000. */
  readonly commandTimeoutMs?: number;
  /** Deadline of `open`, and of each dial and handshake. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** A node that owes replies and is silent for so long is dialled anew. Default: twice `commandTimeoutMs`. */
  readonly silenceTimeoutMs?: number;
  /** Distance of periodic topology refreshes. Default 15,000. */
  readonly refreshIntervalMs?: number;
  /** Least distance of two topology requests of the process. Default 500. */
  readonly refreshMinimumMs?: number;
  /** Times one call is redirected at once, or a read repeated after a lost connection. Default 16. */
  readonly maxRedirections?: number;
  /** Calls in flight or waiting, per node; past that `KEYLANE_ERR_OVERLOADED`. Default 65,536. */
  readonly maxQueue?: number;
  /** Bytes a node's socket may hold back before calls are refused. Default 64 MiB. */
  readonly maxQueueBytes?: number;
  /** Longest key. At least 12,288, default 1 MiB. */
  readonly maxKeyBytes?: number;
  /** Longest value or argument. Default 512 MiB; a server's own `proto-max-bulk-len` lowers it. */
  readonly maxValueBytes?: number;
}

/** Options as the layers below take them. */
export interface Resolved {
  readonly lanes: readonly LaneConfig[];
  readonly prefixes: readonly { prefix: string; domain: number }[];
  readonly fallback: FallbackSpec;
  readonly cacheBytes: number;
  readonly threads: number;
  /** By domain; null for domains that are not cached. */
  readonly policies: readonly (CachePolicy | null)[];
  readonly caps: CapsPolicy;
  /** Null without the option. */
  readonly ledger: LedgerPolicy | null;
}

/** Validates. Throws `KEYLANE_ERR_OPTIONS` with the path of every fault. */
export function resolveOptions(options: OpenOptions): Resolved {
  const parsed = schema.safeParse(options);
  if (!parsed.success) {
    throw fault(parsed.error.issues.map((issue) => `${pathOf(issue.path)}: ${issue.message}`).join("; "));
  }
  // The schema's record drops this name silently.
  if (Object.hasOwn(options.domains, "__proto__")) throw fault("domains.__proto__: a domain cannot have this name");
  const given = parsed.data;
  const names = Object.keys(given.domains);
  if (names.length === 0) throw fault("domains: at least one is needed");
  if (names.length > MAX_DOMAINS) throw fault(`domains: at most ${MAX_DOMAINS} are supported`);
  const prefixes: { prefix: string; domain: number }[] = [];
  const seen = new Map<string, string>();
  for (const [index, name] of names.entries()) {
    for (const [at, prefix] of given.domains[name]!.prefixes.entries()) {
      const other = seen.get(prefix);
      if (other !== undefined) {
        throw fault(
          `domains.${name}.prefixes.${at}: prefix ${JSON.stringify(prefix)} is already taken by domain ${other}`,
        );
      }
      seen.set(prefix, name);
      prefixes.push({ prefix, domain: index });
    }
  }
  const indexOf = (name: string, path: string): number => {
    const index = names.indexOf(name);
    if (index === -1) throw fault(`${path}: there is no domain ${JSON.stringify(name)}`);
    return index;
  };
  if (given.caps?.strict === true && given.threads > 0) throw fault("caps.strict: needs threads: 0");
  return {
    lanes: names.map((name, index) => laneConfig(given, name, index)),
    prefixes,
    fallback: fallbackOf(given.fallback, indexOf),
    cacheBytes: given.cacheBytes,
    threads: given.threads,
    policies: names.map((name) => policyOf(given.domains[name]!.cache, name)),
    caps: capsOf(given, indexOf),
    ledger: ledgerOf(given, indexOf),
  };
}

type Given = z.infer<typeof schema>;

/** Domain indices share a word with the slot. */
const MAX_DOMAINS = 1000;

function laneConfig(given: Given, name: string, index: number): LaneConfig {
  const domain = given.domains[name]!;
  const { username, password } = domain;
  if (domain.db !== undefined && domain.mode === "cluster") {
    throw fault(`domains.${name}.db: a cluster has only database 0`);
  }
  if (domain.ejectMs !== undefined && domain.mode !== "ring") throw fault(`domains.${name}.ejectMs: only rings eject`);
  return {
    domain: name,
    index,
    mode: domain.mode,
    ...serversOf(domain, name),
    codec: domain.codec,
    credentials: { ...(username === undefined ? {} : { username }), ...(password === undefined ? {} : { password }) },
    tls: domain.tls,
    db: domain.db,
    connectionName: domain.connectionName,
    natMap: domain.natMap,
    scaleReads: domain.scaleReads,
    connectTimeoutMs: given.connectTimeoutMs,
    commandTimeoutMs: given.commandTimeoutMs,
    silenceTimeoutMs: given.silenceTimeoutMs ?? 2 * given.commandTimeoutMs,
    refreshIntervalMs: given.refreshIntervalMs,
    refreshMinimumMs: given.refreshMinimumMs,
    maxRedirections: given.maxRedirections,
    maxQueue: given.maxQueue,
    maxQueueBytes: given.maxQueueBytes,
    maxKeyBytes: given.maxKeyBytes,
    maxValueBytes: given.maxValueBytes,
  };
}

function policyOf(given: Given["domains"][string]["cache"], name: string): CachePolicy | null {
  if (given === undefined || given.mode === "off") return null;
  const { mode, refreshAfterMs = 0, ...rest } = given;
  if (refreshAfterMs >= rest.ttlMs) throw fault(`domains.${name}.cache.refreshAfterMs: must be shorter than ttlMs`);
  return { ...rest, mode, refreshAfterMs, leaseMs: REFRESH_LEASE_MS };
}

function capsOf({ caps, domains }: Given, indexOf: (name: string, path: string) => number): CapsPolicy {
  const { domain: named, onError = "allow", strict = false, reservationMs = 30_000 } = caps ?? {};
  const lists = Object.values(domains).map(({ prefixes }) => prefixes);
  const domain =
    named === undefined ? lists.findIndex((list) => list.includes(CAPS_PREFIX)) : indexOf(named, "caps.domain");
  const own = lists[domain] ?? [];
  const prefix = own.includes(CAPS_PREFIX) ? CAPS_PREFIX : (own[0] ?? "");
  return { domain, prefix, onError, strict, reservationMs, shared: caps !== undefined };
}

function ledgerOf({ ledger, domains }: Given, indexOf: (name: string, path: string) => number): LedgerPolicy | null {
  if (ledger === undefined) return null;
  const { domain: named, mode, directory = null, ...rest } = ledger;
  const names = Object.keys(domains);
  const byPrefix = names.find((name) => domains[name]!.prefixes.includes(LEDGER_PREFIX));
  const domain = named === undefined ? byPrefix : names[indexOf(named, "ledger.domain")];
  if (domain === undefined) throw fault(`ledger.domain: no domain has the prefix ${JSON.stringify(LEDGER_PREFIX)}`);
  const { prefixes } = domains[domain]!;
  const prefix = prefixes.includes(LEDGER_PREFIX) ? LEDGER_PREFIX : prefixes[0];
  if (prefix === undefined) throw fault(`ledger.domain: domain ${domain} has no prefix`);
  if (mode === "durable" && directory === null) throw fault('ledger.directory: mode "durable" needs it');
  if (mode === "fast" && directory !== null) throw fault('ledger.directory: mode "fast" keeps nothing on disk');
  return { ...rest, domain, prefix, mode, directory };
}

type Servers = Pick<LaneConfig, "seeds" | "ring" | "ejectMs" | "sentinels">;

function serversOf(domain: Given["domains"][string], name: string): Servers {
  const at = `domains.${name}`;
  const { sentinels, mode, ejectMs } = domain;
  if (sentinels !== undefined) {
    if (mode !== "single") throw fault(`${at}.sentinels: they need mode: "single"`);
    if (domain.name === undefined) throw fault(`${at}.name: Sentinels need the name of the primary`);
    if (domain.nodes.length > 0) throw fault(`${at}.nodes: the Sentinels name the server`);
    const known = sentinels.map((one, index) => addressOf(one, `${at}.sentinels.${index}`));
    const { name: monitored, sentinelUsername: username, sentinelPassword: password } = domain;
    const config = { sentinels: known, name: monitored, username, password };
    return { seeds: [known[0]!], ring: [], ejectMs: undefined, sentinels: config };
  }
  if (domain.nodes.length === 0) throw fault(`${at}.nodes: at least one node is needed`);
  const seeds = domain.nodes.map((one, index) => addressOf(one, `${at}.nodes.${index}`));
  const weightOf = (index: number): number => {
    const one = domain.nodes[index]!;
    return typeof one === "string" ? 1 : (one.weight ?? 1);
  };
  const ring = mode === "ring" ? seeds.map((seed, index) => ({ ...seed, weight: weightOf(index) })) : [];
  const distinct = new Set(ring.map(({ host, port }) => `${host}:${port}`));
  if (distinct.size !== ring.length) throw fault(`${at}.nodes: a server of the ring is named twice`);
  return { seeds, ring, ejectMs, sentinels: undefined };
}

function fallbackOf(given: Given["fallback"], indexOf: (name: string, path: string) => number): FallbackSpec {
  if (given === "reject") return { kind: "reject" };
  if ("domain" in given) return { kind: "domain", domain: indexOf(given.domain, "fallback.domain") };
  const domains = given.hash.map((name, at) => indexOf(name, `fallback.hash.${at}`));
  if (new Set(domains).size !== domains.length) throw fault("fallback.hash: a domain is named twice");
  return given.strategy === "md5-modulo"
    ? { kind: "md5-modulo", domains }
    : { kind: "hash", domains, names: [...given.hash] };
}

function addressOf(seed: string | { host: string; port: number }, path: string): Address {
  const address = typeof seed === "string" ? parseAddress(seed) : seed;
  if (address === null || address.host === "") throw fault(`${path}: ${JSON.stringify(seed)} is not host:port`);
  return { host: address.host, port: address.port };
}

function pathOf(path: readonly PropertyKey[]): string {
  return path.length === 0 ? "options" : path.map(String).join(".");
}

function fault(message: string): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_OPTIONS", message);
}

/** `host:port` split at the last colon; brackets around IPv6 are taken off. Null when the port is impossible. */
export function parseAddress(text: string): Address | null {
  const colon = text.lastIndexOf(":");
  const portText = text.slice(colon + 1);
  if (colon === -1 || !/^\d{1,5}$/.test(portText)) return null;
  const port = Number(portText);
  if (port < 1 || port > 65_535) return null;
  const bare = text.slice(0, colon);
  const host = bare.startsWith("[") && bare.endsWith("]") ? bare.slice(1, -1) : bare;
  return { host, port };
}
