/** The shared cache on one thread and one server: what answers, what is asked of the server, and what every write drops. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { useSingle } from "../../support/fixtures.js";
import { openLanes, rejection, thrown } from "../../support/lanes.js";
import { rawCommand } from "../../support/raw.js";
import { Relay } from "../../support/relay.js";
import { until } from "../../support/until.js";

describe("the shared cache", () => {
  const single = useSingle();
  const open = (cache: object = {}, more: object = {}) =>
    openLanes({
      domains: {
        users: {
          prefixes: ["u:"],
          nodes: [single.value.address],
          mode: "single",
          codec: "json",
          cache: { mode: "all", ...cache },
        },
        texts: { prefixes: ["t:"], nodes: [single.value.address], mode: "single", cache: { mode: "all", ...cache } },
        bytes: {
          prefixes: ["b:"],
          nodes: [single.value.address],
          mode: "single",
          codec: "buffer",
          cache: { mode: "all", ...cache },
        },
        plain: { prefixes: ["p:"], nodes: [single.value.address], mode: "single" },
      },
      commandTimeoutMs: 5000,
      ...more,
    } as never);
  const raw = (...args: (string | number | Uint8Array)[]) => rawCommand(single.value.address, ...args);

  /** GETs that the server has run. */
  async function gets(): Promise<number> {
    const stats = String(await raw("INFO", "commandstats"));
    return Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  }

  it("asks the server once, answers from memory afterwards, and tells the levels apart", async () => {
    await raw("SET", "u:1", '{"country":"AT"}');
    const lanes = await open();
    assert.equal(lanes.peek("u:1"), undefined);
    const before = await gets();
    assert.deepEqual(await lanes.get("u:1"), { country: "AT" });
    assert.deepEqual(await lanes.get("u:1"), { country: "AT" });
    assert.deepEqual(await lanes.getMany(["u:1", "u:1"]), [{ country: "AT" }, { country: "AT" }]);
    assert.deepEqual(lanes.peek("u:1"), { country: "AT" });
    assert.deepEqual(lanes.peek(Buffer.from("u:1")), { country: "AT" });
    assert.deepEqual(await lanes.get("u:1", { timeoutMs: 100 }), { country: "AT" });
    assert.equal((await gets()) - before, 1);
    const { cache } = lanes.stats();
    assert.equal(cache!.loads, 1);
    assert.equal(cache!.l0Hits, 4);
    assert.equal(cache!.l1Hits, 2, "the byte key's, and the first one after the load");
    assert.equal(cache!.entries, 1);
    assert.equal(cache!.staleness, "tracked");
    assert.equal(cache!.stalenessBoundMs, 1500);
  });

  it("knows an absent key, until somebody sets it", async () => {
    await raw("DEL", "t:absent");
    const lanes = await open({ negativeTtlMs: 60_000 });
    const before = await gets();
    assert.equal(await lanes.get("t:absent"), null);
    assert.equal(await lanes.get("t:absent"), null);
    assert.equal(lanes.peek("t:absent"), null);
    assert.equal((await gets()) - before, 1);
    await raw("SET", "t:absent", "here");
    await until(() => lanes.peek("t:absent") === undefined);
    assert.equal(await lanes.get("t:absent"), "here");
  });

  it("leaves a domain without a cache alone", async () => {
    await raw("SET", "p:1", "v");
    const lanes = await open();
    const before = await gets();
    assert.equal(await lanes.get("p:1"), "v");
    assert.equal(await lanes.get("p:1"), "v");
    assert.equal(lanes.peek("p:1"), undefined);
    assert.equal((await gets()) - before, 2);
  });

  it("has no statistics when no domain is cached", async () => {
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: [single.value.address], mode: "single" } },
    });
    assert.equal(lanes.stats().cache, null);
    assert.equal(lanes.handle().region, null);
    assert.equal(lanes.invalidatePrefix(""), 0);
    assert.equal(await lanes.warm(["k"]), 0);
  });

  it("gives frozen objects to all, and to each its own bytes", async () => {
    await raw("SET", "u:2", '{"tags":["a",{"b":1}],"deep":{"c":null}}');
    await raw("SET", "b:1", "bytes");
    const lanes = await open();
    const [first, second] = (await Promise.all([lanes.get("u:2"), lanes.get("u:2")])) as unknown as {
      tags: unknown[];
    }[];
    assert.equal(first, second);
    assert.throws(() => first!.tags.push(1), TypeError);
    assert.equal(Object.isFrozen((first!.tags as object[])[1]), true);
    assert.equal(lanes.peek("u:2"), await lanes.get("u:2"));
    const [one, two] = (await Promise.all([lanes.get("b:1"), lanes.get("b:1")])) as unknown as Buffer[];
    one!.fill(0);
    assert.equal(String(two), "bytes");
    ((await lanes.get("b:1")) as unknown as Buffer).fill(1);
    assert.equal(String(await lanes.get("b:1")), "bytes");
  });

  /** Every way to write a key: [what, call, value afterwards]. */
  const writes: [string, (lanes: Awaited<ReturnType<typeof open>>, key: string) => Promise<unknown>, string | null][] =
    [
      ["set", (lanes, key) => lanes.set(key, "2" as never), "2"],
      ["del", (lanes, key) => lanes.del(key), null],
      ["incrBy", (lanes, key) => lanes.incrBy(key, 4), "5"],
      ["a command", (lanes, key) => lanes.command("APPEND", key, "x"), "1x"],
      ["a command of two keys", (lanes, key) => lanes.command("RENAME", `${key}{t}`, `${key}{t}2`), "1"],
      ["a transaction", (lanes, key) => lanes.multi(key).get(key).incrBy(key, 2).exec(), "3"],
      ["a script", (lanes, key) => lanes.script("return redis.call('SET', KEYS[1], ARGV[1])").run(key, ["7"]), "7"],
      ["evalsha by command", (lanes, key) => lanes.command("EVAL", "redis.call('DEL', KEYS[1])", 1, key), null],
    ];
  for (const [what, call, after] of writes) {
    it(`drops the keys that ${what} writes`, async () => {
      const key = `t:write:${what.replaceAll(" ", "-")}`;
      await raw("MSET", key, "1", `${key}{t}`, "1");
      const lanes = await open();
      assert.equal(await lanes.get(key), "1");
      await call(lanes, key);
      assert.equal(await lanes.get(key), after);
    });
  }

  it("drops what a blocking command takes", async () => {
    await raw("DEL", "t:list");
    const lanes = await open({ negativeTtlMs: 60_000 });
    assert.equal(await lanes.get("t:list"), null);
    const taken = lanes.command("BLPOP", "t:list", 5);
    await raw("RPUSH", "t:list", "a", "b");
    assert.deepEqual(await taken, ["t:list", "a"]);
    await rejection(lanes.get("t:list"), "KEYLANE_ERR_WRONGTYPE");
  });

  it("keeps the cached value through a read by any command", async () => {
    await raw("SET", "t:kept", "1");
    const lanes = await open();
    await lanes.get("t:kept");
    assert.equal(await lanes.command("STRLEN", "t:kept"), 1);
    assert.equal(await lanes.exists("t:kept"), true);
    assert.equal(await lanes.ttl("t:kept"), Infinity);
    assert.equal(lanes.peek("t:kept"), "1");
  });

  it("invalidates a key, or a prefix and nothing else", async () => {
    const lanes = await open();
    const keys = ["t:a:1", "t:a:2", "t:b:1", "u:a"];
    await raw("MSET", ...keys.flatMap((key) => [key, '"1"']));
    assert.equal(await lanes.warm(keys), 4);
    lanes.invalidate("t:b:1");
    assert.equal(lanes.peek("t:b:1"), undefined);
    assert.equal(lanes.invalidatePrefix("t:a:"), 2);
    assert.equal(lanes.peek("t:a:1"), undefined);
    assert.equal(lanes.peek("t:a:2"), undefined);
    assert.equal(lanes.peek("u:a"), "1");
    assert.equal(await lanes.get("t:a:1"), '"1"');
  });

  it("admits keys in mode hot by warm alone", async () => {
    await raw("MSET", "t:hot", "1", "t:cold", "2");
    const lanes = await open({ mode: "hot" });
    assert.equal(await lanes.get("t:hot"), "1");
    assert.equal(lanes.peek("t:hot"), undefined);
    assert.equal(await lanes.warm(["t:hot", "p:1"]), 1);
    assert.equal(lanes.peek("t:hot"), "1");
    await raw("SET", "t:hot", "3");
    await until(() => lanes.peek("t:hot") === undefined);
    assert.equal(await lanes.get("t:hot"), "3");
  });

  it("refreshes behind a hit from refreshAfterMs on", async () => {
    await raw("SET", "t:fresh", "1");
    const lanes = await open({ refreshAfterMs: 20, ttlMs: 600_000 });
    await lanes.get("t:fresh");
    await until(() => {
      assert.equal(lanes.peek("t:fresh"), "1");
      return lanes.stats().cache!.refreshes === 1;
    });
    await until(() => lanes.stats().cache!.loads === 2);
    assert.equal(lanes.peek("t:fresh"), "1");
  });

  it("shares no load that an invalidation overtook", async (t) => {
    await raw("SET", "t:overtaken", "old");
    const relay = await Relay.start(single.value.address);
    t.after(() => relay.stop());
    const domain = { prefixes: ["t:"], nodes: [relay.address], mode: "single", cache: { mode: "all" } } as const;
    const lanes = await openLanes({ domains: { texts: domain }, commandTimeoutMs: 5000 });
    const before = await gets();
    relay.down.stall = true;
    const first = lanes.get("t:overtaken");
    const shared = lanes.get("t:overtaken");
    await until(async () => (await gets()) === before + 1);
    lanes.invalidate("t:overtaken");
    await raw("SET", "t:overtaken", "new");
    const second = lanes.get("t:overtaken");
    relay.down.stall = false;
    assert.deepEqual(await Promise.all([first, shared, second]), ["old", "old", "new"]);
    assert.equal((await gets()) - before, 2);
    assert.equal(lanes.stats().cache!.overtaken, 1);
    assert.equal(lanes.peek("t:overtaken"), "new");
  });

  it("refuses what is no key, and a domain that is not there", async () => {
    const lanes = await open();
    thrown(() => lanes.peek(1 as never), "KEYLANE_ERR_ARGUMENT");
    thrown(() => lanes.peek("nowhere"), "KEYLANE_ERR_ROUTE");
    thrown(() => lanes.invalidate(null as never), "KEYLANE_ERR_ARGUMENT");
    thrown(() => lanes.invalidatePrefix(1 as never), "KEYLANE_ERR_ARGUMENT");
    await rejection(lanes.warm("t:" as never), "KEYLANE_ERR_ARGUMENT");
    await rejection(lanes.warm(["t:1", "nowhere"]), "KEYLANE_ERR_ROUTE");
  });

  it("answers nothing once it is closed", async () => {
    await raw("SET", "t:closed", "1");
    const lanes = await open();
    await lanes.get("t:closed");
    const closing = lanes.close();
    assert.equal(lanes.peek("t:closed"), undefined);
    await rejection(lanes.get("t:closed"), "KEYLANE_ERR_CLOSED");
    await closing;
    assert.equal(lanes.peek("t:closed"), undefined);
    lanes.invalidate("t:closed");
    assert.equal(lanes.stats().cache!.entries, 0);
    await rejection(lanes.get("t:closed"), "KEYLANE_ERR_CLOSED");
  });
});
