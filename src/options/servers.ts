/** Where a domain's servers are: seeds of a cluster, the servers of a ring, or the Sentinels that know. */
import type { LaneConfig } from "../lane/config.js";
import type { Address } from "../routing/topology.js";
import { fault } from "./fault.js";
import type { Given } from "./schema.js";

type Servers = Pick<LaneConfig, "seeds" | "ring" | "ejectMs" | "sentinels">;

/** @throws KeylaneError `KEYLANE_ERR_OPTIONS` */
export function serversOf(domain: Given["domains"][string], name: string): Servers {
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

function addressOf(seed: string | { host: string; port: number }, path: string): Address {
  const address = typeof seed === "string" ? parseAddress(seed) : seed;
  if (address === null || address.host === "") throw fault(`${path}: ${JSON.stringify(seed)} is not host:port`);
  return { host: address.host, port: address.port };
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
