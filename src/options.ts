/**
 * Options of `open`: validated once, with messages that name the path, and turned into what the layers below need. Node
 * options carry ioredis's names where the meaning is the same.
 */
import type { ConnectionOptions } from "node:tls";
import type { z } from "zod";
import type { CachePolicy } from "./cache/policy.js";
import type { CapsPolicy } from "./caps/policy.js";
import type { LaneConfig, NatMap } from "./lane/config.js";
import type { LedgerPolicy } from "./ledger/policy.js";
import type { HotKeysPolicy } from "./hotkeys/policy.js";
import type { HotKeyRules, HotKeysOptions } from "./hotkeys/types.js";
import type { FallbackSpec } from "./native/types.js";
import { fault } from "./options/fault.js";
import { hotKeysOf } from "./options/hot-keys.js";
import { capsOf, fallbackOf, laneConfig, ledgerOf, policyOf } from "./options/policies.js";
import { schema } from "./options/schema.js";
import type { CodecName, ScaleReads } from "./types.js";

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
  /** What differs for its hot keys; `false`: they are not looked for. */
  readonly hotKeys?: HotKeyRules | false;
}

/** How a domain is cached. Times in milliseconds, sizes in bytes. */
export interface CacheOptions {
  /** `all`: every key read; `hot`: only hot keys, and those that `warm` brought in; `off` (default). */
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
  /**
   * How long a denial is kept, in milliseconds, that a refund made by another process may end without this one hearing of it:
   * the user has ids that are remembered, and the domain is not cached. Other denials stand until their window ends. Default
   * 60,000.
   */
  readonly denialMs?: number;
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
  /** Hot keys; `false`: they are not looked for, and nothing is counted. Default: on. */
  readonly hotKeys?: HotKeysOptions | false;
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
  /**
   * Bytes a node's socket may hold back before calls are refused; with `threads` also those that wait for a worker (there at
   * most 512 MiB). Default 64 MiB.
   */
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
  /** Null when hot keys are not looked for. */
  readonly hotKeys: HotKeysPolicy | null;
}

/** Validates. Throws `KEYLANE_ERR_OPTIONS` with the path of every fault. */
export function resolveOptions(options: OpenOptions): Resolved {
  const parsed = schema.safeParse(options);
  if (!parsed.success) {
    throw fault(parsed.error.issues.flatMap((issue) => faultsOf(issue, [])).join("; "));
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
    policies: names.map((name) => policyOf(given, name)),
    caps: capsOf(given, indexOf),
    ledger: ledgerOf(given, indexOf),
    hotKeys: hotKeysOf(given),
  };
}

type Issue = z.core.$ZodIssue;

/** Domain indices share a word with the slot. */
const MAX_DOMAINS = 1000;

/** What is wrong, as lines of path and message; of alternatives the one that was meant, which fits furthest down. */
function faultsOf(issue: Issue, above: readonly PropertyKey[]): string[] {
  const path = [...above, ...issue.path];
  const alternatives = issue.code === "invalid_union" ? issue.errors : [];
  const [meant] = alternatives.filter((one) => depthOf(one) > 0).toSorted((a, b) => depthOf(b) - depthOf(a));
  return meant === undefined ? [`${pathOf(path)}: ${issue.message}`] : meant.flatMap((one) => faultsOf(one, path));
}

/** How far down an alternative fits. */
function depthOf(issues: readonly Issue[]): number {
  return Math.max(...issues.map(({ path, code }) => path.length + (code === "unrecognized_keys" ? 1 : 0)));
}

function pathOf(path: readonly PropertyKey[]): string {
  return path.length === 0 ? "options" : path.map(String).join(".");
}
