/** Copies of hot keys: reads are spread over them, and no write of whatever kind leaves an old value to be read. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";

import type { Keylane } from "keylane";

import { useC3 } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { leftovers, Replicated, replicatedOn } from "../../support/replicated.js";
import { until } from "../../support/until.js";

const c3 = useC3();
const KEY = "up:hot";

beforeEach(async () => {
  for (const node of c3.value.primaries) await node.command("FLUSHALL");
});

/** As many reads as surely visit original and both copies. */
async function values(lanes: Keylane, key = KEY): Promise<Set<unknown>> {
  return new Set(await lanes.getMany([key, key, key, key]));
}

async function hot(value: string, options: object = {}): Promise<Replicated> {
  const rig = await Replicated.open(replicatedOn(c3.value, options));
  await rig.lanes.set(KEY, value);
  await rig.copy(KEY, 2, c3.value);
  return rig;
}

describe("reads", () => {
  it("copies lie on the other primaries, in their own domain, and answer their share of the reads", async () => {
    const { lanes, of, ...rig } = await hot("v").then((made) => ({
      lanes: made.lanes,
      of: () => made.of(KEY),
      set: made.set,
    }));
    const names = of();
    const homes = [KEY, ...names].map((name) => lanes.route(name).node);
    assert.equal(new Set(homes).size, 3, homes.join());
    assert.ok(
      names.every((name) => name.startsWith("up:{") && name.endsWith("}~up:hot")),
      names.join(),
    );
    assert.deepEqual([...rig.set.entries()].length, 1);
    for (const node of c3.value.primaries) await node.command("CONFIG", "RESETSTAT");
    for (let i = 0; i < 10; i += 1) {
      const got = await lanes.getMany(Array.from({ length: 300 }, () => KEY));
      assert.ok(got.every((value) => value === "v"));
    }
    const calls = await Promise.all(c3.value.primaries.map((node) => callsOf(node, "get")));
    // 1,000 each; a refill reads the original and each fence once.
    assert.ok(
      calls.every((count) => count >= 1000 && count <= 1030),
      calls.join(),
    );
  });

  it("calls with limits of their own are spread, too; byte keys go to the original", async () => {
    const { lanes } = await hot("v");
    for (const node of c3.value.primaries) await node.command("CONFIG", "RESETSTAT");
    for (let i = 0; i < 30; i += 1) assert.equal(await lanes.get(KEY, { timeoutMs: 900 }), "v");
    for (let i = 0; i < 30; i += 1) assert.equal(await lanes.get(Buffer.from(KEY)), "v");
    const home = lanes.route(KEY).node;
    for (const node of c3.value.primaries) {
      const calls = await callsOf(node, "get");
      assert.ok(node.address === home ? calls >= 40 && calls < 50 : calls >= 10 && calls < 20, `${calls}`);
    }
    await assert.rejects(lanes.get(KEY, { signal: AbortSignal.abort() }), { code: "KEYLANE_ERR_ABORTED" });
  });

  it("a copy that is absent is not believed", async () => {
    const rig = await hot("v");
    for (const name of rig.of(KEY)) await (await rig.holderOf(name, c3.value))!.command("DEL", name);
    assert.deepEqual(await values(rig.lanes), new Set(["v"]));
  });

  it("one copy is made where one is wanted, and a second one later", async () => {
    const rig = await Replicated.open(replicatedOn(c3.value));
    await rig.lanes.set(KEY, "v");
    const [first] = await rig.copy(KEY, 1, c3.value);
    const names = await rig.copy(KEY, 2, c3.value);
    assert.ok(names.includes(first!));
    rig.want(KEY, 9);
    rig.want("up:other", 9);
    await rig.lanes.set("up:other", "v");
    await rig.filled("up:other", 2, c3.value);
    assert.deepEqual(rig.of(KEY), names, "one on each other primary at most");
  });

  it("values of 100 KiB are copied whole", async () => {
    const value = "0123456789abcdef".repeat(6400);
    const rig = await hot(value);
    assert.deepEqual(await values(rig.lanes), new Set([value]));
    assert.equal(rig.replicas.bytesOf(0, KEY), value.length);
  });
});

