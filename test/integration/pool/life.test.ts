/** The pool's life: bounded queues, close and destroy at any moment, and a process that ends by itself. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Keylane } from "keylane";

import { useC3, useSingle } from "../../support/fixtures.js";
import { footprint } from "../../support/footprint.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { endWorker, runningWorkers } from "../../support/pool/workers.js";
import { runProgram } from "../../support/processes.js";
import { Relay } from "../../support/relay.js";
import { Stub } from "../../support/stub.js";
import { nextEvent, until, within } from "../../support/until.js";

const CYCLES = Number(process.env["KEYLANE_POOL_CYCLES"] ?? 12);

/** A million by hand. */
const CALLS = Number(process.env["KEYLANE_POOL_CALLS"] ?? 100_000);
/** Calls that wait must not run out of time while the others are made. */
const PATIENCE_MS = 25_000 + CALLS / 10;

const single = (address: string, more: object = {}) => ({
  domains: { all: { prefixes: [""], nodes: [address], mode: "single" as const } },
  threads: 1,
  ...more,
});

async function cycle(address: string): Promise<void> {
  const lanes = await Keylane.open(single(address));
  assert.equal(await lanes.set("k", "v"), true);
  await lanes.close();
}

const program = (address: string, body: string): string => `
  import { Keylane } from "keylane";
  process.on("unhandledRejection", (error) => { console.error("unhandled", error); process.exit(9); });
  const lanes = await Keylane.open({
    domains: { all: { prefixes: [""], mode: "single", nodes: ["${address}"] } }, threads: 2, commandTimeoutMs: 30000,
  });
  ${body}`;

/** Runs a program until it ends by itself, or is told to. */
async function run(address: string, body: string, signal?: NodeJS.Signals) {
  const folder = mkdtempSync(join(tmpdir(), "keylane-test-"));
  const script = join(import.meta.dirname ?? ".", `c8-${process.pid}.mjs`);
  writeFileSync(script, program(address, body));
  try {
    const running = runProgram(script, [], folder);
    await running.firstLine;
    if (signal !== undefined) running.kill(signal);
    return { ended: await within(running.ended, 15_000, "the program"), errors: running.errors() };
  } finally {
    rmSync(script, { force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

describe("W5: closing a pool", () => {
  const server = useSingle();

  it("W5: close with the node down, in the middle of a handshake, ready; twice; with 1,000 calls", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    for (const how of ["down", "handshake", "ready"] as const) {
      const lanes = await Keylane.open(single(relay.address, { commandTimeoutMs: 60_000 }));
      if (how === "down") await relay.refuse();
      if (how === "handshake") relay.down.stall = true;
      if (how !== "ready") {
        relay.cut();
        await until(() => lanes.stats().domains["all"]!.nodes[0]!.state !== "ready");
      }
      const calls = Array.from({ length: 1000 }, (_, at) => lanes.incrBy(`n${at}`));
      const settled = Promise.allSettled(calls);
      // Only calls that cannot be served are to be cut off, however slow the machine is.
      const closing = lanes.close({ timeoutMs: how === "ready" ? 30_000 : 200 });
      assert.equal(lanes.close({ timeoutMs: 60_000 }), closing, "the second close is the first");
      const { lost } = await within(closing, how === "ready" ? 30_000 : 1500, `close, ${how}`);
      const failed = (await within(settled, 500, "the calls")).filter(({ status }) => status === "rejected");
      assert.equal(failed.length, lost);
      assert.equal(lost, how === "ready" ? 0 : 1000);
      for (const one of failed) assert.equal((one as PromiseRejectedResult).reason.outcome, "not-sent", how);
      await rejection(lanes.get("k"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
      assert.equal(runningWorkers().length, 0);
      await relay.accept();
      relay.heal();
      await until(() => relay.open === 0, { what: `no connection stays, ${how}` });
    }
  });

  it("W5: a blocking read in flight, the socket cut, then close: it rejects, and close does not wait for it", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    const lanes = await Keylane.open(single(relay.address));
    const blocked = lanes.command("BLPOP", "never", 0).catch((error: { code: string }) => error.code);
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "1");
    await within(lanes.close({ timeoutMs: 5000 }), 2000, "close");
    assert.equal(await blocked, "KEYLANE_ERR_CLOSED");
  });

  it("W5: destroy: what was not handed over is not-sent, the rest unknown; twice is fine; during open too", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("GET", () => undefined);
    const lanes = await Keylane.open(single(stub.address));
    const sent = rejection(lanes.get("sent"), "KEYLANE_ERR_CLOSED", { outcome: "unknown" });
    await until(() => stub.calls("GET").length === 1);
    const queued = rejection(lanes.get("queued"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    lanes.destroy();
    lanes.destroy();
    await Promise.all([sent, queued]);
    await until(() => stub.connections.size === 0 && runningWorkers().length === 0);
  });

  it(`${CYCLES} cycles of open and close leave file descriptors, threads and memory as they were`, async (t) => {
    // The allocator keeps more and more of what ended threads had, up to a point: half as many cycles go before the first look.
    const half = Math.max(6, Math.ceil(CYCLES / 2));
    for (let at = 0; at < half; at += 1) await cycle(server.value.address);
    const before = footprint();
    for (let at = 0; at < CYCLES; at += 1) await cycle(server.value.address);
    const after = footprint();
    const told = `before ${JSON.stringify(before)}, after ${JSON.stringify(after)}`;
    t.diagnostic(told);
    assert.ok(after.descriptors <= before.descriptors + 2, told);
    assert.ok(after.resources <= before.resources + 2, told);
    assert.equal(after.listeners, before.listeners);
    assert.ok(after.rss < before.rss + (64 << 20), told);
    assert.ok(after.heap < before.heap + (4 << 20), told);
    assert.equal(runningWorkers().length, 0);
  });
});

describe("W6: bounded queues", () => {
  it("W6: what waits for a worker is bounded in bytes", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    const lanes = await openLanes(single(stub.address, { maxQueueBytes: 100_000, connectTimeoutMs: 200 }));
    const exited = nextEvent(lanes, "worker:exit");
    await stub.stop();
    await endWorker(runningWorkers()[0]!, "terminate");
    await exited;
    const value = "v".repeat(40_000);
    const set = (at: number) => lanes.set(`k${at}`, value, { timeoutMs: 100 });
    const calls = await Promise.allSettled([1, 2, 3, 4, 5].map(set));
    const codes = calls.map((call) => (call as PromiseRejectedResult).reason.code as string);
    const late = "KEYLANE_ERR_TIMEOUT";
    assert.deepEqual(codes, [late, late, late, "KEYLANE_ERR_OVERLOADED", "KEYLANE_ERR_OVERLOADED"]);
    await rejection(set(6), late, { outcome: "not-sent" });
  });

  const cluster = useC3({ nodeTimeoutMs: 60_000 });

  it(`W6: ${CALLS} calls while a node is stopped: the excess is refused at once, memory stays bounded, others are served`, async (t) => {
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.value.seeds } },
      threads: 1,
      maxQueue: 10_000,
      commandTimeoutMs: PATIENCE_MS + 5000,
    });
    const [stopped] = cluster.value.primaries;
    const keys = Array.from({ length: 1000 }, (_, at) => `k${at}`);
    const dead = keys.filter((key) => lanes.route(key).node === stopped!.address);
    const alive = keys.find((key) => lanes.route(key).node !== stopped!.address);
    stopped!.pause();
    const tally = new Map<string, number>();
    const before = footprint();
    let open = 0;
    for (let sent = 0; sent < CALLS; sent += 1) {
      open += 1;
      lanes.set(dead[sent % dead.length]!, "v").then(
        () => (open -= 1),
        ({ code }: { code: string }) => {
          open -= 1;
          tally.set(code, (tally.get(code) ?? 0) + 1);
        },
      );
      if (sent % 20_000 === 0) await new Promise(setImmediate);
    }
    const what = "all that the node's queue does not hold is refused";
    await until(() => open <= 10_000, { timeoutMs: PATIENCE_MS, what });
    assert.equal(await lanes.set(alive!, "v"), true);
    assert.ok(open > 0, "the others were served while that queue was full");
    const grown = (process.memoryUsage.rss() - before.rss) / 2 ** 20;
    t.diagnostic(`${JSON.stringify(Object.fromEntries(tally))}, ${grown.toFixed(0)} MiB more`);
    assert.ok(tally.get("KEYLANE_ERR_OVERLOADED")! > CALLS / 2, "most were refused");
    assert.ok(grown < 512, `${grown} MiB`);
    stopped!.resume();
    await until(() => open === 0, { timeoutMs: 20_000 });
    await until(async () => (await lanes.set(dead[0]!, "v").catch(() => false)) === true);
    assert.equal(lanes.stats().domains["all"]!.pending, 0);
    // Messages that were given away are let go in a later turn.
    const kept = (): number => (footprint().heap - before.heap) / 2 ** 20;
    await until(() => kept() < 16, { what: "the heap is as it was" });
    t.diagnostic(`${kept().toFixed(1)} MiB of heap kept`);
  });
});

