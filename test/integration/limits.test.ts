/** Sizes and counts at and past their limits: refused before a byte leaves, or carried right, and neighbours are unharmed. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Keylane } from "keylane";
import { startSingle } from "keylane/sandbox";

import { useC3, useSingle } from "../support/fixtures.js";
import { openLanes, rejection, useLanes } from "../support/lanes.js";
import { Stub } from "../support/stub.js";
import { until, within } from "../support/until.js";

const MIB = 1 << 20;

describe("E5: a server with proto-max-bulk-len 1mb", () => {
  const server = useSingle({ config: { "proto-max-bulk-len": "1mb" } });
  const open = useLanes(() => ({
    domains: { all: { prefixes: [""], nodes: [server.value.address], mode: "single" } },
    commandTimeoutMs: 10_000,
    maxKeyBytes: 4 * MIB,
  }));

  it("a 2 MB value is refused before writing; a GET issued alongside answers on the same connection", async () => {
    const lanes = open.value;
    await lanes.set("alongside", "here");
    const before = await server.value.node.info("stats");
    const calls = [
      lanes.get("alongside"),
      rejection(lanes.set("big", "v".repeat(2 * MIB)), "KEYLANE_ERR_TOO_LARGE", {
        command: "SET",
        domain: "all",
        outcome: "not-sent",
        message: /1048576 bytes/,
      }),
      rejection(lanes.set("big", Buffer.alloc(2 * MIB) as never), "KEYLANE_ERR_TOO_LARGE"),
      rejection(lanes.set("big", "日".repeat(400_000)), "KEYLANE_ERR_TOO_LARGE"),
      rejection(lanes.command("RPUSH", "big", "a", "v".repeat(2 * MIB)), "KEYLANE_ERR_TOO_LARGE"),
      rejection(lanes.get("k".repeat(2 * MIB)), "KEYLANE_ERR_TOO_LARGE", { command: "GET" }),
      lanes.get("alongside"),
    ];
    const results = await Promise.all(calls);
    assert.equal(results[0], "here");
    assert.equal(results[6], "here");
    const after = await server.value.node.info("stats");
    assert.equal(after.get("total_connections_received"), before.get("total_connections_received"));
    assert.equal(lanes.stats().domains["all"]!.reconnects, 0);
    assert.equal(await lanes.exists("big"), false);
  });

  it("exactly 1 MB is stored and read back", async () => {
    const value = "v".repeat(MIB - 3) + "end";
    assert.equal(await open.value.set("whole", value), true);
    assert.equal(await open.value.get("whole"), value);
    const wide = "日".repeat(MIB / 4);
    assert.equal(await open.value.set("wide", wide), true);
    assert.equal(await open.value.get("wide"), wide);
  });
});

describe("E5: long lists and large replies on a cluster", () => {
  // Half a gigabyte keeps a server from its peers for a second, which is no failure.
  const c3 = useC3({ nodeTimeoutMs: 60_000 });
  const open = useLanes(() => ({
    domains: {
      text: { prefixes: ["t:", "other:"], nodes: c3.value.seeds },
      bytes: { prefixes: ["b:"], nodes: c3.value.seeds, codec: "buffer" },
    },
    commandTimeoutMs: 20_000,
  }));

  it("a 200,000-element array argument, and a GET issued alongside", async () => {
    const lanes = open.value;
    const list = Array.from({ length: 200_000 }, (_, i) => `element ${i}`);
    await lanes.set("other:1", "here");
    const [pushed, beside] = await Promise.all([lanes.command("RPUSH", "t:list", list), lanes.get("other:1")]);
    assert.equal(pushed, 200_000);
    assert.equal(beside, "here");
    const [range, again] = await Promise.all([lanes.command("LRANGE", "t:list", 0, -1), lanes.get("other:1")]);
    assert.deepEqual(range, list);
    assert.equal(again, "here");
  });

  it("200,000 keys of one slot in MSET, MGET and EVAL", async () => {
    const lanes = open.value;
    const keys = Array.from({ length: 200_000 }, (_, i) => `t:{m}${i}`);
    assert.equal(
      await lanes.command(
        "MSET",
        keys.map((key, i) => [key, i]),
      ),
      "OK",
    );
    assert.deepEqual(
      await lanes.command("MGET", keys),
      keys.map((_, i) => String(i)),
    );
    assert.equal(await lanes.command("EVAL", "return #KEYS", keys.length, keys), 200_000);
    assert.equal(await lanes.command("UNLINK", keys), 200_000);
  });

  it("a command of 1,048,577 arguments is refused before writing", async () => {
    const lanes = open.value;
    const { bytesSent } = lanes.stats().domains["text"]!;
    const list = Array.from({ length: 1_048_575 }, () => "v");
    const [, beside] = await Promise.all([
      rejection(lanes.command("RPUSH", "t:long", list), "KEYLANE_ERR_TOO_LARGE", {
        command: "RPUSH",
        outcome: "not-sent",
        message: /1048577 arguments/,
      }),
      lanes.get("other:1"),
    ]);
    assert.equal(beside, "here");
    assert.equal(await lanes.exists("t:long"), false);
    assert.ok(lanes.stats().domains["text"]!.bytesSent - bytesSent < 200);
  });

  it("a 50 MB value comes back right, binary and text", async () => {
    const lanes = open.value;
    const bytes = Buffer.alloc(50 * MIB);
    for (let i = 0; i < bytes.length; i += 4) bytes.writeUInt32LE(Math.imul(i, 2_654_435_761) >>> 0, i);
    assert.equal(await lanes.set("b:large", bytes), true);
    const [large, beside] = await Promise.all([lanes.get("b:large"), lanes.get("other:1")]);
    assert.equal(bytes.equals(large as Buffer), true);
    assert.equal(beside, "here");
    const text = "é0".repeat((50 * MIB) / 3);
    assert.equal(await lanes.set("t:large", text), true);
    assert.equal((await lanes.get("t:large")) === text, true);
  });

  it("a command of more text than one string can hold, and a GET issued alongside", async () => {
    const lanes = open.value;
    const half = "v".repeat(270 * MIB);
    const source = "return #ARGV[1] + #ARGV[2]";
    const [length, beside] = await Promise.all([
      lanes.command("EVAL", source, 1, "t:k", half, half),
      lanes.get("other:1"),
    ]);
    assert.equal(length, 2 * half.length);
    assert.equal(beside, "here");
  });

  it("50,000 operations of one turn, each with its own value", async () => {
    const lanes = open.value;
    const keys = Array.from({ length: 50_000 }, (_, i) => `t:${i}`);
    await Promise.all(keys.map((key, i) => lanes.set(key, `v${i}`)));
    assert.deepEqual(
      await lanes.getMany(keys),
      keys.map((_, i) => `v${i}`),
    );
  });

  it("E6: a key over maxKeyBytes is refused and one at the limit is not", async () => {
    const lanes = open.value;
    const key = `t:${"k".repeat(MIB - 2)}`;
    assert.equal(await lanes.set(key, "long"), true);
    assert.equal(await lanes.get(key), "long");
    await rejection(lanes.get(`${key}x`), "KEYLANE_ERR_TOO_LARGE", { outcome: "not-sent", message: /1048576 bytes/ });
    await rejection(lanes.get(`t:${"é".repeat(MIB / 2)}`), "KEYLANE_ERR_TOO_LARGE");
  });
});

describe("bounded queues", () => {
  it("a node that does not answer fills its queue; past that calls are refused at once, and the accepted ones settle", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    let answer: (() => void) | undefined;
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    stub.answer("GET", async ({ args }) => {
      await held;
      return args[1]!;
    });
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: [stub.address], mode: "single" } },
      maxQueue: 100,
      commandTimeoutMs: 20_000,
    });
    const calls = Array.from({ length: 150 }, (_, i) => lanes.get(`k${i}`));
    const refused = calls.slice(100).map((call, i) =>
      rejection(call, "KEYLANE_ERR_OVERLOADED", {
        command: "GET",
        domain: "all",
        node: stub.address,
        outcome: "not-sent",
        retryable: true,
        slot: lanes.route(`k${100 + i}`).slot,
      }),
    );
    await within(Promise.all(refused), 5000, "the refused calls");
    assert.equal(lanes.stats().domains["all"]!.overloaded, 50);
    assert.equal(lanes.stats().domains["all"]!.nodes[0]!.inFlight, 100);
    answer!();
    assert.deepEqual(
      await Promise.all(calls.slice(0, 100)),
      Array.from({ length: 100 }, (_, i) => `k${i}`),
    );
    assert.equal(await lanes.get("again"), "again");
  });

  it("what waits for a connection is bounded too, and leaves when the node is back", async () => {
    await using server = await startSingle();
    const lanes = await Keylane.open({
      domains: { all: { prefixes: [""], nodes: [server.address], mode: "single" } },
      maxQueue: 100,
      commandTimeoutMs: 20_000,
    });
    await server.node.kill();
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.state === "down");
    const calls = Array.from({ length: 150 }, (_, i) => lanes.set(`k${i}`, "v"));
    await Promise.all(
      calls.slice(100).map((call) => rejection(call, "KEYLANE_ERR_OVERLOADED", { outcome: "not-sent" })),
    );
    assert.equal(lanes.stats().domains["all"]!.nodes[0]!.waiting, 100);
    await server.node.start();
    assert.deepEqual(new Set(await Promise.all(calls.slice(0, 100))), new Set([true]));
    assert.equal(await server.node.command("DBSIZE"), 100);
    await lanes.close();
  });

  it("bytes the socket holds back are bounded", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: [stub.address], mode: "single" } },
      maxQueueBytes: 4 * MIB,
      commandTimeoutMs: 20_000,
    });
    for (const { socket } of stub.connections) socket.pause();
    const value = "v".repeat(MIB);
    const calls: Promise<boolean>[] = [];
    for (let i = 0; i < 64 && lanes.stats().domains["all"]!.overloaded === 0; i += 1) {
      const call = lanes.set(`k${i}`, value);
      call.catch(() => undefined);
      calls.push(call);
      await new Promise(setImmediate);
    }
    await rejection(calls.at(-1)!, "KEYLANE_ERR_OVERLOADED", { outcome: "not-sent", command: "SET" });
    assert.ok(calls.length > 4 && calls.length < 64, `${calls.length} calls`);
    await lanes.close({ timeoutMs: 1 });
    const settled = await Promise.allSettled(calls);
    const codes = new Set(settled.map((one) => (one as PromiseRejectedResult).reason.code as string));
    assert.deepEqual([...codes].toSorted(), ["KEYLANE_ERR_CONNECTION_LOST", "KEYLANE_ERR_OVERLOADED"]);
  });
});
