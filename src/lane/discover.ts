/**
 * The cluster's own report → shards. One bad row never voids a report: it is skipped. Announced addresses pass the NAT map
 * here, so that the rest of keylane only ever sees addresses it can dial.
 */
import { isIP } from "node:net";
import { KeylaneError } from "../errors.js";
import type { Address, ShardView } from "../routing/topology.js";
import type { Reply } from "../types.js";
import type { NatMap } from "./config.js";

type Range = readonly [number, number];

/** An announced address as this client must dial it. Throws `KEYLANE_ERR_UNMAPPED` when the map does not hold it. */
export function mapAddress(address: Address, natMap: NatMap | undefined, domain: string): Address {
  if (natMap === undefined) return address;
  const name = `${address.host}:${address.port}`;
  const mapped = typeof natMap === "function" ? natMap(name) : Object.hasOwn(natMap, name) ? natMap[name] : null;
  if (mapped === null || mapped === undefined) {
    throw new KeylaneError("KEYLANE_ERR_UNMAPPED", `natMap of domain ${domain} has no entry for ${name}`, {
      domain,
      node: name,
    });
  }
  return { host: mapped.host, port: mapped.port };
}

/** A shard, and why its primary cannot be used if so. */
export interface ReportedShard extends ShardView {
  readonly fault?: KeylaneError;
}

/** What reading a report yields: the shards, and the addresses that could not be used. */
export interface Report {
  readonly shards: ReportedShard[];
  readonly faults: KeylaneError[];
  /** Two primaries claim one shard (seen during a failover): ask for CLUSTER SLOTS, which names the owner. */
  readonly ambiguous: boolean;
}

/**
 * Reads a CLUSTER SLOTS reply. `asked` replaces endpoints the server leaves open (null, empty or `?`: "the address you
 * asked").
 */
export function readSlots(reply: Reply, asked: Address, natMap: NatMap | undefined, domain: string): Report {
  const faults: KeylaneError[] = [];
  const byPrimary = new Map<string, { ranges: Range[]; primary: Address | null; replicas: Address[] }>();
  for (const row of Array.isArray(reply) ? reply : []) {
    if (!Array.isArray(row)) continue;
    const [first, last, ...nodes] = row;
    if (!isSlot(first) || !isSlot(last) || first > last) continue;
    const before = faults.length;
    const primary = slotsEndpoint(nodes[0] ?? null, asked, natMap, domain, faults);
    const fault = faults[before];
    const replicas = nodes.slice(1).map((node) => slotsEndpoint(node, asked, natMap, domain, faults));
    const key = primary === null ? `?${first}` : `${primary.host}:${primary.port}`;
    const shard = byPrimary.get(key) ?? { ranges: [], primary, replicas: [], ...(fault && { fault }) };
    byPrimary.set(key, shard);
    shard.ranges.push([first, last]);
    for (const replica of replicas) {
      if (replica !== null && !shard.replicas.some((known) => same(known, replica))) shard.replicas.push(replica);
    }
  }
  return { shards: [...byPrimary.values()], faults, ambiguous: false };
}

/**
 * Reads a CLUSTER SHARDS reply (Redis ≥ 7). Failed nodes are left out; a replica that is loading is connected, and answers
 * reads when it says itself that it can.
 */
export function readShards(
  reply: Reply,
  asked: Address,
  tls: boolean,
  natMap: NatMap | undefined,
  domain: string,
): Report {
  const faults: KeylaneError[] = [];
  const shards: ReportedShard[] = [];
  let ambiguous = false;
  for (const entry of Array.isArray(reply) ? reply : []) {
    const shard = fieldsOf(entry);
    if (shard === null) continue;
    const flat = Array.isArray(shard["slots"]) ? shard["slots"] : [];
    const ranges: Range[] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) {
      const first = flat[i];
      const last = flat[i + 1];
      if (isSlot(first) && isSlot(last) && first <= last) ranges.push([first, last]);
    }
    let primary: Address | null = null;
    let fault: KeylaneError | undefined;
    const replicas: Address[] = [];
    for (const nodeEntry of Array.isArray(shard["nodes"]) ? shard["nodes"] : []) {
      const node = fieldsOf(nodeEntry);
      if (node === null) continue;
      const port = Number((tls ? node["tls-port"] : node["port"]) ?? node["port"] ?? node["tls-port"]);
      const host = node["endpoint"] ?? node["ip"] ?? null;
      const before = faults.length;
      const address = endpoint(host, port, node["hostname"], asked, natMap, domain, faults);
      if (address === null && node["role"] === "master") fault = faults[before] ?? fault;
      if (address === null) continue;
      if (String(node["health"]).startsWith("fail")) continue;
      if (node["role"] === "master") {
        ambiguous ||= primary !== null;
        primary = address;
      } else replicas.push(address);
    }
    shards.push({ ranges, primary, replicas, ...(primary === null && fault && { fault }) });
  }
  return { shards, faults, ambiguous };
}

function slotsEndpoint(
  node: Reply,
  asked: Address,
  natMap: NatMap | undefined,
  domain: string,
  faults: KeylaneError[],
): Address | null {
  if (!Array.isArray(node)) return null;
  const more = fieldsOf(node[3] ?? null);
  return endpoint(node[0] ?? null, Number(node[1]), more?.["hostname"], asked, natMap, domain, faults);
}

function endpoint(
  host: Reply,
  port: number,
  hostname: Reply | undefined,
  asked: Address,
  natMap: NatMap | undefined,
  domain: string,
  faults: KeylaneError[],
): Address | null {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return null;
  const known = typeof hostname === "string" && hostname !== "" ? { serverName: hostname } : {};
  if (host === null || host === "" || host === "?") return { host: asked.host, port, ...known };
  if (typeof host !== "string") return null;
  // An endpoint that is a name is the node's name too, and stays it when the map leads elsewhere.
  const name = isIP(host) === 0 ? { serverName: host } : {};
  try {
    return { ...mapAddress({ host, port }, natMap, domain), ...name, ...known };
  } catch (error) {
    faults.push(error as KeylaneError);
    return null;
  }
}

function fieldsOf(entry: Reply): Record<string, Reply> | null {
  if (entry === null || typeof entry !== "object" || Buffer.isBuffer(entry)) return null;
  if (!Array.isArray(entry)) return entry as Record<string, Reply>;
  const made: Record<string, Reply> = Object.create(null) as Record<string, Reply>;
  for (let i = 0; i + 1 < entry.length; i += 2) made[String(entry[i])] = entry[i + 1]!;
  return made;
}

function isSlot(value: Reply | undefined): value is number {
  return typeof value === "number" && value >= 0 && value <= 16_383;
}

function same(a: Address, b: Address): boolean {
  return a.host === b.host && a.port === b.port;
}
