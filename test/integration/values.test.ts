/** Values through the facade, checked from outside by a client that shares nothing with it: codecs, integers, bytes, lives. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { useC3, useSingle } from "../support/fixtures.js";
import { openLanes, rejection, useLanes } from "../support/lanes.js";
import { connectRaw, rawCommand } from "../support/raw.js";

describe("values on a cluster", () => {
  const c3 = useC3();
  const utf8 = useLanes(() => ({ domains: { all: { prefixes: [""], nodes: c3.value.seeds } } }));
  const json = useLanes(() => ({ domains: { all: { prefixes: [""], nodes: c3.value.seeds, codec: "json" } } }));

  /** Runs a command where its key lives, over a bare socket. */
  const raw = (name: string, key: string | Uint8Array): Promise<unknown> =>
    rawCommand(utf8.value.route(key).node!, name, key);

  it("utf8: what is written is what the server holds and what is read", async () => {
    const lanes = utf8.value;
    for (const value of ["plain", "", "äöü 日本語 👩‍🚀", "a\0b\r\n$5\r\n", "0", " ", "x".repeat(100_000)]) {
      assert.equal(await lanes.set("text", value), true);
      assert.deepEqual(await raw("GET", "text"), Buffer.from(value));
      assert.equal(await lanes.get("text"), value);
    }
  });

  it("an absent key is null, an empty value is not", async () => {
    const lanes = utf8.value;
    assert.equal(await lanes.get("absent"), null);
    assert.equal(await lanes.set("empty", ""), true);
    assert.equal(await lanes.get("empty"), "");
    assert.equal(await lanes.exists("empty"), true);
    assert.equal(await lanes.exists("absent"), false);
  });

  it("the empty key is a key like any other", async () => {
    const lanes = utf8.value;
    assert.equal(lanes.route("").slot, 0);
    assert.equal(await lanes.set("", "nameless"), true);
    assert.deepEqual(await raw("GET", ""), Buffer.from("nameless"));
    assert.equal(await lanes.get(""), "nameless");
    assert.equal(await lanes.get(new Uint8Array()), "nameless");
    assert.equal(await lanes.del(""), true);
  });

  it("R4: binary keys are sent as exactly their own bytes", async () => {
    const lanes = utf8.value;
    const keys: [Uint8Array, number][] = [
      [Buffer.from([0x80]), 4488],
      [Buffer.from([0x81]), lanes.route(Buffer.from([0x81])).slot],
      [Buffer.from([0xff, 0xfe, 0x00]), 16_301],
      [new Uint8Array([1, 2, 0xff, 0xfe, 0x00, 3]).subarray(2, 5), 16_301],
    ];
    for (const [i, [key, slot]] of keys.entries()) {
      assert.equal(lanes.route(key).slot, slot);
      assert.equal(await lanes.set(key, `value ${i}`), true);
      assert.deepEqual(await raw("GET", key), Buffer.from(`value ${i}`));
      assert.equal(await lanes.get(key), `value ${i}`);
    }
    assert.equal(lanes.route("\ufffd").slot, 13_381);
    assert.equal(await lanes.get("\ufffd"), null, "no byte key became U+FFFD");
    assert.deepEqual(await raw("GET", Buffer.from([0x80])), Buffer.from("value 0"));
    assert.deepEqual(await raw("GET", Buffer.from([0x81])), Buffer.from("value 1"));
  });

  it("R4: a byte key may be reused by its owner as soon as the call returns", async () => {
    const lanes = utf8.value;
    const key = Buffer.from("mine-a");
    const first = lanes.set(key, "a");
    key[5] = 0x62;
    const second = lanes.set(key, "b");
    key.fill(0);
    await Promise.all([first, second]);
    assert.deepEqual(await lanes.getMany(["mine-a", "mine-b"]), ["a", "b"]);
  });

  it("lone surrogates become U+FFFD before anything is hashed or sent, in keys and values", async () => {
    const lanes = utf8.value;
    const key = "up:\ud800{x}\udfff";
    assert.equal(lanes.route(key).slot, lanes.route(Buffer.from(key)).slot);
    assert.equal(await lanes.set(key, "a\udc00b"), true);
    assert.deepEqual(await raw("GET", Buffer.from("up:\ufffd{x}\ufffd")), Buffer.from("a\ufffdb"));
    assert.equal(await lanes.get(key), "a\ufffdb");
    assert.equal(await lanes.get("up:\ufffd{x}\ufffd"), "a\ufffdb");
  });

  it("a lone high surrogate that ends one argument does not join a low one that begins the next", async () => {
    const lanes = utf8.value;
    assert.equal(await lanes.command("HSET", "joined", "f\ud83d", "\ude80v"), 1);
    assert.deepEqual(await raw("HGETALL", "joined"), [Buffer.from("f\ufffd"), Buffer.from("\ufffdv")]);
  });

  it("ASCII, non-ASCII and binary operations of one turn do not disturb each other", async () => {
    const lanes = utf8.value;
    const entries: [string | Uint8Array, string][] = Array.from({ length: 300 }, (_, i) => {
      const key = i % 3 === 0 ? `ascii:${i}` : i % 3 === 1 ? `é日:${i}` : Buffer.from([0xff, i & 0xff, i >> 8]);
      return [key, i % 2 === 0 ? `v${i}` : `ü${i}`];
    });
    await Promise.all(entries.map(([key, value]) => lanes.set(key, value)));
    assert.deepEqual(
      await lanes.getMany(entries.map(([key]) => key)),
      entries.map(([, value]) => value),
    );
  });

  it("set: conditions and lives", async () => {
    const lanes = utf8.value;
    assert.equal(await lanes.set("s", "1", { ifPresent: true }), false);
    assert.equal(await lanes.set("s", "1", { ifAbsent: true, ttlMs: 60_000 }), true);
    assert.equal(await lanes.set("s", "2", { ifAbsent: true }), false);
    assert.equal(await lanes.get("s"), "1");
    assert.equal(await lanes.set("s", "3", { ifPresent: true, keepTtl: true }), true);
    const left = (await lanes.ttl("s"))!;
    assert.ok(left > 50_000 && left <= 60_000, String(left));
    assert.equal(await lanes.set("s", "4"), true);
    assert.equal(await lanes.ttl("s"), Infinity);
    assert.equal(await lanes.get("s"), "4");
  });

  it("expire, ttl, exists and del", async () => {
    const lanes = utf8.value;
    assert.equal(await lanes.ttl("e"), null);
    assert.equal(await lanes.expire("e", 1000), false);
    await lanes.set("e", "v");
    assert.equal(await lanes.ttl("e"), Infinity);
    assert.equal(await lanes.expire("e", 123_456), true);
    assert.ok(Number(await raw("PTTL", "e")) > 100_000);
    assert.equal(await lanes.expire("e", Number.MAX_SAFE_INTEGER - Date.now()), true);
    assert.ok((await lanes.ttl("e"))! > 9e15 - 2e13);
    assert.equal(await lanes.del("e"), true);
    assert.equal(await lanes.del("e"), false);
  });

  it("getMany: input order, duplicates, absent ones and any mix of slots", async () => {
    const lanes = utf8.value;
    const keys = Array.from({ length: 1000 }, (_, i) => `m:${i}`);
    await Promise.all(keys.filter((_, i) => i % 7 !== 0).map((key) => lanes.set(key, `v:${key}`)));
    const asked = [...keys, ...keys.slice(0, 100).toReversed(), "m:1", "m:1"];
    const expected = asked.map((key) => (Number(key.slice(2)) % 7 === 0 ? null : `v:${key}`));
    assert.deepEqual(await lanes.getMany(asked), expected);
    assert.deepEqual(await lanes.getMany([]), []);
  });

  it('getMany: rejects with the first failure, or with onError "return" puts errors in their places', async () => {
    const lanes = utf8.value;
    await lanes.command("RPUSH", "list", 1);
    await lanes.set("fine", "1");
    await rejection(lanes.getMany(["fine", "list"]), "KEYLANE_ERR_WRONGTYPE", { command: "GET", outcome: "rejected" });
    const [fine, list, absent] = await lanes.getMany(["fine", "list", "absent"], { onError: "return" });
    assert.equal(fine, "1");
    assert.equal((list as { code?: string }).code, "KEYLANE_ERR_WRONGTYPE");
    assert.equal(absent, null);
    await rejection(lanes.getMany("fine" as never), "KEYLANE_ERR_ARGUMENT");
    await rejection(lanes.getMany(["fine", undefined as never]), "KEYLANE_ERR_ARGUMENT");
  });

  it("E2: integers near 2^53 count on exactly", async () => {
    const lanes = utf8.value;
    await lanes.set("n", "9007199254740990");
    assert.equal(await lanes.command("INCR", "n"), 9007199254740991);
    assert.equal(await lanes.command("INCR", "n"), 9007199254740992n);
    assert.equal(await lanes.incrBy("n"), 9007199254740993n);
    assert.deepEqual(await raw("GET", "n"), Buffer.from("9007199254740993"));
    assert.equal(await lanes.get("n"), "9007199254740993");
    assert.equal(await lanes.incrBy("n", -3), 9007199254740990);
  });

  it("E2: at 9223372036854775807 INCR fails and the value is unchanged", async () => {
    const lanes = utf8.value;
    await lanes.set("top", "9223372036854775807");
    for (const call of [lanes.incrBy("top"), lanes.command("INCR", "top")]) {
      await rejection(call, "KEYLANE_ERR_REPLY", { outcome: "rejected", message: /overflow/ });
    }
    assert.equal(await lanes.get("top"), "9223372036854775807");
    assert.equal(await lanes.incrBy("top", -9223372036854775807n), 0);
    assert.equal(await lanes.incrBy("top", -9223372036854775808n), -9223372036854775808n);
    await rejection(lanes.incrBy("top", -1), "KEYLANE_ERR_REPLY", { message: /overflow/ });
    assert.deepEqual(await raw("GET", "top"), Buffer.from("-9223372036854775808"));
  });

  it("E2: 2**70 and 10**21 go out digit by digit", async () => {
    const lanes = utf8.value;
    assert.equal(await lanes.command("SET", "big", 2 ** 70), "OK");
    assert.deepEqual(await raw("GET", "big"), Buffer.from("1180591620717411303424"));
    assert.equal(await lanes.command("SET", "big", 10 ** 21), "OK");
    assert.deepEqual(await raw("GET", "big"), Buffer.from("1000000000000000000000"));
    assert.equal(await lanes.command("SET", "big", 9223372036854775807n), "OK");
    assert.equal(await lanes.get("big"), "9223372036854775807");
  });

  it("E3: hash fields __proto__ and constructor are own properties with their values", async () => {
    const lanes = utf8.value;
    await lanes.command("HSET", "h", "__proto__", "polluted", "constructor", "c", "plain", "p");
    const fields = (await lanes.command("HGETALL", "h")) as Record<string, unknown>;
    assert.deepEqual(Object.entries(fields).toSorted(), [
      ["__proto__", "polluted"],
      ["constructor", "c"],
      ["plain", "p"],
    ]);
    assert.equal(Object.getPrototypeOf(fields), Object.prototype);
    assert.equal(await lanes.command("HGET", "h", "__proto__"), "polluted");
    assert.equal(({} as { admin?: unknown }).admin, undefined);
  });

  it("E3: a key named __proto__ and a JSON value with it", async () => {
    const text = '{"__proto__":{"admin":1},"a":2}';
    await json.value.set("__proto__", JSON.parse(text));
    assert.deepEqual(await raw("GET", "__proto__"), Buffer.from(text));
    const back = await json.value.get("__proto__");
    assert.equal(JSON.stringify(back), text);
    assert.ok(Object.hasOwn(back as object, "__proto__"));
    assert.equal((back as { admin?: unknown }).admin, undefined);
    assert.equal(({} as { admin?: unknown }).admin, undefined);
  });

  it("json: what is stored is JSON, null included; what is no JSON is KEYLANE_ERR_CODEC and harms no neighbour", async () => {
    const lanes = utf8.value;
    for (const value of [{ a: [1, { b: null }] }, [], "text", 5, false, null, "é"]) {
      await json.value.set("j", value);
      assert.deepEqual(await raw("GET", "j"), Buffer.from(JSON.stringify(value)));
      assert.deepEqual(await json.value.get("j"), value);
    }
    await lanes.set("broken", "{oops");
    await json.value.set("whole", { ok: 1 });
    const [broken, whole] = await Promise.allSettled([json.value.get("broken"), json.value.get("whole")]);
    assert.equal((broken as PromiseRejectedResult).reason.code, "KEYLANE_ERR_CODEC");
    assert.deepEqual(whole, { status: "fulfilled", value: { ok: 1 } });
    await rejection(json.value.get("broken"), "KEYLANE_ERR_CODEC", { command: "GET" });
    const circle: { self?: unknown } = {};
    circle.self = circle;
    await rejection(json.value.set("j", circle), "KEYLANE_ERR_CODEC", { outcome: "not-sent" });
  });

  it("msgpack and buffer: types and bytes survive, E3 included", async () => {
    const nodes = c3.value.seeds;
    const packed = await openLanes({
      domains: {
        packed: { prefixes: ["p:"], nodes, codec: "msgpack" },
        bytes: { prefixes: ["b:"], nodes, codec: "buffer" },
      },
    });
    const value = { at: new Date(5), big: 2n ** 60n, bytes: Buffer.from([0, 0xff]), deep: [{ a: null }] };
    await packed.set("p:1", value);
    assert.deepEqual(await packed.get("p:1"), value);
    const hostile = JSON.parse('{"__proto__":{"admin":1},"a":2}') as object;
    await packed.set("p:2", hostile);
    assert.equal(JSON.stringify(await packed.get("p:2")), '{"__proto__":{"admin":1},"a":2}');
    assert.equal(({} as { admin?: unknown }).admin, undefined);
    const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    await packed.set("b:1", all);
    assert.deepEqual(await raw("GET", "b:1"), all);
    assert.deepEqual(await packed.get("b:1"), all);
  });

  it("bad arguments are refused before a byte leaves", async () => {
    const lanes = utf8.value;
    const { bytesSent } = lanes.stats().domains["all"]!;
    const notSent = { outcome: "not-sent" } as const;
    for (const key of [undefined, null, 5, Number.NaN, {}, ["a"], Symbol("k")] as never[]) {
      for (const call of [
        lanes.get(key),
        lanes.set(key, "v" as never),
        lanes.del(key),
        lanes.exists(key),
        lanes.ttl(key),
      ]) {
        await rejection(call, "KEYLANE_ERR_ARGUMENT", notSent);
      }
      await rejection(lanes.incrBy(key), "KEYLANE_ERR_ARGUMENT", notSent);
      await rejection(lanes.expire(key, 5), "KEYLANE_ERR_ARGUMENT", notSent);
      assert.throws(() => lanes.route(key), { code: "KEYLANE_ERR_ARGUMENT" });
    }
    for (const value of [undefined, null, Number.NaN, {}] as never[]) {
      await rejection(lanes.set("k", value), "KEYLANE_ERR_ARGUMENT", notSent);
    }
    for (const ms of [0, -1, 1.5, Number.NaN, Infinity, 2 ** 53, "5", null] as never[]) {
      await rejection(lanes.set("k", "v", { ttlMs: ms }), "KEYLANE_ERR_ARGUMENT", { ...notSent, message: /ttlMs/ });
      await rejection(lanes.expire("k", ms), "KEYLANE_ERR_ARGUMENT", { ...notSent, message: /ttlMs/ });
      await rejection(lanes.get("k", { timeoutMs: ms }), "KEYLANE_ERR_ARGUMENT", { ...notSent, message: /timeoutMs/ });
    }
    await rejection(lanes.expire("k", undefined as never), "KEYLANE_ERR_ARGUMENT", notSent);
    for (const amount of [1.5, Number.NaN, Infinity, 2 ** 53, 2n ** 63n, -(2n ** 63n) - 1n, "5", null] as never[]) {
      await rejection(lanes.incrBy("k", amount), "KEYLANE_ERR_ARGUMENT", { ...notSent, message: /amount/ });
    }
    for (const options of [
      { ifAbsent: true, ifPresent: true },
      { ttlMs: 5, keepTtl: true },
    ]) {
      await rejection(lanes.set("k", "v", options), "KEYLANE_ERR_ARGUMENT", notSent);
    }
    assert.equal(lanes.stats().domains["all"]!.bytesSent, bytesSent);
    assert.equal(await lanes.exists("k"), false);
  });
});

describe("values on a single server", () => {
  const server = useSingle();

  it("mode single: the same calls, with a database number", async () => {
    const nodes = [server.value.address];
    const lanes = await openLanes({
      domains: {
        zero: { prefixes: ["z:"], nodes, mode: "single" },
        three: { prefixes: ["t:"], nodes, mode: "single", db: 3, codec: "json" },
      },
    });
    assert.deepEqual(lanes.route("z:{foo}"), {
      domain: "zero",
      slot: 12_182,
      node: server.value.address,
      matched: "z:",
    });
    await lanes.set("z:1", "one");
    await lanes.set("t:1", { three: true });
    assert.deepEqual(await lanes.getMany(["z:1", "t:1", "z:2"]), ["one", { three: true }, null]);
    assert.equal(await lanes.incrBy("z:n", 41), 41);
    const client = await connectRaw(server.value.address);
    assert.deepEqual(await client.command("GET", "z:1"), Buffer.from("one"));
    assert.equal(await client.command("EXISTS", "t:1"), 0);
    await client.command("SELECT", 3);
    assert.deepEqual(await client.command("GET", "t:1"), Buffer.from('{"three":true}'));
    client.close();
  });
});
