/** Batches that meet a moved slot, calls over many slots, and maps that change while operations are under way. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { KeylaneError } from "keylane";

import { useC3 } from "../../support/fixtures.js";
import { Gate } from "../../support/gate.js";
import { callsOf, keysIn, keysOn, rangesOf } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { OK, Stub, type StubReply } from "../../support/stub.js";
import { until } from "../../support/until.js";

describe("P1: a batch meets MOVED", () => {
  const c3 = useC3();

  it("P1: one of two slots of a node moved: each INCR is exactly +1, in order, and only moved ones are sent again", async () => {
    const cluster = c3.value;
    const [from, to] = cluster.primaries as [(typeof cluster.primaries)[0], (typeof cluster.primaries)[0]];
    const [still, moving] = (await keysOn(cluster, from, 2)) as [string, string];
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const { slot } = lanes.route(moving);
    let sum = 0;
    for (let round = 0; round < 5; round += 1) {
      const [source, target] = round % 2 === 0 ? [from, to] : [to, from];
      const before = lanes.stats().domains["all"]!;
      await cluster.moveSlots([slot], source, target);
      await Promise.all([source, target].map((node) => node.command("CONFIG", "RESETSTAT")));
      const batch: Promise<unknown>[] = [];
      const expected: unknown[] = [];
      for (let at = 0; at < 20; at += 1) {
        sum += 1;
        for (const key of [still, moving]) batch.push(lanes.incrBy(key), lanes.get(key));
        expected.push(sum, String(sum), sum, String(sum));
      }
      assert.deepEqual(await Promise.all(batch), expected);
      const after = lanes.stats().domains["all"]!;
      assert.equal(after.moved - before.moved, 40, "the moved slot's share of the batch, and nothing else");
      assert.equal(after.retries - before.retries, 40);
      assert.equal((await callsOf(from, "incrby")) + (await callsOf(to, "incrby")), 40, "INCRBY that ran");
      assert.equal(lanes.route(moving).node, target.address);
    }
  });
});

describe("P3: calls over many slots", () => {
  const c3 = useC3();

  it("P3: MSET of two slots is refused before anything is sent, also with an owner stopped", async () => {
    const cluster = c3.value;
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const [foo, bar] = [lanes.route("foo"), lanes.route("bar")];
    assert.notEqual(foo.node, bar.node);
    const stopped = cluster.nodes.find(({ address }) => address === bar.node)!;
    stopped.pause();
    try {
      const began = performance.now();
      await rejection(lanes.command("MSET", "foo", 1, "bar", 2, { timeoutMs: 2000 }), "KEYLANE_ERR_CROSSSLOT", {
        outcome: "not-sent",
        retryable: false,
      });
      assert.ok(performance.now() - began < 1000, "at once");
    } finally {
      stopped.resume();
    }
    assert.deepEqual(await lanes.getMany(["foo", "bar"]), [null, null], "no half of it was written");
  });

  it("P3: with one owner stopped, getMany tells absent from failed, key by key, within the deadline", async () => {
    const cluster = c3.value;
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const [live, stopped] = cluster.primaries as [(typeof cluster.primaries)[0], (typeof cluster.primaries)[0]];
    const [held, absent] = (await keysOn(cluster, live, 2)) as [string, string];
    const [lost, lostToo] = (await keysOn(cluster, stopped, 2)) as [string, string];
    await Promise.all([lanes.set(held, "held"), lanes.set(lost, "lost")]);
    const keys = [lost, held, absent, held, lostToo];
    stopped.pause();
    try {
      const values = await lanes.getMany(keys, { timeoutMs: 300, onError: "return" });
      assert.deepEqual(
        values.map((value) => (value instanceof KeylaneError ? value.code : value)),
        ["KEYLANE_ERR_TIMEOUT", "held", null, "held", "KEYLANE_ERR_TIMEOUT"],
      );
      const error = await rejection(lanes.getMany(keys, { timeoutMs: 300 }), "KEYLANE_ERR_TIMEOUT");
      assert.equal(error.node, stopped.address);
    } finally {
      stopped.resume();
    }
  });

  it("P3: getMany over ten slots, a duplicate and an absent key, while a slot moves to and fro", async () => {
    const cluster = c3.value;
    const [from, to] = cluster.primaries as [(typeof cluster.primaries)[0], (typeof cluster.primaries)[0]];
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const [[first]] = (await rangesOf(cluster, from)) as [[number, number]];
    const slots = Array.from({ length: 10 }, (_, at) => (first + at * 1500) % 16_384);
    const present = [...keysIn(slots).values()];
    await Promise.all(present.map((key) => lanes.set(key, `value of ${key}`)));
    const keys = [...present, present[0]!, "surely absent"];
    const expected = [...present, present[0]!].map((key) => `value of ${key}`);
    const phase = { moving: true };
    const moves = (async () => {
      for (let round = 0; round < 5; round += 1) {
        await cluster.moveSlots([first], from, to);
        await cluster.moveSlots([first], to, from);
      }
      phase.moving = false;
    })();
    let calls = 0;
    for (; phase.moving; calls += 1) {
      assert.deepEqual(await lanes.getMany(keys), [...expected, null]);
      await new Promise(setImmediate);
    }
    await moves;
    assert.ok(calls > 20, `${calls} calls`);
  });
});

describe("P1: the map changes while operations are under way", () => {
  it("P1: operations sent by a new map do not overtake those that the old node has not answered", async (t) => {
    const [old, young] = (await Stub.cluster(2)) as [Stub, Stub];
    t.after(() => Promise.all([old.stop(), young.stop()]));
    const [key] = [...keysIn([100]).values()] as [string];
    const answer = new Gate<StubReply>();
    old.answer("SET", () => answer.opened);
    young.script("GET", "new");
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: [old.address] } },
      refreshIntervalMs: 100,
      refreshMinimumMs: 50,
      commandTimeoutMs: 10_000,
    });
    assert.equal(lanes.route(key).node, old.address);
    const set = lanes.set(key, "new");
    await until(() => old.calls("SET").length === 1);
    const ranges = [
      { ...young.ranges[0]!, nodes: young.ranges[1]!.nodes },
      { ...young.ranges[1]!, nodes: young.ranges[0]!.nodes },
    ];
    for (const stub of [old, young]) stub.ranges = ranges;
    await until(() => lanes.route(key).node === young.address);
    const got = lanes.get(key);
    const [beside] = [...keysIn([101]).values()] as [string];
    assert.equal(await lanes.get(beside), "new", "slots without anything under way are not held up");
    assert.equal(young.calls("GET").length, 1);
    answer.open(OK);
    assert.deepEqual(await Promise.all([set, got]), [true, "new"]);
    assert.equal(young.calls("GET").length, 2);
  });
});
