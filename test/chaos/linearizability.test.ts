/**
 * Four threads set, read and increment the same keys while the cluster fails over again and again, gracefully, so that no server
 * loses what it acknowledged; connections are cut and, in mode pool, a worker ends meanwhile. Afterwards the whole history is
 * proved to be one of keys that do one thing at a time.
 *
 * `KEYLANE_LINEARIZABILITY_OPERATIONS` says how many operations each mode makes (default 4,000; a release is given 100,000),
 * `KEYLANE_LINEARIZABILITY_SEED` chooses the choices. Prints its figures.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { Keylane } from "keylane";
import type { SandboxNode } from "keylane/sandbox";

import { clock } from "../support/coherence/player.js";
import { useC6 } from "../support/fixtures.js";
import { check } from "../support/linearizability/checker.js";
import { play, readAll } from "../support/linearizability/player.js";
import type { PlayerData, PlayerPlan, PlayerRecord } from "../support/linearizability/player.js";
import { endWorker, runningWorkers } from "../support/pool/workers.js";
import { within } from "../support/until.js";

const OPERATIONS = Number(process.env["KEYLANE_LINEARIZABILITY_OPERATIONS"] ?? 4000);
const SEED = Number(process.env["KEYLANE_LINEARIZABILITY_SEED"] ?? 5);
const LENGTH_MS = Math.max(3000, OPERATIONS / 5);
/** Primaries vote once in two node timeouts for a replica of the same shard: sooner, a failover holds its writes up for seconds. */
const REST_MS = 2200;
const KEYS = Math.max(40, Math.round(OPERATIONS / 300));
/** A call may take so long: none is to fail because its shard has no primary for a moment. */
const DEADLINE_MS = 15_000;

/** How the threads reach the servers; the first is the one that opened. */
const MODES = {
  inline: { threads: 0, via: ["own", "own", "own", "own"] },
  pool: { threads: 2, via: ["pool", "pool", "own", "own"] },
} as const;

/** A thread that plays when it is told to. Its record, and its end. */
async function startPlayer(t: TestContext, lanes: Keylane, via: "own" | "pool", plan: PlayerPlan) {
  const handle = lanes.handle({ via });
  const worker = new Worker(new URL("../support/linearizability/player.js", import.meta.url), {
    workerData: { handle, via, plan } satisfies PlayerData,
    transferList: handle.pool === null ? [] : [handle.pool.port],
  });
  t.after(() => worker.terminate());
  await within(once(worker, "message"), 10_000, "attach");
  const ended = once(worker, "exit");
  return async (): Promise<PlayerRecord> => {
    const answer = once(worker, "message") as Promise<[PlayerRecord]>;
    worker.postMessage("play", []);
    const [record] = await answer;
    await within(ended, 10_000, "the end of a thread");
    return record;
  };
}

describe(`${OPERATIONS} operations of four threads during failovers`, () => {
  const c6 = useC6();

  /**
   * Fails one shard over after the other while `goesOn`, and cuts the connections to the old primary in the middle of every other
   * failover, when writes wait there. `begun` runs as each begins. Gives the moments between which that happened.
   */
  async function failOver(goesOn: () => boolean, begun: () => void): Promise<[from: number, to: number][]> {
    const spans: [number, number][] = [];
    /** When a primary became one. */
    const since = new Map<SandboxNode, number>();
    const sinceOf = (node: SandboxNode): number => since.get(node) ?? -Infinity;
    for (let at = 0; goesOn(); at += 1) {
      const [primary] = c6.value.primaries.toSorted((a, b) => sinceOf(a) - sinceOf(b)) as [SandboxNode];
      await sleep(Math.max(0, sinceOf(primary) + REST_MS - clock()));
      if (!goesOn()) break;
      const replica = c6.value.replicasOf(primary)[0]!;
      const from = clock();
      const done = c6.value.failover(replica);
      begun();
      for (let cuts = at % 2 === 0 ? 5 : 0; cuts > 0; cuts -= 1) {
        await sleep(20);
        await primary.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      }
      await done;
      since.set(replica, clock());
      spans.push([from, clock()]);
      await sleep(200);
    }
    return spans;
  }

  for (const [mode, { threads, via }] of Object.entries(MODES)) {
    it(`is linearizable, mode ${mode}`, { timeout: 60_000 + 4 * LENGTH_MS }, async (t) => {
      const cluster = c6.value;
      for (const node of cluster.primaries) await node.command("FLUSHALL");
      const before = runningWorkers().length;
      const lanes = (await Keylane.open({
        domains: { all: { prefixes: ["lin:"], nodes: cluster.seeds } },
        commandTimeoutMs: DEADLINE_MS,
        threads,
      })) as unknown as Keylane;
      t.after(() => lanes.close());
      const poolWorkers = runningWorkers().slice(before);
      const plans = via.map((_, thread): PlayerPlan => {
        return { thread, seed: SEED * 8 + thread, keys: KEYS, operations: OPERATIONS / 4, lengthMs: LENGTH_MS };
      });
      const players = [async () => play(lanes, plans[0]!)];
      for (const at of [1, 2, 3]) players.push(await startPlayer(t, lanes, via[at]!, plans[at]!));

      let playing = true;
      const records = Promise.all(players.map((one) => one())).finally(() => (playing = false));
      // A worker ends as a failover begins: what waits for the new primary would all be of unknown outcome in the end.
      let doomed: Worker | undefined = poolWorkers[0];
      let ending: Promise<void> | undefined;
      const half = clock() + LENGTH_MS / 2;
      const endOne = (): void => {
        if (doomed === undefined || clock() < half) return;
        ending = endWorker(doomed, "exit");
        doomed = undefined;
      };
      const [logs, spans] = await Promise.all([records, failOver(() => playing, endOne)]);
      await ending;
      assert.equal(doomed, undefined, "the worker ended");
      logs.push(await readAll(lanes, KEYS));

      const history = logs.flatMap(({ operations }) => operations);
      const failures = new Map<string, number>();
      for (const log of logs) {
        for (const [what, count] of log.failures) failures.set(what, (failures.get(what) ?? 0) + count);
      }
      const during = history.filter(({ began, ended }) => spans.some(([from, to]) => began < to && ended > from));
      const start = clock();
      const report = check(history);
      const judgedMs = clock() - start;
      console.log(
        `${mode}: ${report.operations} operations on ${report.keys} keys, ${report.unknown} of unknown outcome, ` +
          `up to ${report.overlap} at once on a key; ${spans.length} failovers, ${during.length} operations during them; ` +
          `${report.explored} configurations in ${judgedMs.toFixed(0)} ms;`,
        Object.fromEntries(failures),
      );
      assert.deepEqual([...report.faults], []);
      assert.deepEqual([report.operations, report.keys], [OPERATIONS + KEYS, KEYS]);
      assert.ok(spans.length > 0 && during.length > OPERATIONS / 20, `${spans.length} failovers`);
      assert.ok(report.overlap > 3, "calls met");
      assert.ok(report.unknown < OPERATIONS / 10, `${report.unknown} of unknown outcome`);
      for (const what of failures.keys()) {
        assert.match(what, /^\w+ KEYLANE_ERR_(CONNECTION_LOST|WORKER_LOST|TIMEOUT) /);
      }
      assert.deepEqual(await lanes.close(), { lost: 0 });
    });
  }
});
