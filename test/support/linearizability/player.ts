/**
 * One thread of a linearizability run: SET, GET and INCR of random keys at a steady pace, each recorded with the moments of its
 * call and its end. The invariant: nothing is repeated and nothing left out, so that the record is the whole of what the thread
 * did. Some keys are asked for far more often than others, and up to three calls on a key are made in one go.
 *
 * Loaded in a worker thread, it attaches to what its parent opened, plays when told to, answers with its record, and closes.
 */
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { KeylaneError, KeylaneHandle } from "keylane";
import { Random } from "../chaos/random.js";
import { clock } from "../coherence/player.js";
import type { Operation } from "./operation.js";

/** All threads call at the same moments, so far apart, in milliseconds. */
const BEAT_MS = 5;
const BURST = 3;
/** SETs are so far apart that no sum tells of another's. */
const STRIDE = 1_000_000;

/** What a thread is to do. */
export interface PlayerPlan {
  /** From 0; fewer than 8 play. */
  readonly thread: number;
  readonly seed: number;
  readonly keys: number;
  readonly operations: number;
  /** How long that takes, in milliseconds. */
  readonly lengthMs: number;
}

/** What a worker thread is given. */
export interface PlayerData {
  readonly handle: KeylaneHandle;
  readonly via: "own" | "pool";
  readonly plan: PlayerPlan;
}

export interface PlayerRecord {
  readonly operations: Operation[];
  /** How often calls failed, by code and outcome. */
  readonly failures: ReadonlyMap<string, number>;
}

export function keyOf(index: number): string {
  return `lin:${index}`;
}

/** Makes one call and records it. */
async function call(
  lanes: Keylane,
  { operations, failures }: { operations: Operation[]; failures: Map<string, number> },
  key: string,
  kind: Operation["kind"],
  input: number,
): Promise<void> {
  const began = clock();
  try {
    let output: number | null = null;
    if (kind === "set") await lanes.set(key, String(input) as never);
    else {
      const answer = await (kind === "get" ? lanes.get(key) : lanes.incrBy(key, input));
      output = answer === null ? null : Number(answer);
    }
    operations.push({ key, kind, input, output, outcome: "ok", began, ended: clock() });
  } catch (error) {
    const { code, outcome } = error as KeylaneError;
    const what = `${kind} ${code} ${outcome}`;
    failures.set(what, (failures.get(what) ?? 0) + 1);
    const effect = kind === "get" || outcome === "unknown" ? "unknown" : "failed";
    operations.push({ key, kind, input, output: null, outcome: effect, began, ended: clock() });
  }
}

export async function play(lanes: Keylane, plan: PlayerPlan): Promise<PlayerRecord> {
  const record = { operations: [] as Operation[], failures: new Map<string, number>() };
  const random = new Random(plan.seed);
  const calls: Promise<void>[] = [];
  const start = clock();
  while (calls.length < plan.operations) {
    const due = Math.min(plan.operations, Math.ceil(((clock() - start) / plan.lengthMs) * plan.operations));
    while (calls.length < due) {
      const key = keyOf(Math.floor(plan.keys * random.next() ** 3));
      for (let more = random.between(1, Math.min(BURST, plan.operations - calls.length)); more > 0; more -= 1) {
        const kind = random.pick(["set", "get", "get", "incr", "incr"] as const);
        const input = kind === "set" ? (calls.length * 8 + plan.thread + 1) * STRIDE : kind === "incr" ? 1 : 0;
        calls.push(call(lanes, record, key, kind, input));
      }
    }
    await new Promise((resolve) => setTimeout(resolve, BEAT_MS - (clock() % BEAT_MS)));
  }
  await Promise.all(calls);
  return record;
}

/** Reads every key once. */
export async function readAll(lanes: Keylane, keys: number): Promise<PlayerRecord> {
  const record = { operations: [] as Operation[], failures: new Map<string, number>() };
  await Promise.all(Array.from({ length: keys }, (_, index) => call(lanes, record, keyOf(index), "get", 0)));
  return record;
}

if (!isMainThread && (workerData as Partial<PlayerData> | null)?.plan !== undefined) {
  const { handle, via, plan } = workerData as PlayerData;
  const lanes = (await Keylane.attach(handle, { via })) as Keylane;
  parentPort!.once("message", () => {
    void (async () => {
      parentPort!.postMessage(await play(lanes, plan), []);
      await lanes.close();
    })();
  });
  parentPort!.postMessage("ready", []);
}
