/**
 * Workers that die under load: mixed calls through a pool of two while one worker after the other is ended, in four ways in turn.
 * `KEYLANE_CHAOS_SECONDS` says how long (default 8; 60 for a release, then one dies every 5 s). Prints its figures.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane, type KeylaneError } from "keylane";

import { useC3 } from "../support/fixtures.js";
import { footprint } from "../support/footprint.js";
import { WAYS, endWorker, runningWorkers } from "../support/pool/workers.js";
import { until } from "../support/until.js";

const SECONDS = Number(process.env["KEYLANE_CHAOS_SECONDS"] ?? 8);
const EVERY_MS = Math.min(5000, (SECONDS * 1000) / 6);
const COUNTERS = 40;
const FLOWS = 64;
/** What a call may take beyond its deadline, or after the death of its worker. */
const GRACE_MS = 1000;
const DEADLINE_MS = 2000;
/** Load before memory is looked at for the first time. */
const WARM_MS = 1000;
/** How much more heap may be held at the end, in bytes, however long the run was. */
const HEAP_ROOM = 16 << 20;

const cluster = useC3();

class Counter {
  acknowledged = 0;
  unknown = 0;
  last = 0;
}

test(
  `every call settles and no increment runs twice while workers die for ${SECONDS} s`,
  { timeout: (SECONDS + 60) * 1000 },
  async (t) => {
    const lanes = await Keylane.open({
      domains: {
        counters: { prefixes: ["n:"], nodes: cluster.value.seeds },
        cached: { prefixes: ["c:"], nodes: cluster.value.seeds, cache: { mode: "all", ttlMs: 200 } },
      },
      threads: 2,
      // Connections are counted, and copies of hot keys have some of their own.
      hotKeys: false,
      commandTimeoutMs: DEADLINE_MS,
    });
    t.after(() => lanes.destroy());
    const exits: string[] = [];
    lanes.on("worker:exit", ({ reason }) => exits.push(reason));
    const clients = async (): Promise<number> => {
      const told = await Promise.all(cluster.value.primaries.map((node) => node.info("clients")));
      return told.reduce((sum, info) => sum + Number(info.get("connected_clients")), 0);
    };
    const counters = Array.from({ length: COUNTERS }, () => new Counter());
    const codes = new Map<string, number>();
    const wrong: string[] = [];
    let calls = 0;
    let slowest = 0;
    let end = performance.now() + WARM_MS;
    const run = async (call: () => Promise<unknown>): Promise<KeylaneError | null> => {
      calls += 1;
      const began = performance.now();
      try {
        await call();
        return null;
      } catch (error) {
        const { code, outcome } = error as KeylaneError;
        codes.set(`${code} ${outcome}`, (codes.get(`${code} ${outcome}`) ?? 0) + 1);
        return error as KeylaneError;
      } finally {
        slowest = Math.max(slowest, performance.now() - began);
      }
    };
    const flow = async (seed: number): Promise<void> => {
      for (let at = seed; performance.now() < end; at += 7) {
        const index = at % COUNTERS;
        const counter = counters[index]!;
        const error = await run(async () => {
          const sum = Number(await lanes.incrBy(`n:${index}`));
          counter.acknowledged += 1;
          counter.last = Math.max(counter.last, sum);
        });
        if (error !== null && error.outcome === "unknown") counter.unknown += 1;
        const read = await run(async () => {
          const value = Number(await lanes.get(`n:${index}`));
          if (value < counter.last - FLOWS) wrong.push(`n:${index} was ${value} after ${counter.last}`);
        });
        if (read !== null && read.code === "KEYLANE_ERR_CLOSED") wrong.push("closed");
        await run(() => lanes.get(`c:${at % 100}`));
        await run(() => lanes.set(`c:${at % 100}`, "v"));
      }
    };
    const load = (): Promise<void[]> => Promise.all(Array.from({ length: FLOWS }, (_, seed) => flow(seed)));
    await load();
    const before = { clients: await clients(), ...footprint() };
    end = performance.now() + SECONDS * 1000;
    const loaded = load();
    let killed = 0;
    while (performance.now() + EVERY_MS < end) {
      await sleep(EVERY_MS);
      const worker = await until(() => runningWorkers()[0], { what: "a worker to end" });
      await endWorker(worker, WAYS[killed % WAYS.length]!);
      killed += 1;
    }
    await loaded;

    const finals = await Promise.all(counters.map((_, index) => lanes.get(`n:${index}`)));
    let unknown = 0;
    for (const [index, counter] of counters.entries()) {
      const value = Number(finals[index]);
      unknown += counter.unknown;
      const { acknowledged } = counter;
      if (value < acknowledged || value > acknowledged + counter.unknown) {
        wrong.push(
          `n:${index} is ${value} after ${acknowledged} acknowledged and ${counter.unknown} unknown increments`,
        );
      }
    }
    console.log(
      `${calls} calls, ${killed} workers ended, slowest call ${slowest.toFixed(0)} ms, ${unknown} increments unknown,`,
      Object.fromEntries(codes),
    );
    assert.deepEqual(wrong, []);
    assert.ok(killed >= 4, `${killed} workers ended`);
    assert.equal(exits.length, killed);
    assert.ok(slowest < DEADLINE_MS + GRACE_MS, `a call took ${slowest} ms`);
    for (const kind of codes.keys()) {
      assert.match(kind, /^KEYLANE_ERR_(WORKER_LOST unknown|TIMEOUT .*)$/);
    }
    assert.equal(
      Object.values(lanes.stats().domains).reduce((sum, { pending }) => sum + pending, 0),
      0,
    );
    await until(async () => (await clients()) <= before.clients, { what: "clients are back at their number" });
    await until(() => footprint().descriptors <= before.descriptors + 4, { what: "file descriptors too" });
    await until(() => footprint().heap < before.heap + HEAP_ROOM, { what: "the heap is as it was" });
    const after = { clients: await clients(), ...footprint() };
    console.log(`before ${JSON.stringify(before)}, after ${JSON.stringify(after)}`);
    await lanes.close();
    await until(() => runningWorkers().length === 0);
  },
);
