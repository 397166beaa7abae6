/** Copies of hot keys, written and read by all threads of a process at once: nobody reads what is older than acknowledged. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";

import type { KeylaneHandle } from "keylane";

import { useC3 } from "../../support/fixtures.js";
import { playHot } from "../../support/hot-thread.js";
import type { HotThreadOrder, HotThreadReport } from "../../support/hot-thread.js";
import { callsOf } from "../../support/keys.js";
import { Replicated, replicatedOn } from "../../support/replicated.js";
import { until } from "../../support/until.js";

const c3 = useC3();
const PROGRAM = new URL("../../support/hot-thread.js", import.meta.url);
/** Calls of all threads together. */
const CALLS = Number(process.env["KEYLANE_HOT_CALLS"] ?? 10_000);

function inThread(order: HotThreadOrder): Promise<HotThreadReport> {
  const transfer = order.handle.pool === null ? [] : [order.handle.pool.port];
  const worker = new Worker(PROGRAM, { workerData: order, transferList: transfer });
  return once(worker, "message").then(([report]) => report as HotThreadReport);
}

async function play(rig: Replicated, threads: readonly ("own" | "pool")[], total: number): Promise<void> {
  const keys = ["up:a", "up:b", "up:c", "up:d"].slice(0, threads.length + 1);
  for (const node of c3.value.primaries) await node.command("FLUSHALL");
  for (const key of keys) await rig.lanes.set(key, "0");
  for (const key of keys) await rig.copy(key, 2, c3.value);
  for (const node of c3.value.primaries) await node.command("CONFIG", "RESETSTAT");
  const part = {
    keys,
    acknowledged: new SharedArrayBuffer(keys.length * 4),
    calls: Math.ceil(total / keys.length),
    width: 8,
  };
  const handleFor = (via: "own" | "pool"): KeylaneHandle => rig.lanes.handle({ via });
  const reports = await Promise.all([
    playHot(rig.lanes, { ...part, at: 0 }),
    ...threads.map((via, i) => inThread({ ...part, at: i + 1, via, handle: handleFor(via) })),
  ]);
  assert.deepEqual(
    reports.flatMap(({ stale }) => stale),
    [],
  );
  const reads = reports.reduce((sum, report) => sum + report.reads, 0);
  const writes = reports.reduce((sum, report) => sum + report.writes, 0);
  assert.ok(reads + writes >= total && writes > total / 50, `${reads} reads, ${writes} writes`);
  // Copies were read, in spite of all the writes, and filled anew.
  const filled = (await Promise.all(c3.value.primaries.map((node) => callsOf(node, "evalsha")))).reduce(
    (a, b) => a + b,
  );
  assert.ok(filled > 0, `${filled}`);
  for (const [at, key] of keys.entries()) {
    const last = String(new Int32Array(part.acknowledged)[at]);
    assert.equal(await rig.lanes.get(key), last);
    const copies = await rig.nodesOf(await rig.filled(key, 2, c3.value), c3.value);
    for (const { name, node } of copies) {
      await until(async () => String(await node.command("GET", name)) === last, { what: `${name} to be ${last}` });
    }
  }
}

describe("threads", () => {
  it("that hold connections of their own", async () => {
    await play(await Replicated.open(replicatedOn(c3.value, { commandTimeoutMs: 5000 })), ["own", "own", "own"], CALLS);
  });

  it("of a pool: callers here and in another thread", async () => {
    const options = replicatedOn(c3.value, { threads: 2, commandTimeoutMs: 5000 });
    await play(await Replicated.open(options), ["pool", "own"], CALLS / 4);
  });

  it("reads of callers of a pool are spread over original and copies", async () => {
    const { lanes, copy } = await Replicated.open(replicatedOn(c3.value, { threads: 2 })).then((rig) => ({
      lanes: rig.lanes,
      copy: (key: string) => rig.copy(key, 2, c3.value),
    }));
    await lanes.set("up:pool", "v");
    await copy("up:pool");
    for (const node of c3.value.primaries) await node.command("CONFIG", "RESETSTAT");
    for (let i = 0; i < 10; i += 1) {
      const got = await lanes.getMany(Array.from({ length: 90 }, () => "up:pool"));
      assert.ok(got.every((value) => value === "v"));
    }
    const calls = await Promise.all(c3.value.primaries.map((node) => callsOf(node, "get")));
    assert.ok(
      calls.every((count) => count >= 300 && count <= 330),
      calls.join(),
    );
  });
});
