/** What is cached follows what is stored: changes by others, by other threads, and connections that are cut or silent. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { AttachedThread } from "../../support/coherence/attached.js";
import { useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { rawCommand } from "../../support/raw.js";
import { Relay } from "../../support/relay.js";
import { OK, Stub, raw } from "../../support/stub.js";
import { nextEvent, until } from "../../support/until.js";

/** What a machine that is busy with other things may add to a bound, in milliseconds. */
const SLACK_MS = 500;

const single = useSingle();
const server = (...args: (string | number)[]) => rawCommand(single.value.address, ...args);

/** One domain of all keys on one server. */
function domainOn(address: string, cache: object = {}) {
  return { prefixes: [""], nodes: [address], mode: "single", cache: { mode: "all", ...cache } } as const;
}

function open(cache: object = {}, more: object = {}) {
  return openLanes({ domains: { all: domainOn(single.value.address, cache) }, ...more });
}

async function relayed(t: { after(fn: () => unknown): void }): Promise<Relay> {
  const relay = await Relay.start(single.value.address);
  t.after(() => relay.stop());
  return relay;
}

describe("L4: prefixes and deletions", () => {
  it("L4: invalidatePrefix of one prefix drops it in every thread, and leaves others", async () => {
    const lanes = await open();
    const worker = await AttachedThread.start(lanes);
    const other = await open();
    const keys = ["ns:a:1", "ns:a:2", "ns:ab:1", "ns:b:1"];
    await server("MSET", ...keys.flatMap((key) => [key, "v"]));
    await lanes.warm(keys);
    for (const key of keys) assert.equal(await worker.peek(key), "v");
    await other.warm(keys);
    assert.equal(lanes.invalidatePrefix("ns:a:"), 2);
    assert.deepEqual(
      keys.map((key) => lanes.peek(key)),
      [undefined, undefined, "v", "v"],
    );
    for (const [at, key] of keys.entries()) assert.equal(await worker.peek(key), at < 2 ? undefined : "v");
    for (const key of keys) assert.equal(other.peek(key), "v", "what an instance drops is its own");
    await worker.close();
  });

  it("L4: keys deleted by one instance are gone in the other, and no others", async () => {
    const [one, two] = await Promise.all([open(), open()]);
    const keys = ["gone:1", "gone:2", "stays:1"];
    await server("MSET", ...keys.flatMap((key) => [key, "v"]));
    await Promise.all([one.warm(keys), two.warm(keys)]);
    await one.del("gone:1");
    await one.del("gone:2");
    await until(() => two.peek("gone:1") === undefined && two.peek("gone:2") === undefined);
    assert.equal(two.peek("stays:1"), "v");
    assert.equal(one.peek("stays:1"), "v");
    assert.equal(await two.get("gone:1"), null);
  });

  it("L4: an explicit delete beats staleIfErrorMs", async (t) => {
    const relay = await relayed(t);
    const lanes = await openLanes({
      domains: { all: domainOn(relay.address, { staleIfErrorMs: 60_000 }) },
      commandTimeoutMs: 200,
    });
    const keys = ["grace:deleted", "grace:dropped", "grace:kept", "grace:prefix:1"];
    await server("MSET", ...keys.flatMap((key) => [key, "v"]));
    await lanes.warm(keys);
    await relay.refuse();
    relay.cut();
    await nextEvent(lanes, "node:down");
    assert.equal(await lanes.get("grace:deleted"), "v");
    await rejection(lanes.del("grace:deleted"), "KEYLANE_ERR_TIMEOUT");
    lanes.invalidate("grace:dropped");
    assert.equal(lanes.invalidatePrefix("grace:prefix:"), 1);
    await rejection(lanes.get("grace:deleted"), "KEYLANE_ERR_TIMEOUT");
    await rejection(lanes.get("grace:dropped"), "KEYLANE_ERR_TIMEOUT");
    await rejection(lanes.get("grace:prefix:1"), "KEYLANE_ERR_TIMEOUT");
    assert.equal(await lanes.get("grace:kept"), "v");
  });
});

