/** What `open` accepts, as a schema: kinds, ranges and defaults. What options mean together is checked where they are resolved. */
import type { ConnectionOptions } from "node:tls";
import { z } from "zod";
import type { NatMap } from "../lane/config.js";
import { hotKeySourceSchema } from "./hot-key-source.js";

/** Keys up to 4,096 UTF-16 units (12,288 bytes) are not measured before they are sent. */
const MIN_KEY_LIMIT = 12_288;
/** Longer values are not cached. */
const MAX_CACHED_BYTES = 16 << 10;
/** The region keeps what has expired for a day. */
const MAX_STALE_MS = 86_400_000;
/** Places are held for a day at most. */
const MAX_RESERVATION_MS = 86_400_000;
/** The ledger remembers ids for 30 days at most, holds so many entries back, and books so many at once. */
const MAX_RETENTION_MS = 30 * 86_400_000;
const MAX_PENDING = 1e8;
const MAX_BATCH = 2000;
/** Life of a hot key in the cache when the options name none, in milliseconds. */
export const HOT_TTL_MS = 2000;
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

/** Keys that are hit less are not followed (`native/hits-types.ts`). */
const MIN_RATE = 100;
const rate = z.number().min(MIN_RATE).max(1e12);
const share = z.strictObject({ share: z.number().positive().max(1).optional() });
const rules = {
  warn: z.union([rate, share]).optional(),
  critical: z.union([rate, share]).optional(),
  nodeLimit: rate.optional(),
  replicas: z.boolean().optional(),
};
const prefixList = z.array(z.string()).max(1000).default([]);

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
  hotKeys: z.union([z.literal(false), z.strictObject(rules)]).optional(),
});

export const schema = z.strictObject({
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
      denialMs: positive.default(60_000),
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
  hotKeys: z
    .union([
      z.literal(false),
      z.strictObject({
        ...rules,
        ttlMs: positive.min(1000).max(5000).default(HOT_TTL_MS),
        allow: prefixList,
        deny: prefixList,
        topK: positive.max(1000).default(100),
        source: hotKeySourceSchema.optional(),
      }),
    ])
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

/** Options that passed, defaults filled in. */
export type Given = z.infer<typeof schema>;
