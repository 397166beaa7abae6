/** Aborted calls and calls past their deadline: what each says of the server, and that nobody else is harmed. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, it } from "node:test";

import { useSingle } from "../support/fixtures.js";
import { openLanes, rejection } from "../support/lanes.js";
import { Relay } from "../support/relay.js";
import { singleDomain, slowServer } from "../support/rigs.js";
import { until, within } from "../support/until.js";

describe("aborting", () => {
  it("a signal aborted before the call: nothing is sent", async () => {
    await using rig = await slowServer();
    const lanes = await openLanes(singleDomain(rig.stub.address));
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
    const lanes = await openLanes(singleDomain(rig.stub.address));
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
    const lanes = await openLanes(singleDomain(relay.address));
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
    const lanes = await openLanes(singleDomain(server.value.address, { silenceTimeoutMs: 60_000 }));
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
    const lanes = await openLanes(singleDomain(server.value.address, { silenceTimeoutMs: 60_000 }));
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
    const lanes = await openLanes(singleDomain(rig.stub.address, { commandTimeoutMs: 60, silenceTimeoutMs: 60_000 }));
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
    const lanes = await openLanes(singleDomain(relay.address));
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
    const lanes = await openLanes(singleDomain(server.value.address));
    await lanes.del("blocked");
    const call = lanes.incrBy("blocked", 1, { timeoutMs: 20 });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 120);
    await rejection(call, "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent" });
    assert.equal(await lanes.get("blocked"), null);
  });
});
