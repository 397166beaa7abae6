/** Parts of the options as the layers below take them: lanes, cache policies, caps, the ledger, the fallback. */
import type { CachePolicy } from "../cache/policy.js";
import type { CapsPolicy } from "../caps/policy.js";
import type { LaneConfig } from "../lane/config.js";
import type { LedgerPolicy } from "../ledger/policy.js";
import type { FallbackSpec } from "../native/types.js";
import { fault } from "./fault.js";
import { HOT_TTL_MS } from "./schema.js";
import type { Given } from "./schema.js";
import { serversOf } from "./servers.js";

/** The prefix of the domain that caps live in when the options name none. */
const CAPS_PREFIX = "fc:";
/** The same for the ledger. */
const LEDGER_PREFIX = "rb:";
/** How long an elected refresher has before another one is elected. */
const REFRESH_LEASE_MS = 1000;

/** Index of a domain by its name; `path` is where the name stands. */
type IndexOf = (name: string, path: string) => number;

/** What the lane of a domain needs. @throws KeylaneError `KEYLANE_ERR_OPTIONS` */
export function laneConfig(given: Given, name: string, index: number): LaneConfig {
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

/** How a domain is cached; null when it is not. @throws KeylaneError `KEYLANE_ERR_OPTIONS` */
export function policyOf({ domains, hotKeys }: Given, name: string): CachePolicy | null {
  const given = domains[name]!.cache;
  if (given === undefined || given.mode === "off") return null;
  const { mode, refreshAfterMs = 0, ...rest } = given;
  const { ttlMs: hotTtlMs = HOT_TTL_MS } = hotKeys === undefined || hotKeys === false ? {} : hotKeys;
  if (refreshAfterMs >= rest.ttlMs) throw fault(`domains.${name}.cache.refreshAfterMs: must be shorter than ttlMs`);
  return { ...rest, mode, refreshAfterMs, hotTtlMs, leaseMs: REFRESH_LEASE_MS };
}

/** Where caps live and what happens when they cannot be decided. @throws KeylaneError `KEYLANE_ERR_OPTIONS` */
export function capsOf({ caps, domains }: Given, indexOf: IndexOf): CapsPolicy {
  const { domain: named, onError = "allow", strict = false, reservationMs = 30_000, denialMs = 60_000 } = caps ?? {};
  const lists = Object.values(domains).map(({ prefixes }) => prefixes);
  const domain =
    named === undefined ? lists.findIndex((list) => list.includes(CAPS_PREFIX)) : indexOf(named, "caps.domain");
  const own = lists[domain] ?? [];
  const prefix = own.includes(CAPS_PREFIX) ? CAPS_PREFIX : (own[0] ?? "");
  return { domain, prefix, onError, strict, reservationMs, denialMs, shared: caps !== undefined };
}

/** How the ledger works; null without the option. @throws KeylaneError `KEYLANE_ERR_OPTIONS` */
export function ledgerOf({ ledger, domains }: Given, indexOf: IndexOf): LedgerPolicy | null {
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

/** Where keys without a prefix go. @throws KeylaneError `KEYLANE_ERR_OPTIONS` */
export function fallbackOf(given: Given["fallback"], indexOf: IndexOf): FallbackSpec {
  if (given === "reject") return { kind: "reject" };
  if ("domain" in given) return { kind: "domain", domain: indexOf(given.domain, "fallback.domain") };
  const domains = given.hash.map((name, at) => indexOf(name, `fallback.hash.${at}`));
  if (new Set(domains).size !== domains.length) throw fault("fallback.hash: a domain is named twice");
  return given.strategy === "md5-modulo"
    ? { kind: "md5-modulo", domains }
    : { kind: "hash", domains, names: [...given.hash] };
}
