/** From open to the end of the process: closing, aborting, deadlines, events, diagnostics and counters. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { channel } from "node:diagnostics_channel";
import { EventEmitter, getEventListeners, once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { Keylane } from "keylane";
import type { CommandMessage, ConnectMessage, OpenOptions } from "keylane";

import { useC3, useSingle } from "../support/fixtures.js";
import { openLanes, rejection } from "../support/lanes.js";
import { Relay } from "../support/relay.js";
import { OK, Stub } from "../support/stub.js";
import { nextEvent, until, within } from "../support/until.js";

const single = (address: string, more: object = {}): OpenOptions => ({
  domains: { all: { prefixes: [""], nodes: [address], mode: "single" } },
  commandTimeoutMs: 5000,
  ...more,
});

/** A server that answers GET only when it is told to. */
async function slowServer(): Promise<{ stub: Stub; answer: () => void; [Symbol.asyncDispose](): Promise<void> }> {
  const stub = await Stub.start({ cluster: false });
  const gate = new EventEmitter();
  const told = once(gate, "open");
  stub.answer("GET", async ({ args }) => {
    await told;
    return args[1]!;
  });
  stub.answer("SET", () => OK);
  return { stub, answer: () => void gate.emit("open"), [Symbol.asyncDispose]: () => stub.stop() };
}