describe("L4: the bus is cut", () => {
  for (const staleIfErrorMs of [0, 60_000]) {
    it(`L4: for 2 s while a key changes: dropped, and never the old value after the reconnect (staleIfErrorMs ${staleIfErrorMs})`, async (t) => {
      const relay = await relayed(t);
      const lanes = await openLanes({
        domains: {
          cut: { ...domainOn(relay.address, { staleIfErrorMs }), prefixes: ["cut:"] },
          whole: { ...domainOn(single.value.address), prefixes: ["whole:"] },
        },
        commandTimeoutMs: 200,
      });
      await server("MSET", "cut:k", "old", "cut:same", "v", "whole:k", "v");
      await lanes.warm(["cut:k", "cut:same", "whole:k"]);
      await relay.refuse();
      relay.cut();
      await nextEvent(lanes, "node:down");
      await server("SET", "cut:k", "new");
      assert.equal(lanes.peek("cut:k"), undefined);
      assert.equal(lanes.peek("cut:same"), undefined, "all that the connection fed");
      assert.equal(lanes.peek("whole:k"), "v", "what other connections fed");
      const end = sleep(2000).then(() => relay.accept());
      const up = nextEvent(lanes, "node:up");
      const phase = { up: false };
      void up.then(() => (phase.up = true));
      while (!phase.up) {
        await sleep(5);
        const [read] = await Promise.allSettled([lanes.get("cut:k")]);
        if (read.status === "fulfilled" && !phase.up) assert.equal(read.value, staleIfErrorMs === 0 ? "new" : "old");
      }
      await end;
      for (let i = 0; i < 20; i += 1) assert.equal(await lanes.get("cut:k"), "new");
      assert.equal(await lanes.get("cut:same"), "v");
      await server("SET", "cut:k", "newer");
      await until(() => lanes.peek("cut:k") === undefined);
      assert.equal(await lanes.get("cut:k"), "newer");
    });
  }

  it("notices a connection that died silently within the bound that stats tell", async (t) => {
    const relay = await relayed(t);
    const lanes = await openLanes({ domains: { all: domainOn(relay.address) } });
    await server("SET", "silent", "old");
    for (let round = 0; round < 3; round += 1) {
      const value = `value ${round}`;
      await server("SET", "silent", value);
      await until(async () => (await lanes.get("silent")) === value && lanes.peek("silent") === value);
      const { stalenessBoundMs } = lanes.stats().cache!;
      const accepted = relay.accepted;
      relay.halfOpen();
      await server("SET", "silent", "new");
      await until(() => lanes.peek("silent") === undefined, { timeoutMs: stalenessBoundMs + SLACK_MS });
      assert.equal(await lanes.get("silent"), "new");
      assert.ok(relay.accepted > accepted);
    }
  });
});

