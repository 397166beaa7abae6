/** The public API where the connections live in worker threads: the same answers, errors and order as without. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Keylane, type OpenOptions } from "keylane";

import { useC3 } from "../../support/fixtures.js";
import { openLanes, rejection, thrown } from "../../support/lanes.js";
import { until } from "../../support/until.js";

const cluster = useC3();

const open = (threads: number) =>
  openLanes({
    domains: {
      texts: { prefixes: ["t:"], nodes: cluster.value.seeds },
      users: { prefixes: ["u:"], nodes: cluster.value.seeds, codec: "json" },
      packed: { prefixes: ["m:"], nodes: cluster.value.seeds, codec: "msgpack" },
      bytes: { prefixes: ["b:"], nodes: cluster.value.seeds, codec: "buffer" },
    },
    commandTimeoutMs: 5000,
    threads,
  } as OpenOptions);

for (const threads of [1, 2]) {
  describe(`threads: ${threads}`, () => {
    it("every codec, every command of the facade", async () => {
      const lanes = await open(threads);
      const value = { name: "Zoë", list: [1, null, "x".repeat(5000)] };
      await Promise.all(["t:n", "t:1"].map((key) => lanes.del(key)));
      assert.equal(await lanes.set("t:1", "é\u0000"), true);
      assert.equal(await lanes.get("t:1"), "é\u0000");
      assert.equal(await lanes.get(Buffer.from("t:1")), "é\u0000");
      assert.equal(await lanes.set("u:1", value as never), true);
      assert.equal(await lanes.set("m:1", value as never), true);
      assert.deepEqual(await lanes.getMany(["u:1", "m:1", "u:absent", "u:1"]), [value, value, null, value]);
      const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
      assert.equal(await lanes.set("b:1", bytes as never), true);
      assert.deepEqual(await lanes.get("b:1"), bytes);
      assert.equal(await lanes.set("t:1", "other", { ifAbsent: true }), false);
      assert.equal(await lanes.incrBy("t:n", 2n ** 60n), 2n ** 60n);
      assert.equal(await lanes.incrBy("t:n", -3), 2n ** 60n - 3n);
      assert.deepEqual([await lanes.ttl("t:n"), await lanes.expire("t:n", 60_000)], [Infinity, true]);
      assert.ok(((await lanes.ttl("t:n")) as number) > 50_000);
      assert.deepEqual(
        [await lanes.exists("t:n"), await lanes.del("t:n"), await lanes.exists("t:n")],
        [true, true, false],
      );
      assert.equal(await lanes.ttl("t:n"), null);
      await lanes.command("DEL", "t:h");
      assert.equal(await lanes.command("HSET", "t:h", "f", "v", "é", "1"), 2);
      assert.deepEqual(await lanes.command("HGETALL", "t:h"), { f: "v", é: "1" });
      assert.deepEqual(await lanes.command("HGETALL", "t:h", { buffers: true }), {
        f: Buffer.from("v"),
        é: Buffer.from("1"),
      });
      assert.equal(await lanes.script("return KEYS[1] .. ARGV[1]").run("t:s", ["ü"]), "t:sü");
    });

    it("transactions, blocking commands, and the errors of a server", async () => {
      const lanes = await open(threads);
      const [set, sum, fault, got] = await lanes
        .multi("t:{x}a")
        .set("t:{x}a", "1")
        .incrBy("t:{x}a", 4)
        .command("LPUSH", "t:{x}a", 1)
        .get("t:{x}a")
        .exec();
      assert.deepEqual([set, sum, got], [true, 5, "5"]);
      assert.equal((fault as { code: string }).code, "KEYLANE_ERR_WRONGTYPE");
      assert.equal(await lanes.command("BLPOP", "t:q", 0.02), null);
      const waiting = lanes.command("BLPOP", "t:q", 5);
      await lanes.command("RPUSH", "t:q", "x");
      assert.deepEqual(await waiting, ["t:q", "x"]);
      await rejection(lanes.command("BLPOP", "t:q", 0, { timeoutMs: 50 }), "KEYLANE_ERR_TIMEOUT", {
        outcome: "unknown",
      });
      const { slot, node } = lanes.route("t:h");
      await lanes.command("HSET", "t:h", "f", "v");
      await rejection(lanes.get("t:h"), "KEYLANE_ERR_WRONGTYPE", {
        command: "GET",
        domain: "texts",
        slot,
        node: node!,
        outcome: "rejected",
      });
      await rejection(
        lanes.get("u:bad" as never).then(() => lanes.command("SET", "u:bad", "{").then(() => lanes.get("u:bad"))),
        "KEYLANE_ERR_CODEC",
      );
      await rejection(lanes.set("t:1", undefined as never), "KEYLANE_ERR_ARGUMENT", { outcome: "not-sent" });
      await rejection(lanes.get("none"), "KEYLANE_ERR_ROUTE");
      await rejection(lanes.command("MGET", "t:1", "t:2"), "KEYLANE_ERR_CROSSSLOT");
      await rejection(lanes.get("t:".padEnd(2 << 20, "k")), "KEYLANE_ERR_TOO_LARGE", { outcome: "not-sent" });
    });

    it("order per key: what was issued first is done first, across all kinds of calls", async () => {
      const lanes = await open(threads);
      const keys = Array.from({ length: 200 }, (_, at) => `t:order:${at}`);
      const seen = await Promise.all(
        keys.flatMap((key) => [
          lanes.set(key, "10"),
          lanes.incrBy(key, 5),
          lanes.get(key),
          lanes.command("APPEND", key, "0"),
          lanes.get(Buffer.from(key)),
          lanes.multi(key).incrBy(key, 1).exec(),
          lanes.get(key, { timeoutMs: 4000 }),
          lanes.del(key),
          lanes.get(key),
        ]),
      );
      const expected = [true, 15, "15", 3, "150", [151], "151", true, null];
      for (const [at] of keys.entries()) assert.deepEqual(seen.slice(at * 9, at * 9 + 9), expected);
    });

    it("10,000 calls of one turn, and values from empty to a megabyte", async () => {
      const lanes = await open(threads);
      const keys = Array.from({ length: 10_000 }, (_, at) => `t:many:${at}`);
      await Promise.all(keys.map((key) => lanes.set(key, key)));
      assert.deepEqual(await lanes.getMany(keys), keys);
      const sizes = [0, 1, 100, 16_383, 65_536, 1 << 20];
      await Promise.all(sizes.map((size) => lanes.set(`t:size:${size}`, "ä".repeat(size / 2))));
      const read = (await Promise.all(sizes.map((size) => lanes.get(`t:size:${size}`)))) as unknown as string[];
      assert.deepEqual(
        read.map(({ length }) => length),
        sizes.map((size) => Math.floor(size / 2)),
      );
    });

    it("counters tell calls, connections and bytes of all workers; events are told once", async () => {
      const lanes = await Keylane.open({
        domains: { texts: { prefixes: ["t:"], nodes: cluster.value.seeds } },
        threads,
      });
      const up: string[] = [];
      lanes.on("node:up", ({ node }) => up.push(node));
      await Promise.all(Array.from({ length: 90 }, (_, at) => lanes.set(`t:${at}`, "v")));
      const stats = await until(() => {
        const { texts } = lanes.stats().domains;
        return texts!.bytesReceived > 0 && texts!.nodes.filter(({ state }) => state === "ready").length === 3 && texts;
      });
      assert.deepEqual([stats!.commands, stats!.succeeded, stats!.pending], [90, 90, 0]);
      assert.deepEqual(up.toSorted(), [...new Set(up)].toSorted());
      assert.deepEqual(up.toSorted(), stats!.nodes.map(({ node }) => node).toSorted());
      assert.deepEqual(await lanes.close(), { lost: 0 });
      await rejection(lanes.get("t:1"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    });
  });
}

describe("options", () => {
  it("what cannot be passed to a thread is told at open", async () => {
    const options = {
      domains: { all: { prefixes: [""], nodes: cluster.value.seeds, natMap: () => null } },
      threads: 1,
    };
    await rejection(Keylane.open(options), "KEYLANE_ERR_OPTIONS", { message: /^threads: / });
  });

  it("an open that fails in a worker rejects as it does without", async () => {
    const options = { domains: { all: { prefixes: [""], nodes: ["127.0.0.1:1"] } }, threads: 2, connectTimeoutMs: 300 };
    await rejection(Keylane.open(options), "KEYLANE_ERR_CONNECT", { domain: "all", message: /127\.0\.0\.1:1/ });
  });

  it("a handle to the pool is only given where there is one", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.value.seeds } } });
    thrown(() => lanes.handle({ via: "pool" }), "KEYLANE_ERR_ARGUMENT");
    await rejection(Keylane.attach(lanes.handle(), { via: "pool" }), "KEYLANE_ERR_ARGUMENT");
    await rejection(Keylane.attach(lanes.handle(), { via: "other" as never }), "KEYLANE_ERR_ARGUMENT");
  });
});
