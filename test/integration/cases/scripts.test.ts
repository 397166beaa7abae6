/** Scripts: one round trip a call, the source only to a node that lacks it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { useC6 } from "../../support/fixtures.js";
import { Gate } from "../../support/gate.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes, rejection, thrown } from "../../support/lanes.js";
import { failure, Stub, type StubReply } from "../../support/stub.js";
import { until } from "../../support/until.js";

const ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

describe("P4: NOSCRIPT in a batch", () => {
  const c6 = useC6();

  it("P4: SCRIPT FLUSH on one primary: its calls are sent as EVAL, the others run once, the next ones are EVALSHA", async () => {
    const cluster = c6.value;
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const add = lanes.script(ADD);
    const shards = await Promise.all(cluster.primaries.map((node) => keysOn(cluster, node, 4)));
    const keys = shards.flat();
    const batch = (): Promise<unknown[]> => Promise.all(keys.map((key) => add.run(key, [1])));
    const statistics = async (): Promise<number[][]> =>
      Promise.all(cluster.primaries.map(async (node) => [await callsOf(node, "evalsha"), await callsOf(node, "eval")]));
    await batch();
    assert.deepEqual(new Set(await batch()), new Set([2]));
    await Promise.all(cluster.primaries.map((node) => node.command("CONFIG", "RESETSTAT")));
    await cluster.primaries[0]!.command("SCRIPT", "FLUSH");
    assert.deepEqual(new Set(await batch()), new Set([3]));
    // A refused EVALSHA counts as a call.
    assert.deepEqual(await statistics(), [
      [4, 4],
      [4, 0],
      [4, 0],
    ]);
    assert.deepEqual(new Set(await batch()), new Set([4]));
    assert.deepEqual(await statistics(), [
      [8, 4],
      [8, 0],
      [8, 0],
    ]);
    for (const key of keys) assert.equal(await lanes.get(key), "4");
  });

  it("P4: after a failover the new primary is given the source once", async () => {
    const cluster = c6.value;
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const add = lanes.script(`${ADD} -- of its own`);
    const primary = cluster.primaries[0]!;
    const heir = cluster.replicasOf(primary)[0]!;
    const [key] = (await keysOn(cluster, primary, 1)) as [string];
    await lanes.set(key, "0" as never);
    assert.equal(await add.run(key, [1]), 1);
    await cluster.failover(heir);
    await heir.command("SCRIPT", "FLUSH");
    await heir.command("CONFIG", "RESETSTAT");
    for (let sum = 2; sum <= 5; sum += 1) assert.equal(await add.run(key, [1]), sum);
    assert.equal(await callsOf(heir, "eval"), 1);
    assert.equal(await heir.command("GET", key), "5");
  });

  it("keys and arguments arrive as they are; a script's own error is the call's", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: c6.value.seeds } } });
    const echo = lanes.script("return {KEYS[1], KEYS[2], ARGV[1], ARGV[2]}");
    assert.deepEqual(await echo.run(["{t}a", "{t}b"], ["ä", 2n ** 60n]), ["{t}a", "{t}b", "ä", String(2n ** 60n)]);
    assert.deepEqual(await echo.run("{t}a", ["x"]), ["{t}a", null, "x", null].slice(0, 1));
    await rejection(lanes.script("return redis.error_reply('MINE own fault')").run("k"), "KEYLANE_ERR_REPLY", {
      message: /MINE own fault/,
      outcome: "rejected",
    });
    await rejection(lanes.script("return 1").run([]), "KEYLANE_ERR_COMMAND", { outcome: "not-sent" });
    await rejection(echo.run(["{t}a", "{u}b"]), "KEYLANE_ERR_CROSSSLOT");
    thrown(() => lanes.script(""), "KEYLANE_ERR_ARGUMENT");
  });

  it("a digest without a source is told that it is not known", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: c6.value.seeds } } });
    const digest = "0123456789012345678901234567890123456789";
    await rejection(lanes.command("EVALSHA", digest, 1, "k"), "KEYLANE_ERR_NOSCRIPT", { outcome: "rejected" });
  });
});

describe("scripts on scripted servers", () => {
  it("P4: calls issued later wait behind the one that is sent with its source", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    const refusal = new Gate<StubReply>();
    stub.answer("EVALSHA", () => refusal.opened);
    stub.script("EVAL", "ran").script("GET", "after");
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [stub.address] } } });
    const script = lanes.script("return 1").run("k");
    await until(() => stub.calls("EVALSHA").length === 1);
    refusal.open(failure("NOSCRIPT No matching script."));
    await until(() => lanes.stats().domains["all"]!.retries === 1);
    assert.deepEqual(await Promise.all([script, lanes.get("k")]), ["ran", "after"]);
    const order = stub.log.map(({ name }) => name).filter((name) => /^(EVAL|EVALSHA|GET)$/.test(name));
    assert.deepEqual(order, ["EVALSHA", "EVAL", "GET"]);
  });

  it("a call aborted after NOSCRIPT is told so", async (t) => {
    const [stub, controller] = [await Stub.start(), new AbortController()];
    t.after(() => stub.stop());
    stub.script("EVALSHA", failure("NOSCRIPT No matching script."));
    const answer = new Gate<StubReply>();
    stub.answer("EVAL", () => answer.opened);
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [stub.address] } } });
    const call = lanes.script("return 1").run("k", [], { signal: controller.signal });
    await until(() => stub.calls("EVAL").length === 1);
    controller.abort();
    await rejection(call, "KEYLANE_ERR_ABORTED", { outcome: "unknown" });
    answer.open(1);
  });
});
