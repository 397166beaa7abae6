/** Keys that live where a test wants them. */
import { native } from "#dist/native/index.js";
import type { SandboxCluster, SandboxNode } from "keylane/sandbox";
import { parseInfo } from "#dist/sandbox/resp.js";

/** One key for each of some slots. O(slots × 16,384) hashes. */
export function keysIn(slots: Iterable<number>): Map<number, string> {
  const wanted = new Set(slots);
  const found = new Map<number, string>();
  for (let at = 0; found.size < wanted.size; at += 1) {
    const slot = native.slot(`k${at}`);
    if (wanted.has(slot) && !found.has(slot)) found.set(slot, `k${at}`);
  }
  return found;
}

/** Inclusive slot ranges of a node, as it sees them itself. */
export async function rangesOf(cluster: SandboxCluster, node: SandboxNode): Promise<[from: number, to: number][]> {
  const line = (await cluster.view(node)).find(({ id }) => id === node.id);
  return (line?.slots ?? []).map(([from, to]) => [from, to]);
}

/** `count` keys in different slots of a node. */
export async function keysOn(cluster: SandboxCluster, node: SandboxNode, count: number): Promise<string[]> {
  const slots: number[] = [];
  for (const [from, to] of await rangesOf(cluster, node)) {
    for (let slot = from; slot <= to && slots.length < count; slot += 1) slots.push(slot);
  }
  return [...keysIn(slots).values()];
}

/** How often a server has run a command (`get`, `cluster|shards`) since its statistics were reset; refusals not counted. */
export async function callsOf(node: SandboxNode, command: string): Promise<number> {
  const stats = parseInfo(String(await node.command("INFO", "commandstats")));
  return Number(/calls=(\d+)/.exec(stats.get(`cmdstat_${command}`) ?? "")?.[1] ?? 0);
}
