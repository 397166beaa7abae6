/** Workers that die with work in hand, and calls that are given up: nobody hangs, nobody else is harmed, nothing runs twice. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { useSingle } from "../../support/fixtures.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { WAYS, endWorker, runningWorkers, stallWorker } from "../../support/pool/workers.js";
import { Stub } from "../../support/stub.js";
import { nextEvent, until, within } from "../../support/until.js";

const single = (address: string, more: object = {}) => ({
  domains: { all: { prefixes: [""], nodes: [address], mode: "single" as const } },
  commandTimeoutMs: 10_000,
  threads: 1,
  ...more,
});

describe("W3: a worker dies with work in hand", () => {
  for (const how of WAYS) {
    it(`W3: ${how}: 50 calls settle within a second, reads by the next worker, writes as unknown`, async (t) => {
      const stub = await Stub.start({ cluster: false });
      t.after(() => stub.stop());
      let silent = true;
      stub
        .answer("GET", ({ args }) => (silent ? undefined : args[1]!))
        .answer("INCRBY", () => undefined)
        .answer("SET", () => (silent ? undefined : "OK"));
      const lanes = await openLanes(single(stub.address));
      const before = stub.connections.size;
      const reads = Array.from({ length: 25 }, (_, at) => lanes.get(`k${at}`));
      const writes = Array.from({ length: 25 }, (_, at) => lanes.incrBy(`n${at}`));
      const refused = writes.map((call) =>
        rejection(call, "KEYLANE_ERR_WORKER_LOST", {
          command: "INCRBY",
          domain: "all",
          outcome: "unknown",
          retryable: true,
        }),
      );
      await until(() => stub.calls("GET").length + stub.calls("INCRBY").length === 50);
      silent = false;
      const [worker] = runningWorkers() as [ReturnType<typeof runningWorkers>[number]];
      const exited = nextEvent(lanes, "worker:exit");
      const ended = endWorker(worker, how);
      const settled = Promise.all([Promise.all(reads), Promise.all(refused)]);
      const [values] = await within(settled, how === "heap" ? 5000 : 1500, "the calls");
      await ended;
      assert.deepEqual(
        values,
        reads.map((_, at) => `k${at}`),
      );
      assert.equal(stub.calls("INCRBY").length, 25, "no write was sent again");
      const [event] = (await exited) as [{ worker: number; reason: string }];
      assert.equal(event.worker, 0);
      assert.match(
        event.reason,
        how === "throw" ? /thrown by the test/ : how === "heap" ? /memory|exited/ : /exited|closed/,
      );
      assert.equal(await lanes.set("after", "v").catch((error: unknown) => error), true);
      await until(() => stub.connections.size === before, { what: "connections are back at their number" });
      await until(() => runningWorkers().length === 1);
      assert.equal(lanes.stats().domains["all"]!.pending, 0);
      await lanes.close();
      assert.equal(runningWorkers().length, 0);
    });
  }

  it("W3: a read whose second worker dies too is given up; calls made meanwhile wait for the third", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("GET", () => undefined).answer("PTTL", () => 5);
    const lanes = await openLanes(single(stub.address));
    const read = rejection(lanes.get("k"), "KEYLANE_ERR_WORKER_LOST", { command: "GET", outcome: "unknown" });
    await until(() => stub.calls("GET").length === 1);
    await endWorker(runningWorkers()[0]!, "terminate");
    await until(() => stub.calls("GET").length === 2);
    const gone = endWorker(runningWorkers()[0]!, "exit");
    await within(read, 1000, "the read");
    assert.equal(await within(lanes.ttl("k"), 5000, "a call meanwhile"), 5);
    await gone;
  });

  it("W3: with two workers only one's calls are concerned", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("INCRBY", () => undefined);
    const lanes = await openLanes(single(stub.address, { threads: 2 }));
    const calls = Array.from({ length: 64 }, (_, at) =>
      lanes.incrBy(`n${at}`).catch((error: { code: string }) => error.code),
    );
    await until(() => stub.calls("INCRBY").length === 64);
    const exit = nextEvent(lanes, "worker:exit");
    await endWorker(runningWorkers()[0]!, "exit");
    await exit;
    const { failed, pending } = lanes.stats().domains["all"]!;
    assert.ok(failed > 10 && pending > 10, `${failed} failed, ${pending} pending`);
    assert.equal(failed + pending, 64);
    lanes.destroy();
    const codes = await Promise.all(calls);
    assert.deepEqual([...new Set(codes)].toSorted(), ["KEYLANE_ERR_CLOSED", "KEYLANE_ERR_WORKER_LOST"]);
  });
});

describe("a worker that stands still", () => {
  it("what timed out on its way to a worker is not sent later; the others are", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("INCRBY", () => 1).answer("GET", () => "v");
    const lanes = await openLanes(single(stub.address));
    await stallWorker(runningWorkers()[0]!);
    const late = [
      lanes.incrBy("n", 1, { timeoutMs: 50 }),
      lanes.get("n", { timeoutMs: 50 }),
      lanes.command("BLPOP", "n", 0, { timeoutMs: 50 }),
    ];
    const patient = lanes.incrBy("m");
    for (const call of late) await rejection(call, "KEYLANE_ERR_TIMEOUT");
    assert.equal(await patient, 1);
    assert.deepEqual(
      stub.calls("INCRBY").map(({ args }) => String(args[1])),
      ["m"],
    );
    assert.equal(stub.calls("GET").length + stub.calls("BLPOP").length, 0);
    assert.equal(await lanes.get("n"), "v");
    assert.equal(lanes.stats().domains["all"]!.pending, 0);
  });
});

describe("W1: an abort", () => {
  const server = useSingle();

  it("W1: gives up one call; its neighbours in the worker settle truthfully, and the thread lives", async () => {
    const lanes = await openLanes(single(server.value.address));
    const [worker] = runningWorkers();
    const { threadId } = worker!;
    const controller = new AbortController();
    const slow = rejection(lanes.command("BLPOP", "never", 0, { signal: controller.signal }), "KEYLANE_ERR_ABORTED");
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "1");
    const incrs = [lanes.incrBy("n"), lanes.incrBy("n")];
    controller.abort(new Error("enough"));
    incrs.push(lanes.incrBy("n"));
    assert.equal(((await slow).cause as Error).message, "enough");
    assert.deepEqual(await Promise.all(incrs), [1, 2, 3]);
    assert.equal(await server.value.node.command("GET", "n"), "3");
    assert.deepEqual(
      runningWorkers().map((one) => one.threadId),
      [threadId],
    );
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "0");
  });

  it("W1: says whether the command was sent", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("SET", () => undefined);
    const lanes = await openLanes(single(stub.address));
    const controller = new AbortController();
    const early = new AbortController();
    early.abort();
    await rejection(lanes.set("k", "v", { signal: early.signal }), "KEYLANE_ERR_ABORTED", { outcome: "not-sent" });
    const call = lanes.set("k", "v", { signal: controller.signal });
    await until(() => stub.calls("SET").length === 1);
    controller.abort();
    await rejection(call, "KEYLANE_ERR_ABORTED", { outcome: "unknown" });
    await stub.stop();
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.state === "down");
    const waits = new AbortController();
    const waiting = lanes.set("k", "v", { signal: waits.signal });
    await new Promise(setImmediate);
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.waiting === 1);
    waits.abort();
    await rejection(waiting, "KEYLANE_ERR_ABORTED", { outcome: "not-sent" });
  });

  it("W1: a deadline of one call harms no other", async () => {
    const lanes = await openLanes(single(server.value.address));
    const late = rejection(lanes.command("BLPOP", "never", 0, { timeoutMs: 60 }), "KEYLANE_ERR_TIMEOUT", {
      outcome: "unknown",
    });
    assert.equal(await lanes.set("quick", "v"), true);
    await within(late, 1000, "the deadline");
    assert.equal(await lanes.get("quick"), "v");
  });
});
