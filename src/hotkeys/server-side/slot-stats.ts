/**
 * The hottest slots of a server, by `CLUSTER SLOT-STATS` (Redis 8.2, Valkey 8.0). Its counters only grow, so they are read twice
 * and what counts is the difference: a slot that was hot yesterday is not told.
 */
import { KeylaneError } from "../../errors.js";
import type { Primary } from "../../lane/primaries.js";
import { pause } from "./pause.js";
import { fieldsOf, numberOf } from "./replies.js";
import type { Plan, SlotLoad } from "./types.js";

interface Counters {
  readonly keys: number;
  readonly cpuMicros: number;
  readonly bytesIn: number;
  readonly bytesOut: number;
}

/**
 * The slots that had a load within `seconds`, hottest first.
 *
 * @throws KeylaneError `KEYLANE_ERR_UNSUPPORTED` where the server counts keys only
 */
export async function watchSlots(node: Primary, { top, seconds, signal }: Plan): Promise<SlotLoad[]> {
  const before = await read(node);
  const began = performance.now();
  await pause(seconds * 1000, signal);
  const after = await read(node);
  const elapsed = (performance.now() - began) / 1000;
  const loads: SlotLoad[] = [];
  for (const [slot, now] of after) {
    const then = before.get(slot);
    // A slot that came meanwhile, or whose counters were reset, has no difference yet.
    if (then === undefined || now.cpuMicros < then.cpuMicros) continue;
    const cpuShare = (now.cpuMicros - then.cpuMicros) / 1e6 / elapsed;
    if (cpuShare === 0) continue;
    const bytesIn = (now.bytesIn - then.bytesIn) / elapsed;
    const bytesOut = (now.bytesOut - then.bytesOut) / elapsed;
    loads.push({ slot, node: node.address, keys: now.keys, cpuShare, bytesIn, bytesOut });
  }
  return loads.toSorted((a, b) => b.cpuShare - a.cpuShare || a.slot - b.slot).slice(0, top);
}

async function read(node: Primary): Promise<Map<number, Counters>> {
  const reply = await node.call("CLUSTER", "SLOT-STATS", "SLOTSRANGE", 0, 16_383);
  const slots = new Map<number, Counters>();
  for (const row of Array.isArray(reply) ? (reply as unknown[]) : []) {
    if (!Array.isArray(row)) continue;
    const [slot, fields] = [numberOf(row[0]), fieldsOf(row[1])];
    const cpuMicros = numberOf(fields.get("cpu-usec"));
    if (slot === null) continue;
    if (cpuMicros === null) throw notCounted(node.address);
    const count = (name: string): number => numberOf(fields.get(name)) ?? 0;
    const [bytesIn, bytesOut] = [count("network-bytes-in"), count("network-bytes-out")];
    slots.set(slot, { keys: count("key-count"), cpuMicros, bytesIn, bytesOut });
  }
  return slots;
}

function notCounted(node: string): KeylaneError {
  const message = `${node}: the load of slots is not counted (cluster-slot-stats-enabled is no)`;
  return new KeylaneError("KEYLANE_ERR_UNSUPPORTED", message, { node, command: "CLUSTER" });
}
