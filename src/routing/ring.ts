/**
 * Several standalone servers sharing one domain, without Redis Cluster: each of the 16,384 hash slots goes to the server
 * with the highest weighted rendezvous score, so keys with one hash tag stay together and a server that comes or goes moves
 * only its own share.
 *
 * Score of server s with weight w for a slot: `-w / ln(h)`, h being xxh3-64 of `host:port`, a zero byte and the slot (little
 * endian), scaled to (0, 1). Weighted rendezvous: Schindelhauer and Schomaker, "Weighted Distributed Hash Tables" (2005).
 */
import { native } from "../native/index.js";
import type { Address, ShardView } from "./topology.js";

const SLOTS = 16_384;

/** A server of a ring. */
export interface RingServer extends Address {
  /** Share of the keys relative to the others; positive. */
  readonly weight: number;
}

/** Scores of all servers for all slots, computed once: `scores[server][slot]`. O(servers × slots). */
export function ringScores(servers: readonly RingServer[]): Float64Array[] {
  return servers.map(({ host, port, weight }) => {
    const name = Buffer.from(`${host}:${port}\0..`);
    const at = name.length - 2;
    const scores = new Float64Array(SLOTS);
    for (let slot = 0; slot < SLOTS; slot += 1) {
      name.writeUInt16LE(slot, at);
      const unit = (Number(native.hash64(name) >> 11n) + 0.5) / 2 ** 53;
      scores[slot] = -weight / Math.log(unit);
    }
    return scores;
  });
}

/** The shards of a ring; servers in `without` get no slots (unless all are). O(servers × slots). */
export function ringShards(
  servers: readonly RingServer[],
  scores: readonly Float64Array[],
  without: ReadonlySet<number>,
): ShardView[] {
  const usable = servers.map((_, index) => index).filter((index) => !without.has(index));
  const ranges: [number, number][][] = servers.map(() => []);
  for (let slot = 0; slot < SLOTS; slot += 1) {
    let best = usable[0] ?? 0;
    for (const index of usable) if (scores[index]![slot]! > scores[best]![slot]!) best = index;
    const last = ranges[best]!.at(-1);
    if (last !== undefined && last[1] === slot - 1) last[1] = slot;
    else ranges[best]!.push([slot, slot]);
  }
  return servers.map(({ host, port }, index) => ({ ranges: ranges[index]!, primary: { host, port }, replicas: [] }));
}