describe("changes by other clients", () => {
  for (const command of ["FLUSHALL", "FLUSHDB"]) {
    it(`${command} drops everything of the domain, known-absent keys too`, async () => {
      const lanes = await open({ negativeTtlMs: 60_000 });
      await server("MSET", "flush:1", "v", "flush:2", "v");
      assert.deepEqual(await lanes.getMany(["flush:1", "flush:2", "flush:none"]), ["v", "v", null]);
      await server(command);
      await until(() => lanes.peek("flush:1") === undefined && lanes.peek("flush:2") === undefined);
      assert.equal(lanes.peek("flush:none"), undefined);
      assert.deepEqual(await lanes.getMany(["flush:1", "flush:2"]), [null, null]);
    });
  }

  it("broadcast: prefixes alone are subscribed to, and what was never read costs nothing", async () => {
    const lanes = await openLanes({
      domains: {
        some: { ...domainOn(single.value.address, { broadcast: true }), prefixes: ["bc:1:", "bc:2:", "bc:1:more:"] },
      },
    });
    const tracked = async (what: string) => (await single.value.node.info("stats")).get(`tracking_total_${what}`);
    const keys = await tracked("keys");
    assert.equal(await tracked("prefixes"), "2", "one that lies in another is not named");
    assert.equal(lanes.stats().cache!.staleness, "tracked");
    await server("MSET", "bc:1:k", "old", "bc:2:k", "old", "bc:1:more:k", "old");
    assert.deepEqual(await lanes.getMany(["bc:1:k", "bc:2:k", "bc:1:more:k"]), ["old", "old", "old"]);
    await server("MSET", "bc:1:k", "new", "bc:1:more:k", "new", "bc:2:other", "v");
    await until(() => lanes.peek("bc:1:k") === undefined && lanes.peek("bc:1:more:k") === undefined);
    assert.deepEqual(await lanes.getMany(["bc:1:k", "bc:2:k", "bc:1:more:k"]), ["new", "old", "new"]);
    assert.equal(await tracked("keys"), keys, "the server remembers nothing of what was read");
  });

  it("broadcast: keys that reach the domain as a fallback are told of, too", async () => {
    const lanes = await openLanes({
      domains: { some: { ...domainOn(single.value.address, { broadcast: true }), prefixes: ["fb:"] } },
      fallback: { domain: "some" },
    });
    await server("SET", "elsewhere", "old");
    assert.equal(await lanes.get("elsewhere"), "old");
    await server("SET", "elsewhere", "new");
    await until(() => lanes.peek("elsewhere") === undefined);
    assert.equal(await lanes.get("elsewhere"), "new");
  });

  it("a value's life counts from when the server told it, however late the reply came", async (t) => {
    const relay = await relayed(t);
    const lanes = await openLanes({ domains: { all: domainOn(relay.address) } });
    await server("SET", "late", "v", "PX", 400);
    relay.down.delayMs = 300;
    assert.equal(await lanes.get("late"), "v");
    relay.down.delayMs = 0;
    // Another value ends after the server's and well before what counts from the reply: both are judged by the same clock.
    await server("SET", "other", "o", "PX", 250);
    assert.equal(await lanes.get("other"), "o");
    await until(async () => (await server("EXISTS", "late")) === 0 && lanes.peek("other") === undefined, {
      everyMs: 2,
    });
    assert.equal(lanes.peek("late"), undefined);
  });
});

