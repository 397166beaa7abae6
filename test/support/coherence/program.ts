/**
 * One process of a coherence run: its main thread opens keylane, the others attach to it, and all play. The parent asks over
 * IPC, each thread answers, and the answers go back in the order of the threads.
 *
 * ```text
 * parent ─ ask ─▶ main thread ─ ask ─▶ thread 1 … 3
 *        ◀─ answers, one a thread ──────────────────
 * ```
 */
import { once } from "node:events";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { KeylaneHandle } from "keylane";
import { Player, clock } from "./player.js";
import type { KeyAtRest, PlayerLog } from "./player.js";

/** What the parent can ask. `end` closes everything, and the process ends by itself. */
export type Ask = "start" | "stop" | "rest" | "end";
/** What a thread answers: to `stop` its log, to `rest` its keys, else when it was done. */
export type Answer = PlayerLog | KeyAtRest[] | number;

/** The single argument of the program, as JSON. */
export interface ProgramPlan {
  /** Begins the names of its players. */
  readonly name: string;
  readonly nodes: readonly string[];
  readonly threads: number;
  readonly tags: number;
  readonly seed: number;
}

interface ThreadPlan extends ProgramPlan {
  readonly thread: number;
}

async function answer(lanes: Keylane, player: Player, ask: Ask): Promise<Answer> {
  if (ask === "stop") return player.stop();
  if (ask === "rest") return player.rest();
  if (ask === "start") player.start();
  else await lanes.close();
  return clock();
}

function playerOf(lanes: Keylane, { name, thread, tags, seed }: ThreadPlan): Player {
  return new Player(lanes, `${name}.${thread}`, tags, seed + thread);
}

async function main(): Promise<void> {
  const plan = JSON.parse(process.argv[2]!) as ProgramPlan;
  const cache = { mode: "all", negativeTtlMs: 60_000, refreshAfterMs: 500 } as const;
  const lanes = (await Keylane.open({
    domains: { all: { prefixes: [""], nodes: plan.nodes, cache } },
    commandTimeoutMs: 5000,
  })) as unknown as Keylane;
  const handle = lanes.handle();
  const workers = Array.from({ length: plan.threads - 1 }, (_, index) => {
    const data = { handle, plan: { ...plan, thread: index + 1 } satisfies ThreadPlan };
    return new Worker(new URL(import.meta.url), { workerData: data });
  });
  await Promise.all(workers.map((worker) => once(worker, "message")));
  const player = playerOf(lanes, { ...plan, thread: 0 });
  process.on("message", (ask: Ask) => {
    void (async () => {
      const others = workers.map((worker) => once(worker, "message"));
      for (const worker of workers) worker.postMessage(ask, []);
      if (ask === "end") await Promise.all(others);
      const own = await answer(lanes, player, ask);
      const answers = [own, ...(await Promise.all(others)).map(([one]) => one as Answer)];
      process.send!(answers, () => {
        if (ask === "end") process.disconnect();
      });
    })();
  });
  process.send!([]);
}

async function thread({ handle, plan }: { handle: KeylaneHandle; plan: ThreadPlan }): Promise<void> {
  const lanes = (await Keylane.attach(handle)) as unknown as Keylane;
  const player = playerOf(lanes, plan);
  parentPort!.on("message", (ask: Ask) => {
    void (async () => {
      parentPort!.postMessage(await answer(lanes, player, ask), []);
      if (ask === "end") parentPort!.close();
    })();
  });
  parentPort!.postMessage("ready", []);
}

await (isMainThread ? main() : thread(workerData as { handle: KeylaneHandle; plan: ThreadPlan }));
