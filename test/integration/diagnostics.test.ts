/** Events, diagnostics channels and counters: what they tell, and that they tell no keys and values. */
import assert from "node:assert/strict";
import { channel } from "node:diagnostics_channel";
import { describe, it } from "node:test";

import { Keylane } from "keylane";
import type { CommandMessage, ConnectMessage, OpenOptions } from "keylane";

import { useC3 } from "../support/fixtures.js";
import { openLanes, rejection } from "../support/lanes.js";
import { Stub } from "../support/stub.js";
import { nextEvent } from "../support/until.js";

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