describe("loads that are overtaken", () => {
  /** Pushes that a stub makes while a load is on its way, and how many of two keys' loads they refuse. */
  const pushes = [
    ["of the key", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n", 1],
    ["of everything", ">2\r\n$10\r\ninvalidate\r\n_\r\n", 2],
    ["of another key", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nx\r\n", 0],
  ] as const;
  for (const [what, push, refused] of pushes) {
    it(`an invalidation ${what} arrives before the value: ${refused} of 2 loads not stored`, async (t) => {
      const stub = await Stub.start({ cluster: false });
      t.after(() => stub.stop());
      stub.answer("PTTL", () => -1).answer("CLIENT TRACKING", () => OK);
      stub.answer("GET", ({ args, calls, connection }) => {
        if (calls === 1) connection.push(raw(push));
        return args[1]!;
      });
      const lanes = await openLanes({ domains: { all: domainOn(stub.address) } });
      assert.deepEqual(await lanes.getMany(["k", "l"]), ["k", "l"], "the callers get what was loaded");
      assert.deepEqual(
        [lanes.peek("k"), lanes.peek("l")],
        [refused > 0 ? undefined : "k", refused > 1 ? undefined : "l"],
      );
      assert.equal(lanes.stats().cache!.overtaken, refused);
    });
  }

  for (const how of ["invalidate", "invalidatePrefix", "set", "another thread's set"] as const) {
    it(`${how} while the reply is on its way: the load is not stored`, async (t) => {
      const relay = await relayed(t);
      const lanes = await openLanes({ domains: { all: domainOn(relay.address) }, commandTimeoutMs: 5000 });
      const worker = await AttachedThread.start(lanes);
      await server("SET", "flight", "old");
      const before = await callsOf(single.value.node, "get");
      const { invalidations } = lanes.stats().cache!;
      relay.down.stall = true;
      const load = lanes.get("flight");
      await until(async () => (await callsOf(single.value.node, "get")) > before);
      let write: Promise<unknown> = Promise.resolve();
      if (how === "invalidate") lanes.invalidate("flight");
      else if (how === "invalidatePrefix") lanes.invalidatePrefix("fl");
      else write = how === "set" ? lanes.set("flight", "new") : worker.set("flight", "new");
      await until(() => lanes.stats().cache!.invalidations > invalidations);
      relay.down.stall = false;
      assert.equal(await load, "old");
      await write;
      assert.notEqual(lanes.peek("flight"), "old");
      assert.equal(lanes.stats().cache!.overtaken, 1);
      await worker.close();
    });
  }
});

describe("threads of one process", () => {
  it("a write is seen by all threads as soon as it is acknowledged", async () => {
    const lanes = await open();
    const workers = await Promise.all([AttachedThread.start(lanes), AttachedThread.start(lanes)]);
    await server("SET", "own", "0");
    for (let i = 1; i <= 50; i += 1) {
      for (const worker of workers) await worker.get("own");
      await lanes.get("own");
      if (i % 2 === 0) await lanes.set("own", String(i));
      else await workers[0]!.set("own", String(i));
      const seen = [lanes.peek("own"), ...(await Promise.all(workers.map((worker) => worker.peek("own"))))];
      for (const value of seen) assert.ok(value === undefined || value === String(i), `${String(value)} after ${i}`);
      assert.equal(await workers[1]!.get("own"), String(i));
    }
    await Promise.all(workers.map((worker) => worker.close()));
  });

  it("a thread that spins on peek, without a return to its event loop, sees what other threads do", async () => {
    const lanes = await open();
    const worker = await AttachedThread.start(lanes);
    await server("SET", "spun", "1");
    assert.equal(await worker.get("spun"), "1");
    assert.equal(await worker.spin("spun", () => lanes.invalidate("spun")), undefined);
    assert.equal(await worker.get("spun"), "1");
    const written = await worker.spin("spun", () => lanes.set("spun", "2"));
    assert.ok(written === undefined || written === "2", String(written));
    assert.equal(await lanes.get("spun"), "2");
    assert.equal(await worker.get("spun"), "2");
    await worker.close();
  });

  it("a terminated thread takes along what its connections fed", async () => {
    const lanes = await open();
    const worker = await AttachedThread.start(lanes);
    await server("MSET", "fed:by-worker", "v", "fed:by-main", "v");
    assert.equal(await worker.get("fed:by-worker"), "v");
    assert.equal(await lanes.get("fed:by-main"), "v");
    assert.equal(lanes.peek("fed:by-worker"), "v");
    await worker.terminate();
    assert.equal(lanes.peek("fed:by-worker"), undefined);
    assert.equal(lanes.peek("fed:by-main"), "v");
    assert.equal(await lanes.get("fed:by-worker"), "v");
  });

  it("what a thread fed whose event loop stands still is dropped by others within the bound", async () => {
    const lanes = await open();
    const worker = await AttachedThread.start(lanes);
    await server("MSET", "still:by-worker", "old", "still:by-main", "v");
    assert.equal(await worker.get("still:by-worker"), "old");
    assert.equal(await lanes.get("still:by-main"), "v");
    assert.equal(lanes.peek("still:by-worker"), "old");
    const { stalenessBoundMs } = lanes.stats().cache!;
    const { over } = await worker.block(stalenessBoundMs + 2 * SLACK_MS);
    await server("SET", "still:by-worker", "new");
    await until(() => lanes.peek("still:by-worker") === undefined, { timeoutMs: stalenessBoundMs + SLACK_MS });
    assert.equal(worker.busy, true, "it still hears nothing");
    assert.equal(lanes.peek("still:by-main"), "v");
    assert.equal(await lanes.get("still:by-worker"), "new");
    await over;
    // What it hears of late may drop the new value once more, and brings nothing back.
    assert.equal(await worker.get("still:by-worker"), "new");
    assert.equal(await lanes.get("still:by-worker"), "new");
    await worker.close();
  });
});