describe("close and destroy", () => {
  it("close waits for what was accepted, refuses what comes after, and is idempotent", async () => {
    await using rig = await slowServer();
    const lanes = await Keylane.open(single(rig.stub.address));
    const calls = Array.from({ length: 100 }, (_, i) => lanes.get(`k${i}`));
    const closing = lanes.close();
    assert.equal(lanes.close(), closing);
    await rejection(lanes.get("late"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent", command: "GET" });
    await rejection(lanes.set("late", "v"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    await rejection(lanes.command("INCR", "late"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    rig.answer();
    assert.deepEqual(await closing, { lost: 0 });
    assert.deepEqual(
      await Promise.all(calls),
      calls.map((_, i) => `k${i}`),
    );
    assert.equal(lanes.close(), closing);
    await until(() => rig.stub.connections.size === 0);
  });

  it("close does not wait longer than it was told; what is lost is counted and each call says how it ended", async () => {
    await using rig = await slowServer();
    const lanes = await Keylane.open(single(rig.stub.address));
    const sent = [lanes.get("a"), lanes.get("b")];
    await until(() => rig.stub.calls("GET").length > 0);
    const settled = Promise.allSettled(sent);
    assert.deepEqual(await within(lanes.close({ timeoutMs: 50 }), 2000), { lost: 2 });
    for (const one of await settled) {
      assert.equal((one as PromiseRejectedResult).reason.code, "KEYLANE_ERR_CONNECTION_LOST");
      assert.equal((one as PromiseRejectedResult).reason.outcome, "unknown");
    }
  });

  it("1,000 calls queued and close at once: all are answered", async () => {
    await using rig = await slowServer();
    rig.answer();
    const lanes = await Keylane.open(single(rig.stub.address));
    const calls = Array.from({ length: 1000 }, (_, i) => lanes.get(`k${i}`));
    const [, ...values] = await Promise.all([lanes.close(), ...calls]);
    assert.equal(new Set(values).size, 1000);
  });

  it("destroy: what was not sent is not-sent, what was sent is unknown, and twice is fine", async () => {
    await using rig = await slowServer();
    const lanes = await Keylane.open(single(rig.stub.address));
    const sent = lanes.get("sent");
    await until(() => rig.stub.calls("GET").length === 1);
    const queued = lanes.get("queued");
    lanes.destroy();
    lanes.destroy();
    await rejection(queued, "KEYLANE_ERR_CLOSED", { outcome: "not-sent", domain: "all" });
    await rejection(sent, "KEYLANE_ERR_CONNECTION_LOST", { outcome: "unknown", node: rig.stub.address });
    await rejection(lanes.get("after"), "KEYLANE_ERR_CLOSED");
    assert.deepEqual(await lanes.close(), { lost: 0 });
    assert.equal(rig.stub.calls("GET").length, 1);
    await until(() => rig.stub.connections.size === 0);
  });

  it("close with the node down ends within its deadline", async () => {
    const rig = await slowServer();
    const lanes = await Keylane.open(single(rig.stub.address));
    await rig.stub.stop();
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.state === "down");
    const waiting = lanes.set("k", "v");
    const refused = rejection(waiting, "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    assert.deepEqual(await within(lanes.close({ timeoutMs: 100 }), 2000), { lost: 1 });
    await refused;
  });

  it("await using closes", async () => {
    await using rig = await slowServer();
    rig.answer();
    const outside = await (async () => {
      await using lanes = await Keylane.open(single(rig.stub.address));
      assert.equal(await lanes.get("k"), "k");
      return () => lanes.get("k");
    })();
    await rejection(outside(), "KEYLANE_ERR_CLOSED");
  });
});

describe("aborting", () => {
  it("a signal aborted before the call: nothing is sent", async () => {
    await using rig = await slowServer();
    const lanes = await openLanes(single(rig.stub.address));
    const reason = new Error("no longer wanted");
    const signal = AbortSignal.abort(reason);
    for (const call of [
      lanes.get("k", { signal }),
      lanes.set("k", "v", { signal }),
      lanes.incrBy("k", 1, { signal }),
      lanes.command("HGETALL", "k", { signal }),
      lanes.getMany(["k"], { signal }),
    ]) {
      const error = await rejection(call, "KEYLANE_ERR_ABORTED", { outcome: "not-sent", retryable: false });
      assert.equal(error.cause, reason);
    }
    assert.deepEqual(
      rig.stub.log.filter(({ name }) => /^(GET|SET|INCRBY|HGETALL)$/.test(name)),
      [],
    );
  });

  it("a signal aborted in flight: that call is unknown, its neighbours get their own replies, listeners are gone", async () => {
    await using rig = await slowServer();
    const lanes = await openLanes(single(rig.stub.address));
    const controller = new AbortController();
    const calls = Array.from({ length: 9 }, (_, i) =>
      lanes.get(`k${i}`, i % 3 === 1 ? { signal: controller.signal } : undefined),
    );
    assert.equal(getEventListeners(controller.signal, "abort").length, 3);
    await until(() => rig.stub.calls("GET").length > 0);
    controller.abort();
    for (const i of [1, 4, 7])
      await rejection(calls[i]!, "KEYLANE_ERR_ABORTED", { outcome: "unknown", command: "GET" });
    rig.answer();
    for (const i of [0, 2, 3, 5, 6, 8]) assert.equal(await calls[i], `k${i}`);
    assert.equal(getEventListeners(controller.signal, "abort").length, 0);
    const calm = new AbortController();
    assert.equal(await lanes.get("calm", { signal: calm.signal }), "calm");
    assert.equal(getEventListeners(calm.signal, "abort").length, 0);
    assert.equal(lanes.stats().domains["all"]!.reconnects, 0);
  });

  it("a call aborted while it waits for a connection is never sent", async (t) => {
    await using rig = await slowServer();
    const relay = await Relay.start(rig.stub.address);
    t.after(() => relay.stop());
    const lanes = await openLanes(single(relay.address));
    await relay.refuse();
    relay.cut();
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.state === "down");
    const controller = new AbortController();
    const given = lanes.set("given", "up", { signal: controller.signal });
    const kept = lanes.set("kept", "v");
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.waiting === 2);
    controller.abort();
    await rejection(given, "KEYLANE_ERR_ABORTED", { outcome: "not-sent" });
    await relay.accept();
    assert.equal(await kept, true);
    assert.deepEqual(
      rig.stub.calls("SET").map(({ args }) => String(args[1])),
      ["kept"],
    );
  });
});

describe("deadlines", () => {
  const server = useSingle();

  it("a stopped server: the call is unknown at its deadline, its late reply goes to nobody else", async () => {
    const lanes = await openLanes(single(server.value.address, { silenceTimeoutMs: 60_000 }));
    await lanes.set("k", "1");
    server.value.node.pause();
    const expected = { outcome: "unknown", command: "INCRBY", node: server.value.address } as const;
    const late = rejection(lanes.incrBy("k", 1, { timeoutMs: 50 }), "KEYLANE_ERR_TIMEOUT", expected);
    const patient = lanes.get("k");
    await within(late, 2000);
    server.value.node.resume();
    assert.equal(await patient, "2", "it did run, which is why it is unknown");
    assert.equal(await lanes.get("k"), "2");
    assert.equal(lanes.stats().domains["all"]!.reconnects, 0);
    assert.equal(lanes.stats().domains["all"]!.timeouts, 1);
  });

  it("CLIENT PAUSE: reads go on, writes time out or wait as their deadlines say", async () => {
    const lanes = await openLanes(single(server.value.address, { silenceTimeoutMs: 60_000 }));
    const { node } = server.value;
    await lanes.set("k", "1");
    await node.command("CLIENT", "PAUSE", 60_000, "WRITE");
    assert.equal(await lanes.get("k"), "1");
    await rejection(lanes.set("k", "2", { timeoutMs: 50 }), "KEYLANE_ERR_TIMEOUT", { outcome: "unknown" });
    const patient = lanes.set("k", "3");
    await node.command("CLIENT", "UNPAUSE");
    assert.equal(await patient, true);
    assert.equal(await lanes.get("k"), "3");
  });

  it("the default deadline is commandTimeoutMs; a per-call one may be longer or shorter", async () => {
    await using rig = await slowServer();
    const lanes = await openLanes(single(rig.stub.address, { commandTimeoutMs: 60, silenceTimeoutMs: 60_000 }));
    const longer = lanes.get("longer", { timeoutMs: 5000 });
    const began = performance.now();
    await rejection(lanes.get("usual"), "KEYLANE_ERR_TIMEOUT", { outcome: "unknown" });
    assert.ok(performance.now() - began >= 59);
    rig.answer();
    assert.equal(await longer, "longer");
  });

  it("what timed out in a queue is never sent later", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    const lanes = await openLanes(single(relay.address));
    await lanes.del("late");
    await relay.refuse();
    relay.cut();
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.state === "down");
    const expired = Array.from({ length: 20 }, () =>
      rejection(lanes.incrBy("late", 1, { timeoutMs: 30 }), "KEYLANE_ERR_TIMEOUT", {
        outcome: "not-sent",
        message: /ECONNREFUSED|could not be sent/,
      }),
    );
    const kept = lanes.incrBy("late", 100);
    await Promise.all(expired);
    await relay.accept();
    assert.equal(await kept, 100);
    assert.equal(await lanes.get("late"), "100");
  });

  it("a blocked event loop: calls that are past their deadline when they could be sent are not", async () => {
    const lanes = await openLanes(single(server.value.address));
    await lanes.del("blocked");
    const call = lanes.incrBy("blocked", 1, { timeoutMs: 20 });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 120);
    await rejection(call, "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent" });
    assert.equal(await lanes.get("blocked"), null);
  });
});