describe("writes", () => {
  /** Each is acknowledged before the reads; `gives` is what they must find. */
  const writes: Record<string, { act(lanes: Keylane): Promise<unknown>; gives: string | null }> = {
    set: { act: (lanes) => lanes.set(KEY, "2"), gives: "2" },
    "set of a byte key": { act: (lanes) => lanes.set(Buffer.from(KEY), "2"), gives: "2" },
    incrBy: { act: (lanes) => lanes.incrBy(KEY, 4), gives: "5" },
    del: { act: (lanes) => lanes.del(KEY), gives: null },
    "command of one key": { act: (lanes) => lanes.command("APPEND", KEY, "1"), gives: "11" },
    "command of several keys": { act: (lanes) => lanes.command("MSET", `up:{${KEY}}`, "1", KEY, "2"), gives: "2" },
    transaction: { act: (lanes) => lanes.multi(KEY).incrBy(KEY).incrBy(KEY).exec(), gives: "3" },
    script: {
      act: (lanes) => lanes.script("return redis.call('SET', KEYS[1], ARGV[1])").run(KEY, ["s"]),
      gives: "s",
    },
    "script that fails half way": {
      act: (lanes) =>
        lanes
          .script("redis.call('SET', KEYS[1], 'half') return redis.call('LPUSH', KEYS[1], 1)")
          .run(KEY)
          .catch(() => null),
      gives: "half",
    },
  };
  for (const [name, { act, gives }] of Object.entries(writes)) {
    it(`${name}: what is read after it was acknowledged is what was written`, async () => {
      const rig = await hot("1");
      const { lanes } = rig;
      for (let turn = 0; turn < 10; turn += 1) {
        if (turn > 0) await rig.lanes.set(KEY, "1");
        const names = await rig.filled(KEY, 2, c3.value);
        const copies = await rig.nodesOf(names, c3.value);
        await act(lanes);
        const left = await Promise.all(copies.map(({ name, node }) => node.command("GET", name)));
        assert.ok(
          left.every((value) => value === null || String(value) === gives),
          `turn ${turn}: ${left.join()}`,
        );
        assert.deepEqual(await values(lanes), new Set([gives]));
      }
    });
  }

  it("a shorter life holds for copies as well, and an expired key is gone with them", async () => {
    const rig = await hot("v");
    await rig.lanes.expire(KEY, 400);
    const names = await rig.filled(KEY, 2, c3.value);
    for (const name of names) {
      const node = (await rig.holderOf(name, c3.value))!;
      const own = c3.value.primaries.find(({ address }) => address === rig.lanes.route(KEY).node)!;
      const [copy, original] = [await node.command("PTTL", name), await own.command("PTTL", KEY)].map(Number);
      assert.ok(copy! <= original! + 20, `${copy} ${original}`);
    }
    await until(async () => (await rig.lanes.exists(KEY)) === false);
    assert.deepEqual(await values(rig.lanes), new Set([null]));
    await until(() => rig.of(KEY).length === 0);
    await rig.lanes.set(KEY, "again");
    await rig.filled(KEY, 2, c3.value);
    assert.deepEqual(await values(rig.lanes), new Set(["again"]));
  });

  for (const threads of [0, 1]) {
    it(`stats tell what was asked for, and nothing of what copies take (threads: ${threads})`, async () => {
      const rig = await hot("0", { threads });
      const told = (): number[] => {
        const { commands, succeeded, failed, pending } = rig.lanes.stats().domains["users"]!;
        return [commands, succeeded, failed, pending];
      };
      const [commands, succeeded] = told() as [number, number];
      for (let i = 1; i <= 10; i += 1) {
        await rig.lanes.incrBy(KEY);
        assert.deepEqual(await values(rig.lanes), new Set([`${i}`]), "copies are absent, or filled anew");
        await rig.filled(KEY, 2, c3.value);
        assert.deepEqual(await values(rig.lanes), new Set([`${i}`]));
      }
      assert.deepEqual(told(), [commands + 90, succeeded + 90, 0, 0]);
      await assert.rejects(rig.lanes.get(KEY, { signal: AbortSignal.abort() }), { code: "KEYLANE_ERR_ABORTED" });
      assert.deepEqual(told(), [commands + 91, succeeded + 90, 1, 0]);
    });
  }

  it("another client's writes are heard of, and followed", async () => {
    const rig = await hot("v");
    const own = c3.value.primaries.find(({ address }) => address === rig.lanes.route(KEY).node)!;
    for (let i = 0; i < 20; i += 1) {
      await own.command("SET", KEY, `w${i}`);
      await until(async () => {
        const seen = await values(rig.lanes);
        return seen.size === 1 && seen.has(`w${i}`);
      });
      const names = await rig.filled(KEY, 2, c3.value);
      for (const name of names) {
        const node = (await rig.holderOf(name, c3.value))!;
        await until(async () => String(await node.command("GET", name)) === `w${i}`);
      }
    }
    await own.command("FLUSHALL");
    await until(async () => (await values(rig.lanes)).has(null) && rig.of(KEY).length === 0);
  });
});

