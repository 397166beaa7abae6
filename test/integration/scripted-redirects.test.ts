/** Redirects that a real server cannot be made to give: hostile, contradicting, endless ones, and those in awkward moments. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Keylane } from "keylane";

import { openLanes, rejection } from "../support/lanes.js";
import { stubPair } from "../support/rigs.js";
import { failure, OK, Stub } from "../support/stub.js";
import type { StubCall } from "../support/stub.js";
import { until } from "../support/until.js";

const values = (calls: readonly StubCall[]): string[] => calls.map(({ args }) => String(args[2]));

describe("scripted redirects", () => {
  it("R2: a server that computes another slot is obeyed", async () => {
    await using rig = await stubPair();
    const { a, b, lanes } = rig;
    const key = "a{'1':{'i32':1}}";
    assert.equal(lanes.route(key).slot, 5540);
    assert.equal(lanes.route(key).node, a.address);
    a.answer("GET", () => failure(`MOVED 12350 ${b.address}`));
    a.answer("SET", () => failure(`MOVED 12350 ${b.address}`));
    b.answer("GET", ({ args }) => `b has ${String(args[1])}`);
    b.answer("SET", () => OK);
    assert.equal(await lanes.get(key), `b has ${key}`);
    assert.equal(await lanes.set(key, "v"), true);
    assert.equal(await lanes.get(key), `b has ${key}`);
    assert.equal(lanes.route(key).slot, 5540, "the local sum does not change");
    assert.equal(lanes.route(key).node, a.address, "nor does the node of a slot that nobody spoke of");
    assert.equal(b.calls("GET").length, 2);
    assert.equal(b.calls("SET").length, 1);
    assert.equal(lanes.stats().domains["all"]!.failed, 0);
  });

  it("G5: hostile slots are not believed: the original error, the map unchanged, no prototype touched", async () => {
    await using rig = await stubPair();
    const { a, b, lanes } = rig;
    const maps = (): unknown[] => ["foo", "bar", "b", "x{1}"].map((key) => lanes.route(key).node);
    const before = maps();
    for (const kind of ["MOVED", "ASK"]) {
      for (const slot of ["__proto__", "-1", "16384", "1e3", ""]) {
        const text = `${kind} ${slot} ${b.address}`;
        a.answer("GET", () => failure(text));
        const error = await rejection(lanes.get("bar"), "KEYLANE_ERR_REDIRECTS", {
          outcome: "rejected",
          node: a.address,
        });
        assert.equal(error.message, text);
      }
    }
    for (const address of ["", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:1e3", "__proto__"]) {
      a.answer("GET", () => failure(`MOVED 5061 ${address}`));
      await rejection(lanes.get("bar"), "KEYLANE_ERR_REDIRECTS", { outcome: "rejected" });
    }
    assert.deepEqual(maps(), before);
    assert.equal(b.calls("GET").length, 0);
    assert.equal(([] as unknown[])[0], undefined);
    assert.equal(([] as unknown as Record<string, unknown>)["host"], undefined);
    assert.equal(({} as Record<string, unknown>)["host"], undefined);
    assert.equal(lanes.stats().domains["all"]!.moved, 0);
    a.answer("GET", () => "fine");
    assert.equal(await lanes.get("bar"), "fine");
  });

  it("MOVED without a host means the host that was asked", async () => {
    await using rig = await stubPair();
    const { a, b, lanes } = rig;
    a.answer("GET", () => failure(`MOVED ${lanes.route("bar").slot} :${b.port}`));
    b.answer("GET", () => "here");
    assert.equal(await lanes.get("bar"), "here");
    assert.equal(lanes.route("bar").node, b.address);
  });

  it("P1: in one batch only the moved operation is sent again; successes run once", async () => {
    await using rig = await stubPair();
    const { a, b, lanes } = rig;
    const moved = lanes.route("bar").slot;
    assert.ok(["bar", "b", "x{1}"].some((key) => lanes.route(key).node === a.address));
    a.answer("INCRBY", ({ args }) => (String(args[1]) === "bar" ? failure(`MOVED ${moved} ${b.address}`) : 1));
    b.answer("INCRBY", () => 1);
    const keys = Array.from({ length: 200 }, (_, i) => `k${i}`).filter((key) => lanes.route(key).node === a.address);
    const sums = await Promise.all(["bar", ...keys].map((key) => lanes.incrBy(key)));
    assert.deepEqual(new Set(sums), new Set([1]));
    assert.equal(a.calls("INCRBY").length, keys.length + 1);
    assert.equal(b.calls("INCRBY").length, 1);
  });

  it("P1: operations issued while refusals are still on their way stay behind those they follow", async () => {
    await using rig = await stubPair({ refreshMinimumMs: 60_000 });
    const { a, b, lanes } = rig;
    const { slot } = lanes.route("bar");
    let release: (() => void) | undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    a.answer("APPEND", async ({ calls }) => {
      if (calls > 1) await held;
      return failure(`MOVED ${slot} ${b.address}`);
    });
    b.answer("APPEND", ({ calls }) => calls);
    const calls = ["1", "2", "3"].map((value) => lanes.command("APPEND", "bar", value));
    await until(() => lanes.stats().domains["all"]!.moved === 1);
    for (const value of ["4", "5"]) calls.push(lanes.command("APPEND", "bar", value));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    release!();
    assert.deepEqual(await Promise.all(calls), [1, 2, 3, 4, 5]);
    assert.deepEqual(values(b.calls("APPEND")), ["1", "2", "3", "4", "5"]);
  });

  it("ASK to a node not known yet: it is dialled, every command is preceded by ASKING, the order stays", async () => {
    const [a, b] = (await Stub.cluster(1).then(async ([one]) => [one, await Stub.start()])) as [Stub, Stub];
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [a.address] } }, commandTimeoutMs: 5000 });
    const { slot } = lanes.route("bar");
    a.answer("APPEND", () => failure(`ASK ${slot} ${b.address}`));
    b.answer("APPEND", ({ calls, asking }) => (asking ? calls : failure(`MOVED ${slot} ${a.address}`)));
    const calls = Array.from({ length: 20 }, (_, i) => lanes.command("APPEND", "bar", i));
    assert.deepEqual(
      await Promise.all(calls),
      calls.map((_, i) => i + 1),
    );
    assert.deepEqual(
      values(b.calls("APPEND")),
      calls.map((_, i) => String(i)),
    );
    assert.equal(lanes.route("bar").node, a.address);
    await Promise.all([a.stop(), b.stop()]);
  });

  it("two nodes that send to each other are asked until one of them owns the slot", async () => {
    await using rig = await stubPair({ refreshMinimumMs: 60_000, commandTimeoutMs: 10_000 });
    const { a, b, lanes } = rig;
    const { slot } = lanes.route("bar");
    a.answer("INCRBY", () => failure(`MOVED ${slot} ${b.address}`));
    b.answer("INCRBY", ({ calls }) => (calls < 5 ? failure(`MOVED ${slot} ${a.address}`) : 7));
    assert.equal(await lanes.incrBy("bar"), 7);
    assert.equal(a.calls("INCRBY").length, 5);
  });

  it("two nodes that send to each other for ever: asked with pauses, KEYLANE_ERR_REDIRECTS at the deadline", async () => {
    await using rig = await stubPair({ refreshMinimumMs: 60_000, commandTimeoutMs: 1000 });
    const { a, b, lanes } = rig;
    const { slot } = lanes.route("bar");
    a.answer("INCRBY", () => failure(`MOVED ${slot} ${b.address}`));
    b.answer("INCRBY", () => failure(`MOVED ${slot} ${a.address}`));
    await rejection(lanes.incrBy("bar"), "KEYLANE_ERR_REDIRECTS", { command: "INCRBY", slot, outcome: "rejected" });
    // Four times at once, then with pauses of 80 to 250 ms: no storm.
    const calls = a.calls("INCRBY").length + b.calls("INCRBY").length;
    assert.ok(calls > 5 && calls <= 5 + 1000 / 80, `asked ${calls} times`);
  });
});

describe("a node whose slots move while it is away", () => {
  it("what waited for it goes to the new owner, before what was issued later", async () => {
    const [a, b] = (await Stub.cluster(2)) as [Stub, Stub];
    const lanes = await Keylane.open({
      domains: { all: { prefixes: [""], nodes: [b.address] } },
      refreshMinimumMs: 20,
      commandTimeoutMs: 10_000,
    });
    b.answer("APPEND", ({ calls }) => calls);
    assert.equal(lanes.route("bar").node, a.address);
    await a.stop();
    await until(() => lanes.stats().domains["all"]!.nodes.some(({ state }) => state === "down"));
    const calls: Promise<unknown>[] = [];
    const append = (): void => void calls.push(lanes.command("APPEND", "bar", calls.length));
    for (let i = 0; i < 50; i += 1) append();
    await until(() => lanes.stats().domains["all"]!.nodes.some(({ waiting }) => waiting === 50));
    b.ranges = [{ from: 0, to: 16_383, nodes: [{ host: b.host, port: b.port, id: b.id }] }];
    while (lanes.route("bar").node === a.address) {
      append();
      await new Promise(setImmediate);
    }
    append();
    assert.deepEqual(
      await Promise.all(calls),
      calls.map((_, i) => i + 1),
    );
    assert.deepEqual(
      values(b.calls("APPEND")),
      calls.map((_, i) => String(i)),
    );
    await lanes.close();
    await b.stop();
  });
});