describe("events, diagnostics and counters", () => {
  const c3 = useC3({ config: { "cluster-require-full-coverage": "no" } });
  const open = (): OpenOptions => ({
    domains: { all: { prefixes: [""], nodes: c3.value.seeds } },
    commandTimeoutMs: 5000,
    refreshMinimumMs: 50,
  });

  it("node:up of the opening is heard by listeners added right after it", async () => {
    const lanes = await openLanes(open());
    const up = new Set<string>();
    lanes.on("node:up", ({ domain, node }) => up.add(`${domain} ${node}`));
    await nextEvent(lanes, "node:up");
    await new Promise(setImmediate);
    assert.deepEqual(up, new Set(c3.value.seeds.map((node) => `all ${node}`)));
  });

  it("node:down and node:up when a node goes and comes, topology when a slot moves", async () => {
    const lanes = await openLanes(open());
    await nextEvent(lanes, "node:up");
    await new Promise(setImmediate);
    const [first, second] = c3.value.primaries as [(typeof c3.value.primaries)[0], (typeof c3.value.primaries)[0]];
    const down = nextEvent(lanes, "node:down");
    await first.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    const up = nextEvent(lanes, "node:up");
    const [{ node, reason }] = (await down) as [{ node: string; reason: string }];
    assert.equal(node, first.address);
    assert.ok(reason.length > 0);
    assert.deepEqual(await up, [{ domain: "all", node: first.address }]);
    const topology = nextEvent(lanes, "topology");
    let key = "";
    for (let i = 0; lanes.route(key).node !== first.address; i += 1) key = `e${i}`;
    const { slot } = lanes.route(key);
    await c3.value.moveSlots([slot], first, second);
    assert.equal(await lanes.get(key), null);
    const [{ domain, version }] = (await topology) as [{ domain: string; version: number }];
    assert.equal(domain, "all");
    assert.ok(version > 1);
    await c3.value.moveSlots([slot], second, first);
  });

  it("an error without a listener is not thrown", async () => {
    const [stub] = (await Stub.cluster(1)) as [Stub];
    stub.ranges = [
      { from: 0, to: 8000, nodes: [{ host: stub.host, port: stub.port, id: stub.id }] },
      { from: 8001, to: 16_383, nodes: [{ host: "10.9.9.9", port: 1, id: "f".repeat(40) }] },
    ];
    const natMap = (name: string): { host: string; port: number } | null =>
      name === stub.address ? { host: stub.host, port: stub.port } : null;
    const lanes = await Keylane.open({ domains: { all: { prefixes: [""], nodes: [stub.address], natMap } } });
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    assert.equal(lanes.route("foo").node, null);
    await lanes.close();
    await stub.stop();
  });

  it("diagnostics channels tell names, places and durations, and no keys or values", async () => {
    const commands: CommandMessage[] = [];
    const connects: ConnectMessage[] = [];
    const onCommand = (message: unknown): void => void commands.push(message as CommandMessage);
    const onConnect = (message: unknown): void => void connects.push(message as ConnectMessage);
    channel("keylane:command").subscribe(onCommand);
    channel("keylane:connect").subscribe(onConnect);
    try {
      const lanes = await Keylane.open(open());
      await lanes.set("secret-key", "secret-value");
      assert.equal(await lanes.get("secret-key"), "secret-value");
      await lanes.command("HSET", "secret-hash", "secret-field", "secret-value");
      await rejection(lanes.incrBy("secret-hash"), "KEYLANE_ERR_WRONGTYPE");
      await lanes.close();
      assert.deepEqual(
        commands.map(({ domain, command, error }) => [domain, command, error]),
        [
          ["all", "SET", null],
          ["all", "GET", null],
          ["all", "HSET", null],
          ["all", "INCRBY", "KEYLANE_ERR_WRONGTYPE"],
        ],
      );
      for (const { durationMs } of commands) assert.ok(durationMs >= 0 && durationMs < 5000);
      const ready = connects.filter(({ state }) => state === "ready").map(({ domain, node }) => `${domain} ${node}`);
      const down = connects.filter(({ state }) => state === "down").map(({ node, reason }) => `${node} ${reason}`);
      assert.deepEqual(ready.toSorted(), c3.value.seeds.map((node) => `all ${node}`).toSorted());
      assert.deepEqual(down.toSorted(), c3.value.seeds.map((node) => `${node} closed`).toSorted());
      assert.doesNotMatch(JSON.stringify([commands, connects]), /secret/);
    } finally {
      channel("keylane:command").unsubscribe(onCommand);
      channel("keylane:connect").unsubscribe(onConnect);
    }
    const told = commands.length;
    const lanes = await openLanes(open());
    await lanes.get("secret-key");
    assert.equal(commands.length, told);
  });

  it("stats count calls and nothing of keylane's own", async () => {
    const lanes = await openLanes(open());
    const of = (): ReturnType<typeof lanes.stats>["domains"][string] => lanes.stats().domains["all"]!;
    const before = of();
    assert.deepEqual(
      [before.commands, before.succeeded, before.failed, before.timeouts, before.pending],
      [0, 0, 0, 0, 0],
    );
    const calls = Array.from({ length: 100 }, (_, i) => lanes.set(`s${i}`, "v"));
    assert.equal(of().pending, 100);
    await Promise.all(calls);
    await lanes.getMany(["s0", "s1"]);
    await lanes.command("RPUSH", "s:l", 1);
    await rejection(lanes.get("s:l"), "KEYLANE_ERR_WRONGTYPE");
    const after = of();
    assert.deepEqual(
      [after.commands, after.succeeded, after.failed, after.pending, after.moved, after.asked, after.retries],
      [104, 103, 1, 0, 0, 0, 0],
    );
    assert.ok(after.writes - before.writes <= 3 + 2 + 1 + 1, `${after.writes - before.writes} writes`);
    const frames =
      "*3\r\n$3\r\nSET\r\n$2\r\ns0\r\n$1\r\nv\r\n".length * 10 +
      "*3\r\n$3\r\nSET\r\n$3\r\ns10\r\n$1\r\nv\r\n".length * 90;
    assert.ok(after.bytesSent - before.bytesSent > frames);
    assert.ok(after.bytesReceived - before.bytesReceived > 100 * "+OK\r\n".length);
    assert.equal(after.refreshes, 1);
    assert.deepEqual(
      after.nodes
        .map(({ node, role, state, inFlight, waiting }) => ({ node, role, state, inFlight, waiting }))
        .toSorted((a, b) => (a.node < b.node ? -1 : 1)),
      c3.value.seeds
        .map((node) => ({ node, role: "primary", state: "ready", inFlight: 0, waiting: 0 }))
        .toSorted((a, b) => (a.node < b.node ? -1 : 1)),
    );
    assert.equal(
      after.nodes.reduce((sum, node) => sum + node.slots, 0),
      16_384,
    );
    assert.ok(["rust", "portable"].includes(lanes.stats().native));
  });
});