describe("what is not copied", () => {
  it("absent keys, other types; once they are strings they are", async () => {
    const rig = await Replicated.open(replicatedOn(c3.value));
    rig.want("up:absent", 2);
    await rig.lanes.command("RPUSH", "up:list", "a");
    rig.want("up:list", 2);
    await rig.lanes.set("up:string", "v");
    await rig.copy("up:string", 2, c3.value);
    assert.deepEqual([rig.of("up:absent"), rig.of("up:list")], [[], []]);
    await rig.lanes.set("up:absent", "there");
    await rig.filled("up:absent", 2, c3.value);
    await rig.lanes.set("up:list", "text");
    await rig.filled("up:list", 2, c3.value);
    assert.deepEqual(await values(rig.lanes, "up:list"), new Set(["text"]));
    await rig.lanes.del("up:absent");
    assert.deepEqual(await values(rig.lanes, "up:absent"), new Set([null]));
    await until(() => rig.of("up:absent").length === 0);
    await rig.lanes.del("up:list");
    await rig.lanes.command("RPUSH", "up:list", "a");
    await assert.rejects(rig.lanes.get("up:list"), { code: "KEYLANE_ERR_WRONGTYPE" });
    await until(() => rig.of("up:list").length === 0);
  });

  it("keys whose prefix holds a brace", async () => {
    const rig = await Replicated.open(replicatedOn(c3.value, {}, { prefixes: ["up:", "{app}:"] }));
    await rig.lanes.set("{app}:1", "v");
    rig.want("{app}:1", 2);
    await rig.lanes.set("up:{app}:1", "v");
    await rig.copy("up:{app}:1", 2, c3.value);
    assert.deepEqual(rig.of("{app}:1"), []);
    assert.deepEqual(await values(rig.lanes, "up:{app}:1"), new Set(["v"]));
  });

  it("keys without a prefix go on to the domain that the fallback gave them", async () => {
    const nodes = c3.value.seeds;
    const rig = await Replicated.open({
      ...replicatedOn(c3.value),
      domains: { a: { prefixes: ["a:"], nodes }, b: { prefixes: ["b:"], nodes } },
      fallback: { hash: ["a", "b"] },
    });
    const key = ["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"].find(
      (one) => rig.lanes.route(one).domain === "a",
    )!;
    await rig.lanes.set(key, "v");
    const names = await rig.copy(key, 2, c3.value);
    assert.deepEqual(
      names.map((name) => rig.lanes.route(name).domain),
      ["a", "a"],
    );
    assert.deepEqual(await values(rig.lanes, key), new Set(["v"]));
  });
});

describe("the end", () => {
  it("given up: no copy and no fence is left, and the original alone is read", async () => {
    const rig = await hot("v");
    await rig.replicas.release(0, KEY);
    assert.deepEqual(rig.of(KEY), []);
    assert.equal(rig.set.find(KEY)!.replicas.length, 0);
    assert.deepEqual(await leftovers(c3.value, (key) => key === KEY), []);
    assert.deepEqual(await values(rig.lanes), new Set(["v"]));
    const names = await rig.copy(KEY, 2, c3.value);
    assert.equal(names.length, 2, "and wanted again");
  });

  it("closed in the midst of writes: nothing is left that does not die by itself", async () => {
    const rig = await hot("v");
    const writes = Array.from({ length: 50 }, (_, i) => rig.lanes.set(KEY, `${i}`));
    const closing = rig.replicas.close(1000);
    await Promise.all([...writes, closing]);
    assert.deepEqual(await values(rig.lanes), new Set(["49"]));
    for (const { key, ttl } of await leftovers(c3.value, (key) => key === KEY)) {
      assert.ok(ttl > 0 && ttl <= 5000, `${key} ${ttl}`);
    }
  });

  it("destroyed: copies die by their time to live", async () => {
    const rig = await hot("v");
    rig.replicas.destroy();
    const left = await leftovers(c3.value, (key) => key === KEY);
    assert.equal(left.length, 2);
    assert.ok(left.every(({ ttl }) => ttl > 0 && ttl <= 5000));
  });
});
