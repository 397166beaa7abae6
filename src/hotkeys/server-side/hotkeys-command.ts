/**
 * `HOTKEYS`, which two servers have under one name.
 *
 * ```text
 * Redis 8.6     HOTKEYS START METRICS 2 CPU NET COUNT k DURATION s → OK      a session; one at a time on a server
 *               HOTKEYS GET  → names and values, or a list of one such list; by-cpu-time-us and by-net-bytes are [key, n, …]
 *               HOTKEYS STOP, HOTKEYS RESET
 * Valkey 9.2    hotkeys-top-k above 0 turns it on; windows of hotkeys-window-seconds
 *               HOTKEYS GET  → [{ key, db, qps }, …] of the last whole window, hottest first; nothing while there is none
 * ```
 *
 * The invariant: a session or setting that was made here is undone here, also after an abort; another's is left alone. A session
 * ends by itself soon after, should this process die.
 */
import { KeylaneError } from "../../errors.js";
import type { Primary } from "../../lane/primaries.js";
import { pause, watch } from "./pause.js";
import { countsOf, fieldsOf, numberOf, textOf } from "./replies.js";
import type { Measured, Plan } from "./types.js";

/** Redis tracks at most so many keys. */
const MOST_TRACKED = 64;
/** A session outlives its reader by so many seconds. */
const GRACE_SECONDS = 5;
const IN_PROGRESS = /already in progress/i;
const POLL_MS = 200;

/** What one server told. */
export interface Watched {
  readonly keys: readonly Measured[];
  readonly watchedMs: number;
  readonly notes: readonly string[];
}

/** Watches a Redis server for `seconds`, or reads the session that someone else has under way. */
export async function watchRedis(node: Primary, plan: Plan): Promise<Watched> {
  const count = Math.min(plan.top, MOST_TRACKED);
  try {
    const metrics = ["METRICS", 2, "CPU", "NET"];
    await node.call("HOTKEYS", "START", ...metrics, "COUNT", count, "DURATION", plan.seconds + GRACE_SECONDS);
  } catch (error) {
    if (!(error instanceof KeylaneError && IN_PROGRESS.test(error.message))) throw error;
    const session = sessionOf(await node.call("HOTKEYS", "GET"));
    return { ...session, notes: ["a session that someone else started was read, and left running"] };
  }
  const { began } = sessionOf(await node.call("HOTKEYS", "GET"));
  try {
    await watchFor(node, plan);
    return { ...sessionOf(await node.call("HOTKEYS", "GET")), notes: [] };
  } finally {
    // Should another have begun since, that one is not ours to end.
    if (sessionOf(await node.call("HOTKEYS", "GET")).began === began) {
      await node.call("HOTKEYS", "STOP");
      await node.call("HOTKEYS", "RESET");
    }
  }
}

/** A reply of HOTKEYS GET in any of its shapes; nil is an empty one. */
function sessionOf(reply: unknown): Omit<Watched, "notes"> & { readonly began: number | null } {
  const list = Array.isArray(reply) ? (reply as unknown[]) : [];
  const fields = fieldsOf(list.length === 1 ? list[0] : list);
  const keys = new Map<string, { key: Buffer; cpuMicros?: number; bytes?: number }>();
  for (const [key, cpuMicros] of countsOf(fields.get("by-cpu-time-us") ?? fields.get("by-cpu-time"))) {
    keys.set(key.toString("latin1"), { key, cpuMicros });
  }
  for (const [key, bytes] of countsOf(fields.get("by-net-bytes"))) {
    const name = key.toString("latin1");
    keys.set(name, { ...(keys.get(name) ?? { key }), bytes });
  }
  return {
    keys: [...keys.values()],
    watchedMs: numberOf(fields.get("collection-duration-ms")) ?? 0,
    began: numberOf(fields.get("collection-start-time-unix-ms")),
  };
}

/** Reads the last window of a Valkey server; waits up to `seconds` for one. With `enable`, turns tracking on for the time. */
export async function watchValkey(node: Primary, plan: Plan): Promise<Watched> {
  const settings = await settingsOf(node);
  const topK = numberOf(settings.get("hotkeys-top-k"));
  if (topK !== 0) return readWindow(node, plan, settings, []);
  if (!plan.enable) {
    const message = `${node.address}: HOTKEYS is off (hotkeys-top-k is 0)`;
    throw new KeylaneError("KEYLANE_ERR_UNSUPPORTED", message, { node: node.address, command: "HOTKEYS" });
  }
  const window = settings.get("hotkeys-window-seconds");
  const set = (name: string, value: string | number): Promise<unknown> => node.call("CONFIG", "SET", name, value);
  try {
    if (window !== undefined) await set("hotkeys-window-seconds", plan.seconds);
    await set("hotkeys-top-k", plan.top);
    const now = new Map(settings).set("hotkeys-window-seconds", plan.seconds);
    await watchFor(node, plan);
    return await readWindow(node, plan, now, ["tracking was turned on for this, and off again"]);
  } finally {
    await set("hotkeys-top-k", 0);
    if (window !== undefined) await set("hotkeys-window-seconds", textOf(window));
  }
}

/** Its settings; none where the user may not ask. */
async function settingsOf(node: Primary): Promise<Map<string, unknown>> {
  try {
    return fieldsOf(await node.call("CONFIG", "GET", "hotkeys-*"));
  } catch (error) {
    if (error instanceof KeylaneError && error.outcome === "rejected") return new Map();
    throw error;
  }
}

async function readWindow(
  node: Primary,
  plan: Plan,
  settings: ReadonlyMap<string, unknown>,
  notes: readonly string[],
): Promise<Watched> {
  const watchedMs = (numberOf(settings.get("hotkeys-window-seconds")) ?? 0) * 1000;
  const sampled = numberOf(settings.get("hotkeys-sampling-percentage"));
  const told =
    sampled === null || sampled >= 100 ? notes : [...notes, `rates are estimates from ${sampled} % of all accesses`];
  const until = performance.now() + plan.seconds * 1000;
  for (;;) {
    const keys = windowOf(await node.call("HOTKEYS", "GET"));
    if (keys.length > 0 || performance.now() >= until) return { keys, watchedMs, notes: told };
    await pause(POLL_MS, plan.signal);
  }
}

function windowOf(reply: unknown): Measured[] {
  const rows = Array.isArray(reply) ? (reply as unknown[]) : [];
  return rows.flatMap((row) => {
    const fields = fieldsOf(row);
    const [key, perSecond] = [fields.get("key"), numberOf(fields.get("qps"))];
    return Buffer.isBuffer(key) && perSecond !== null ? [{ key, perSecond }] : [];
  });
}

function watchFor(node: Primary, { seconds, signal, progress }: Plan): Promise<void> {
  const total = seconds * 1000;
  return watch(total, signal, (done) => progress?.({ node: node.address, unit: "ms", done, total }));
}