describe("the process", () => {
  const server = useSingle();
  const cwd = fileURLToPath(new URL("../", import.meta.resolve("keylane")));

  /** Runs a program that uses keylane; resolves when it ends by itself. */
  async function run(body: string): Promise<{ code: number | null; output: string }> {
    const source = `
      import { Keylane } from "keylane";
      let unhandled = 0;
      process.on("unhandledRejection", () => (unhandled += 1));
      process.on("exit", () => console.log("unhandled", unhandled));
      const options = { domains: { all: { prefixes: [""], nodes: ["${server.value.address}"], mode: "single" } } };
      ${body}`;
    const env = { ...process.env };
    delete env["NODE_TEST_CONTEXT"];
    const child = spawn(process.execPath, ["--input-type=module", "--eval", source], {
      cwd,
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
    const [code] = (await once(child, "close")) as [number | null];
    clearTimeout(timer);
    return { code, output };
  }

  it("ends by itself after close", async () => {
    const { code, output } = await run(`
      const lanes = await Keylane.open(options);
      await lanes.set("k", "v");
      console.log(await lanes.get("k"));
      await lanes.redis("all").get("k");
      lanes.command("BLPOP", "never", 0).catch((error) => console.log(error.code));
      await lanes.close({ timeoutMs: 100 });`);
    assert.deepEqual(
      { code, lines: output.trim().split("\n") },
      { code: 0, lines: ["v", "KEYLANE_ERR_CLOSED", "unhandled 0"] },
    );
  });

  it("ends by itself after destroy with calls in flight, of which each is told and none unhandled", async () => {
    const { code, output } = await run(`
      const lanes = await Keylane.open(options);
      const calls = Array.from({ length: 1000 }, (_, i) => lanes.set("k" + i, "v"));
      lanes.destroy();
      const codes = new Set((await Promise.allSettled(calls)).map((one) => one.reason.code));
      console.log([...codes].join());`);
    assert.deepEqual({ code, output }, { code: 0, output: "KEYLANE_ERR_CLOSED\nunhandled 0\n" });
  });

  it("ends by itself after an open that failed", async () => {
    const { code, output } = await run(`
      options.domains.bad = { prefixes: ["bad:"], nodes: ["127.0.0.1:1"] };
      options.connectTimeoutMs = 200;
      await Keylane.open(options).catch((error) => console.log(error.code, error.domain));`);
    assert.deepEqual({ code, output }, { code: 0, output: "KEYLANE_ERR_CONNECT bad\nunhandled 0\n" });
  });

  it("forgotten rejections are the caller's, and only once each", async () => {
    const { code, output } = await run(`
      const lanes = await Keylane.open(options);
      await lanes.command("RPUSH", "list", 1);
      void lanes.get("list");
      await new Promise((resolve) => setTimeout(resolve, 50));
      await lanes.close();`);
    assert.deepEqual({ code, output }, { code: 0, output: "unhandled 1\n" });
  });
});
