/** L5: what callers do to a value they were given is nobody else's matter; absent, empty, zero and not cached are told apart. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { CacheThreads } from "../../support/cache-threads.js";
import { cachedOn } from "../../support/cached.js";
import { useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes } from "../../support/lanes.js";
import { rawCommand } from "../../support/raw.js";
import { until } from "../../support/until.js";

interface Packed {
  bytes: Buffer;
  at: Date;
  map: Record<string, number>;
  list: (Buffer | string)[];
  added?: boolean;
}

/** As it comes back from the codec: maps are objects. */
const packed = (): Packed => ({
  bytes: Buffer.from("bytes"),
  at: new Date(86_400_000),
  map: { one: 1 },
  list: [Buffer.from("inner"), "text"],
});

/** Changes every part of a value. */
function spoil(value: Packed): Packed {
  const before = structuredClone({ ...value, bytes: null, list: null });
  assert.deepEqual({ ...before, bytes: value.bytes, list: value.list }, packed());
  value.bytes.fill(0);
  value.at.setTime(0);
  value.map["one"] = 2;
  value.map["two"] = 2;
  (value.list[0] as Buffer).fill(0);
  value.list.push("more");
  value.added = true;
  return value;
}

describe("L5: values that callers share", () => {
  const single = useSingle();
  const open = (cache: object = {}) => openLanes(cachedOn(single.value.address, cache));
  const raw = (...args: (string | number | Uint8Array)[]) => rawCommand(single.value.address, ...args);
  const gets = () => callsOf(single.value.node, "get");

  it("L5: an object that a caller tries to change throws, and later reads are unharmed", async () => {
    await raw("SET", "j:profile", '{"country":"AT","tags":["a",{"deep":1}]}');
    const lanes = await open();
    const wanted = { country: "AT", tags: ["a", { deep: 1 }] };
    for (const read of [
      () => lanes.get("j:profile"),
      () => lanes.get("j:profile"),
      async () => lanes.peek("j:profile"),
    ]) {
      const value = (await read()) as unknown as typeof wanted & { more?: number };
      assert.throws(() => (value.country = "DE"), TypeError);
      assert.throws(() => (value.more = 1), TypeError);
      assert.throws(() => value.tags.push("b"), TypeError);
      assert.throws(() => ((value.tags[1] as { deep: number }).deep = 2), TypeError);
      assert.throws(() => delete (value as { country?: string }).country, TypeError);
      assert.deepEqual(value, wanted);
    }
    await using threads = await CacheThreads.start(lanes.handle(), 1);
    assert.deepEqual(await threads.all[0]!.call("peek", "j:profile"), wanted);
  });

  it("L5: bytes are everybody's own, whoever changes them and when", async () => {
    await raw("SET", "b:k", "bytes");
    const lanes = await open();
    const before = await gets();
    const seen: string[] = [];
    const spoiled = (value: unknown): Buffer => {
      seen.push(String(value));
      return (value as Buffer).fill(0);
    };
    // The first changes its bytes as soon as it has them, while the others still wait for the same load.
    const reads = Array.from({ length: 5 }, () => lanes.get("b:k").then(spoiled));
    const buffers = await Promise.all(reads);
    spoiled(await lanes.get("b:k"));
    spoiled(lanes.peek("b:k"));
    spoiled(await lanes.get("b:k", { timeoutMs: 1000 }));
    spoiled(lanes.peek(Buffer.from("b:k")));
    assert.deepEqual(
      seen,
      Array.from({ length: 9 }, () => "bytes"),
    );
    assert.equal(new Set(buffers).size, 5);
    assert.equal((await gets()) - before, 1);
  });

  it("L5: msgpack values that hold bytes, dates or maps are everybody's own", async () => {
    const lanes = await open();
    const { map, ...rest } = packed();
    await lanes.set("m:k", { ...rest, map: new Map(Object.entries(map)) } as never);
    const before = await gets();
    const read = (): Promise<Packed> => lanes.get("m:k") as Promise<unknown> as Promise<Packed>;
    await Promise.all(Array.from({ length: 5 }, () => read().then(spoil)));
    spoil(await read());
    spoil(lanes.peek("m:k") as unknown as Packed);
    assert.deepEqual(await read(), packed());
    assert.equal((await gets()) - before, 1);
  });

  it("L5: msgpack values of plain objects are shared and frozen", async () => {
    const lanes = await open();
    await lanes.set("m:plain", { list: [1, "two", null] } as never);
    const value = (await lanes.get("m:plain")) as unknown as { list: unknown[] };
    assert.throws(() => value.list.push(3), TypeError);
    const kept = (await lanes.get("m:plain")) as unknown as { list: unknown[] };
    assert.throws(() => kept.list.push(3), TypeError);
    assert.equal(await lanes.get("m:plain"), kept);
    assert.deepEqual(kept, value);
  });

  it("L5: a value that is too long to be cached is everybody's own or frozen as well", async () => {
    const lanes = await open({ maxValueBytes: 10 });
    await raw("MSET", "b:long", "b".repeat(20), "j:long", `["${"j".repeat(20)}"]`);
    const reads = Array.from({ length: 3 }, () =>
      lanes.get("b:long").then((value) => {
        const text = String(value);
        (value as unknown as Buffer).fill(0);
        return text;
      }),
    );
    assert.deepEqual(
      await Promise.all(reads),
      Array.from({ length: 3 }, () => "b".repeat(20)),
    );
    const list = (await lanes.get("j:long")) as unknown as string[];
    assert.throws(() => list.push("more"), TypeError);
  });

  for (const [key, stored, value] of [
    ["t:empty", "", ""],
    ["t:zero", "0", "0"],
    ["j:empty", '""', ""],
    ["j:zero", "0", 0],
    ["j:false", "false", false],
    ["j:null", "null", null],
    ["b:empty", "", Buffer.alloc(0)],
  ] as const) {
    it(`L5: ${JSON.stringify(stored)} at ${key} is a hit`, async () => {
      await raw("SET", key, stored);
      const lanes = await open();
      const before = await gets();
      for (let i = 0; i < 3; i += 1) {
        assert.deepEqual(await lanes.get(key), value);
        assert.deepEqual(lanes.peek(key), value);
      }
      assert.equal((await gets()) - before, 1);
      assert.equal(lanes.stats().cache!.entries, 1);
    });
  }

  it("L5: a key known to be absent is there once another client has set it", async () => {
    const lanes = await open({ negativeTtlMs: 60_000 });
    for (const [key, stored, value] of [
      ["t:later", "text", "text"],
      ["t:later:empty", "", ""],
      ["j:later", "0", 0],
    ] as const) {
      const before = await gets();
      assert.equal(await lanes.get(key), null);
      assert.equal(await lanes.get(key), null);
      assert.equal(lanes.peek(key), null);
      assert.equal((await gets()) - before, 1);
      await raw("SET", key, stored);
      await until(() => lanes.peek(key) === undefined);
      assert.deepEqual(await lanes.get(key), value);
      await raw("DEL", key);
      await until(() => lanes.peek(key) === undefined);
      assert.equal(await lanes.get(key), null);
    }
  });

  it("L5: that a key is absent has a life of its own, apart from that of values", async () => {
    await raw("SET", "t:value", "v");
    const lanes = await open({ ttlMs: 60_000, negativeTtlMs: 30 });
    const before = await gets();
    assert.equal(await lanes.get("t:value"), "v");
    for (let fill = 0; fill < 3; fill += 1) {
      assert.equal(await lanes.get("t:nothing"), null);
      await until(() => lanes.peek("t:nothing") === undefined);
    }
    assert.equal(lanes.peek("t:value"), "v");
    assert.equal((await gets()) - before, 4);
  });

  it("L5: that a key is absent is forgotten at a write, in whichever thread", async () => {
    const lanes = await open({ negativeTtlMs: 60_000 });
    await using threads = await CacheThreads.start(lanes.handle(), 1);
    const thread = threads.all[0]!;
    for (const [at, write] of [
      (key: string) => lanes.set(key, "1" as never),
      (key: string) => lanes.incrBy(key, 1),
      (key: string) => lanes.command("APPEND", key, "1"),
      (key: string) => thread.call("set", key, "1"),
      (key: string) => thread.call("incrBy", key, 1),
    ].entries()) {
      const key = `t:written:${at}`;
      assert.equal(await lanes.get(key), null);
      assert.equal(await thread.call("peek", key), null);
      await write(key);
      assert.equal(lanes.peek(key), undefined);
      assert.equal(await thread.call("get", key), "1");
      assert.equal(await lanes.get(key), "1");
    }
  });
});
