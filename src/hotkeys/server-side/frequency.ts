/**
 * Hot keys of a server that evicts by LFU: `OBJECT FREQ` of every key, by SCAN. The counters are logarithmic and approximate, and
 * decay by the minute: they rank keys, they are no rates.
 *
 * The invariant: no more than `rate` keys a second are looked at, whatever SCAN returns; and memory does not grow with the
 * number of keys.
 */
import { KeylaneError } from "../../errors.js";
import type { Primary } from "../../lane/primaries.js";
import { pause, throwIfAborted } from "./pause.js";
import { numberOf, textOf } from "./replies.js";
import type { Plan } from "./types.js";

/** Keys of one SCAN at most, and SCANs in a second at the full rate. */
const BATCH = 1000;
const BATCHES_PER_SECOND = 20;
const NOT_LFU = /LFU maxmemory policy is not selected/;

/** What a scan came to. */
export interface Scan {
  readonly looked: number;
  readonly skipped: number;
  readonly complete: boolean;
}

/** The refusal of a server that does not count accesses. */
export function notLfu(node: string, policy: string): KeylaneError {
  const now = policy === "" ? "is not LFU" : `is ${policy}`;
  const message = `${node}: OBJECT FREQ needs an LFU policy (allkeys-lfu or volatile-lfu), but maxmemory-policy ${now}`;
  return new KeylaneError("KEYLANE_ERR_UNSUPPORTED", message, { node, command: "OBJECT" });
}

/**
 * Tells each key and its counter (0–255), some keys twice.
 *
 * @throws KeylaneError `KEYLANE_ERR_UNSUPPORTED` when the policy is changed meanwhile; `KEYLANE_ERR_ABORTED`; what the server
 * refuses
 */
export async function scanFrequencies(
  node: Primary,
  plan: Plan,
  found: (key: Buffer, frequency: number) => void,
): Promise<Scan> {
  const { rate, prefix, signal, scanLimitMs } = plan;
  const count = Math.min(BATCH, Math.max(1, Math.floor(rate / BATCHES_PER_SECOND)));
  const match = prefix === "" ? [] : ["MATCH", `${escapeGlob(prefix)}*`];
  const total = numberOf(await node.call("DBSIZE")) ?? 0;
  const began = performance.now();
  let [cursor, looked, skipped, walked] = ["0", 0, 0, 0];
  for (;;) {
    throwIfAborted(signal);
    const [next, keys] = (await node.call("SCAN", cursor, "COUNT", count, ...match)) as [unknown, Buffer[]];
    skipped += await ask(node, keys, found);
    looked += keys.length;
    // A server that matches walks keys that it does not return.
    walked += Math.max(count, keys.length);
    plan.progress?.({ node: node.address, unit: "keys", done: Math.min(walked, total), total });
    cursor = textOf(next);
    if (cursor === "0") return { looked, skipped, complete: true };
    const late = performance.now() - began;
    if (late >= scanLimitMs) return { looked, skipped, complete: false };
    await pause((walked / rate) * 1000 - late, signal);
  }
}

/** Asks for the counters of some keys. Returns how many could not be told. */
async function ask(
  node: Primary,
  keys: readonly Buffer[],
  found: (key: Buffer, frequency: number) => void,
): Promise<number> {
  if (keys.length === 0) return 0;
  const replies = await node.pipeline(keys.map((key) => ["OBJECT", "FREQ", key]));
  let skipped = 0;
  for (const [at, reply] of replies.entries()) {
    if (typeof reply === "number") found(keys[at]!, reply);
    else if (reply instanceof KeylaneError && !isElsewhere(reply)) {
      throw NOT_LFU.test(reply.message) ? notLfu(node.address, "") : reply;
    } else skipped += 1;
  }
  return skipped;
}

/** Whether the key's slot has left, or is leaving, the node. */
function isElsewhere({ code }: KeylaneError): boolean {
  return code === "KEYLANE_ERR_REDIRECTS" || code === "KEYLANE_ERR_TRYAGAIN" || code === "KEYLANE_ERR_CLUSTERDOWN";
}

/** A prefix in which no character means anything to MATCH. */
export function escapeGlob(prefix: string): string {
  return prefix.replaceAll(/[\\*?[\]^]/g, String.raw`\$&`);
}
