/** `stats()` as metrics: one table a part of it, field → what it means. */
import type { CacheStats, CapsStats, DomainStats, NodeStats, Stats } from "../types.js";
import type { Labels, Reading, Series } from "./reading.js";

type Numbers<T> = { readonly [K in keyof T as T[K] extends number ? K : never]?: string };

const DOMAIN_COUNTERS = {
  commands: "Commands accepted.",
  succeeded: "Calls settled with a value.",
  failed: "Calls settled with an error.",
  timeouts: "Calls past their deadline.",
  overloaded: "Calls refused because a queue was full.",
  moved: "MOVED replies.",
  asked: "ASK replies.",
  retries: "Commands sent again.",
  bytesSent: "Bytes sent.",
  bytesReceived: "Bytes received.",
  writes: "Socket writes.",
  reconnects: "Connections made after the first one to each node.",
  refreshes: "Topology requests sent.",
} as const satisfies Numbers<DomainStats>;

const DOMAIN_GAUGES = { pending: "Calls not settled yet." } as const satisfies Numbers<DomainStats>;

const NODE_GAUGES = {
  slots: "Slots served.",
  inFlight: "Commands sent and not answered yet.",
  waiting: "Commands that wait for the connection.",
} as const satisfies Numbers<NodeStats>;

const CACHE_COUNTERS = {
  l0Hits: "Reads answered by this thread's own map.",
  l1Hits: "Reads answered by the shared region with a value.",
  absentHits: "Reads answered by the shared region: the key is known to be absent.",
  staleHits: "Reads answered past the expiry, because a node could not be reached.",
  misses: "Lookups of the shared region that found nothing.",
  loads: "Values asked of a server.",
  refreshes: "Times that a hit elected a refresher.",
  invalidations: "Keys, prefixes and connections whose values were dropped.",
  evictions: "Values removed to make room.",
  overtaken: "Loads not stored because their key was invalidated meanwhile.",
} as const satisfies Numbers<CacheStats>;

const CACHE_GAUGES = {
  entries: "Values held.",
  bytesUsed: "Bytes of the region in use.",
} as const satisfies Numbers<CacheStats>;

const CAPS_COUNTERS = {
  allowed: "Decisions of the servers that allowed.",
  denied: "Decisions of the servers that denied.",
  cached: "Denials known without asking.",
  degraded: "Decisions that could not be had.",
  repaired: "Counters raised after a failover.",
} as const satisfies Numbers<CapsStats>;

/** All metrics of `stats()`; `stats` gives the same object to all of them within one scrape. */
export function statsReadings(stats: () => Stats): Reading[] {
  const domains = (): [Labels, DomainStats][] =>
    Object.entries(stats().domains).map(([domain, of]) => [{ domain }, of]);
  const nodes = (): [Labels, NodeStats][] =>
    domains().flatMap(([{ domain }, of]) =>
      of.nodes.map((node): [Labels, NodeStats] => [labelsOf(domain!, node), node]),
    );
  const cache = (): [Labels, CacheStats][] => alone(stats().cache);
  const caps = (): [Labels, CapsStats][] => alone(stats().caps);
  const node = ["domain", "node", "role"];
  return [
    ...readings("counter", "", ["domain"], DOMAIN_COUNTERS, domains),
    ...readings("gauge", "", ["domain"], DOMAIN_GAUGES, domains),
    ...readings("gauge", "node_", node, NODE_GAUGES, nodes),
    {
      type: "gauge",
      name: "node_up",
      help: "1 while the connection to the node can be used.",
      labels: node,
      read: () => nodes().map(([labels, { state }]) => ({ labels, value: state === "ready" ? 1 : 0 })),
    },
    ...readings("counter", "cache_", [], CACHE_COUNTERS, cache),
    ...readings("gauge", "cache_", [], CACHE_GAUGES, cache),
    {
      type: "gauge",
      name: "cache_staleness_bound_seconds",
      help: "Longest that an answer may be stale.",
      labels: [],
      read: () => cache().map(([labels, { stalenessBoundMs }]) => ({ labels, value: stalenessBoundMs / 1000 })),
    },
    ...readings("counter", "caps_", [], CAPS_COUNTERS, caps),
  ];
}

function readings<T>(
  type: Reading["type"],
  prefix: string,
  labels: readonly string[],
  table: Readonly<Record<string, string>>,
  read: () => [Labels, T][],
): Reading[] {
  return Object.entries(table).map(([field, help]) => ({
    type,
    name: `${prefix}${snake(field)}${type === "counter" ? "_total" : ""}`,
    help,
    labels,
    read: () => read().map(([of, part]): Series => ({ labels: of, value: (part as Record<string, number>)[field]! })),
  }));
}

/** A part that has no labels; nothing when it is not there. */
function alone<T>(part: T | null): [Labels, T][] {
  return part === null ? [] : [[{}, part]];
}

function labelsOf(domain: string, { node, role }: NodeStats): Labels {
  return { domain, node, role };
}

/** `bytesSent` → `bytes_sent`. */
function snake(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
