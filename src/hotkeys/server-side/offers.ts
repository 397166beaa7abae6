/**
 * What a server offers for finding hot keys. `COMMAND INFO` decides, which also knows of back-ports and renamed commands; where
 * it may not be asked, the version does.
 */
import { KeylaneError } from "../../errors.js";
import type { Primary } from "../../lane/primaries.js";
import { infoOf } from "./replies.js";

export interface Offers {
  /** As `redis 7.0.15`. */
  readonly server: string;
  /** Whose `HOTKEYS` it has: the two share a name and nothing else. */
  readonly hotkeys: "redis" | "valkey" | null;
  readonly slotStats: boolean;
  /** `maxmemory-policy`. */
  readonly policy: string;
}

export async function offersOf(node: Primary): Promise<Offers> {
  const info = infoOf(await node.call("INFO"));
  const valkey = info.get("valkey_version");
  const kind = valkey === undefined ? "redis" : "valkey";
  const version = valkey ?? info.get("redis_version") ?? "";
  const named = await commandsOf(node);
  const since = (redis: number, ofValkey: number): boolean => atLeast(version, kind === "redis" ? redis : ofValkey);
  return {
    server: `${kind} ${version}`,
    hotkeys: (named?.hotkeys ?? since(8.6, 9.2)) ? kind : null,
    slotStats: node.clustered && (named?.slotStats ?? since(8.2, 8)),
    policy: info.get("maxmemory_policy") ?? "",
  };
}

/** Null where the user may not ask. */
async function commandsOf(node: Primary): Promise<{ hotkeys: boolean; slotStats: boolean } | null> {
  try {
    const reply = await node.call("COMMAND", "INFO", "hotkeys", "cluster|slot-stats");
    const [hotkeys, slotStats] = Array.isArray(reply) ? (reply as unknown[]) : [];
    return { hotkeys: Array.isArray(hotkeys), slotStats: Array.isArray(slotStats) };
  } catch (error) {
    if (error instanceof KeylaneError && error.outcome === "rejected") return null;
    throw error;
  }
}

/** Whether `8.10.1` is at least 8.6: numbers are compared, not digits. */
function atLeast(version: string, least: number): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [leastMajor, leastMinor = 0] = String(least).split(".").map(Number) as [number, number?];
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}