describe("C8: the process", () => {
  it("C8: SIGTERM with the node silent and 1,000 increments in flight: each lost one is told with its key and amount", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("INCRBY", () => undefined);
    const { ended, errors } = await run(
      stub.address,
      `const lost = [];
       const calls = Array.from({ length: 1000 }, (_, at) =>
         lanes.incrBy("n" + at, at).catch((error) => lost.push([error.outcome, "n" + at, at])));
       process.once("SIGTERM", async () => {
         const told = await lanes.close({ timeoutMs: 200 });
         await Promise.all(calls);
         if (told.lost !== 1000 || lost.length !== 1000) console.error("lost", told.lost, lost.length);
         if (lost.some(([outcome, key, amount]) => outcome !== "unknown" || key !== "n" + amount)) console.error("wrong", lost[0]);
       });
       setTimeout(() => console.log("ready"), 200);`,
      "SIGTERM",
    );
    assert.deepEqual([ended, errors], [0, ""]);
    assert.equal(stub.calls("INCRBY").length, 1000);
  });

  it("C8: ends by itself after close, after destroy with calls in flight, and after a close that cut a call off", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("GET", () => undefined).answer("SET", () => "OK");
    for (const body of [
      `await lanes.set("k", "v"); await lanes.close(); console.log("ready");`,
      `const calls = Promise.allSettled(Array.from({ length: 1000 }, () => lanes.get("k")));
       lanes.destroy(); const codes = new Set((await calls).map(({ reason }) => reason.code)); console.log([...codes].join());`,
      `lanes.get("k", { timeoutMs: 100 }).catch(() => {}); await lanes.close({ timeoutMs: 1 }); console.log("ready");`,
    ]) {
      const { ended, errors } = await run(stub.address, body);
      assert.deepEqual([ended, errors], [0, ""]);
    }
  });
});
