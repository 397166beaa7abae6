/**
 * A program that takes caps as fast as it can, in its main thread and in a worker that shares its memory, with clocks that are
 * wrong. It sends what was decided to the process that forked it.
 */
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { Cap, KeylaneHandle } from "keylane";
import { capsOptions } from "./caps.js";

export const WINDOW_MS = 1200;
const LIMITS = [1, 3, 50] as const;
const ZONES = ["UTC", "America/Los_Angeles", "Asia/Kathmandu", "Pacific/Kiritimati"] as const;
/** Calls under way in one thread. */
const WIDTH = 32;
/** Of the denials that cost nothing, one in so many is told. */
const TOLD = 32;

export type HammerKind = "fixed" | "sliding" | "civil";

/** The cap of a user: every kind of window with every limit, in turn. */
export function capOf(user: number): { readonly kind: HammerKind; readonly limit: number; readonly cap: Cap } {
  const limit = LIMITS[user % 3]!;
  const kind = (["fixed", "sliding", "civil"] as const)[Math.floor(user / 3) % 3]!;
  const name = `cap:${user % 5}`;
  if (kind !== "civil") return { kind, limit, cap: { name, limit, windowMs: WINDOW_MS, sliding: kind === "sliding" } };
  const per = (["day", "week", "month"] as const)[Math.floor(user / 9) % 3]!;
  return { kind, limit, cap: { name, limit, per, timeZone: ZONES[user % 4]! } };
}

/** What a process is to do. */
export interface HammerOrder {
  readonly seeds: readonly string[];
  readonly users: number;
  readonly seconds: number;
  readonly seed: number;
  /** Error of the clocks of its threads, and a second one that comes half way. */
  readonly skewMs: number;
  readonly laterMs: number;
}

/** Words of a decision. Times are of this machine's true clock. */
export const Word = { USER: 0, ALLOWED: 1, CACHED: 2, RESETS_AT: 3, SENT: 4, RECEIVED: 5, USED: 6 } as const;
export const WORDS = 7;

export interface HammerReport {
  readonly decisions: Float64Array;
  readonly calls: number;
  readonly faults: readonly string[];
}

/** One thread's part. The clock that keylane could look at is wrong; the true one is kept for the records. */
async function hammer(lanes: Keylane, order: HammerOrder, thread: number): Promise<HammerReport> {
  const truly = Date.now;
  let state = order.seed * 2 + thread + 1;
  const random = (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  let words: number[] = [];
  const blocks: number[][] = [words];
  const faults: string[] = [];
  const users = Array.from({ length: order.users }, (_, user) => capOf(user));
  const end = truly() + order.seconds * 1000;
  let skewMs = order.skewMs;
  Date.now = () => truly() + skewMs;
  let calls = 0;
  const flow = async (lane: number): Promise<void> => {
    for (let turn = 0; truly() < end; turn += 1) {
      if (end - truly() < order.seconds * 500) skewMs = order.laterMs;
      const user = random(order.users);
      const list = [users[user]!.cap];
      const id = random(4) === 0 ? `${order.seed}-${thread}-${lane}-${turn}` : undefined;
      const sent = truly();
      const result = await lanes.caps.take(`hammered ${user}`, list, { id });
      const received = truly();
      calls += 1;
      const [state] = result.caps;
      const cached = result.source === "cache";
      if (state === undefined) faults.push(`no cap: ${JSON.stringify(result)}`);
      else if (!cached || calls % TOLD === 0) {
        words.push(user, Number(result.allowed), Number(cached), state.resetsAtMs, sent, received, state.used);
        if (words.length > 70_000) blocks.push((words = []));
      }
      if (cached) await new Promise(setImmediate);
      if (!result.allowed || id === undefined || random(2) === 0) continue;
      const again = await lanes.caps.take(`hammered ${user}`, list, { id });
      // An id is remembered for a window from its count on, which was made after `sent`.
      const tookMs = truly() - sent;
      if (!again.allowed && tookMs < WINDOW_MS)
        faults.push(`denied ${tookMs} ms after it was allowed: ${again.source}`);
      if (again.allowed && tookMs >= WINDOW_MS)
        faults.push(`a repeat took ${tookMs} ms: the machine is too slow to judge`);
    }
  };
  try {
    await Promise.all(Array.from({ length: WIDTH }, (_, lane) => flow(lane)));
  } catch (error) {
    faults.push(String((error as Error).stack));
  } finally {
    Date.now = truly;
  }
  return { decisions: Float64Array.from(blocks.flat()), calls, faults };
}

async function main(order: HammerOrder): Promise<void> {
  const lanes = await Keylane.open(
    capsOptions(order.seeds, { onError: "throw" }, { commandTimeoutMs: 10_000, cacheBytes: 8 << 20 }),
  );
  const worker = new Worker(new URL(import.meta.url), { workerData: { handle: lanes.handle(), order } });
  const other = once(worker, "message") as Promise<[HammerReport]>;
  const ended = once(worker, "exit");
  const reports = [await hammer(lanes, order, 0), (await other)[0]];
  await ended;
  await lanes.close();
  for (const report of reports) await new Promise((resolve) => process.send!(report, resolve));
  process.disconnect();
}

if (!isMainThread && (workerData as { order?: HammerOrder } | null)?.order !== undefined) {
  const { handle, order } = workerData as { handle: KeylaneHandle; order: HammerOrder };
  const lanes = await Keylane.attach(handle);
  const report = await hammer(lanes as Keylane, order, 1);
  await lanes.close();
  parentPort!.postMessage(report, [report.decisions.buffer as ArrayBuffer]);
} else if (process.send !== undefined && process.argv[2] === "hammer") {
  process.once("message", (order: HammerOrder) => void main(order));
}
