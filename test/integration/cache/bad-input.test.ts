/** What is too small, too large, foreign, broken or full: a clear error or a miss, never a wrong value. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import type { CacheSession } from "#dist/native/cache-types.js";
import { Keylane } from "keylane";
import type { CacheOptions, KeylaneHandle } from "keylane";

import { WRITER_KEYS, isWhole } from "../../support/cache-writer.js";
import { cachedOn, freeSeats, sessionOf } from "../../support/cached.js";
import { useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { rawCommand } from "../../support/raw.js";
import { until } from "../../support/until.js";

const GIB = 2 ** 30;

/** A map of addresses that changes none. */
function natMap(address: string): { host: string; port: number } {
  const [host, port] = address.split(":") as [string, string];
  return { host, port: Number(port) };
}

describe("the shared cache and bad input", () => {
  const single = useSingle();
  const options = (cache: CacheOptions = {}, more: object = {}) => cachedOn(single.value.address, cache, more);
  const open = (cache: CacheOptions = {}, more: object = {}) => openLanes(options(cache, more));
  const raw = (...args: (string | number)[]) => rawCommand(single.value.address, ...args);
  const gets = () => callsOf(single.value.node, "get");

  for (const [cacheBytes, message] of [
    [1, /cacheBytes: must be from 131136 to 4294967296, not 1$/],
    [1024, /cacheBytes: must be from .* not 1024$/],
    [131_135, /cacheBytes: must be from .* not 131135$/],
    [4 * GIB + 1, /cacheBytes: must be from .* not 4294967297$/],
    [5 * GIB, /cacheBytes: must be from .* not 5368709120$/],
    [Number.MAX_SAFE_INTEGER, /cacheBytes: must be from .* not 9007199254740991$/],
    [0, /cacheBytes/],
    [-1, /cacheBytes/],
    [1.5, /cacheBytes/],
    [NaN, /cacheBytes/],
    ["64 MiB", /cacheBytes/],
  ] as const) {
    it(`refuses a region of ${cacheBytes} bytes`, async () => {
      await rejection(Keylane.open(options({}, { cacheBytes })), "KEYLANE_ERR_OPTIONS", { message });
    });
  }

  for (const [cache, message] of [
    [{ refreshAfterMs: 1000, ttlMs: 1000 }, /domains\.texts\.cache\.refreshAfterMs: must be shorter than ttlMs/],
    [{ refreshAfterMs: 60_001 }, /domains\.texts\.cache\.refreshAfterMs/],
    [{ refreshAfterMs: -1 }, /domains\.texts\.cache\.refreshAfterMs/],
    [{ refreshAfterMs: 0 }, /domains\.texts\.cache\.refreshAfterMs/],
    [{ ttlMs: -1 }, /domains\.texts\.cache\.ttlMs/],
    [{ ttlMs: 0 }, /domains\.texts\.cache\.ttlMs/],
    [{ ttlMs: Infinity }, /domains\.texts\.cache\.ttlMs/],
    [{ ttlMs: 2 ** 53 }, /domains\.texts\.cache\.ttlMs/],
    [{ ttlMs: "1m" }, /domains\.texts\.cache\.ttlMs/],
    [{ negativeTtlMs: -1 }, /domains\.texts\.cache\.negativeTtlMs/],
    [{ negativeTtlMs: NaN }, /domains\.texts\.cache\.negativeTtlMs/],
    [{ maxValueBytes: (16 << 10) + 1 }, /domains\.texts\.cache\.maxValueBytes/],
    [{ maxValueBytes: -1 }, /domains\.texts\.cache\.maxValueBytes/],
    [{ staleIfErrorMs: 86_400_001 }, /domains\.texts\.cache\.staleIfErrorMs/],
    [{ staleIfErrorMs: -1 }, /domains\.texts\.cache\.staleIfErrorMs/],
    [{ mode: "some" }, /domains\.texts\.cache\.mode/],
    [{ broadcast: 1 }, /domains\.texts\.cache\.broadcast/],
    [{ ttl: 1000 }, /domains\.texts\.cache.*ttl/],
  ] as [CacheOptions, RegExp][]) {
    it(`refuses cache options ${JSON.stringify(cache)}`, async () => {
      await rejection(Keylane.open(options(cache)), "KEYLANE_ERR_OPTIONS", { message });
    });
  }

  it("takes the limits themselves", async () => {
    await raw("SET", "t:limits", "v".repeat(16 << 10));
    const lanes = await open({ maxValueBytes: 16 << 10, staleIfErrorMs: 86_400_000, ttlMs: 2, refreshAfterMs: 1 });
    assert.equal(await lanes.get("t:limits"), "v".repeat(16 << 10));
    const { bytesUsed, loads } = lanes.stats().cache!;
    assert.equal(loads, 1);
    assert.ok(bytesUsed > 16 << 10);
  });

  // ── handles ────────────────────────────────────────────────────────────────────────────────────────────────────────

  it("refuses the handle of another process", async () => {
    const lanes = await open();
    const handle = lanes.handle();
    const message = /belongs to another process/;
    await rejection(Keylane.attach({ ...handle, pid: process.pid + 1 }), "KEYLANE_ERR_ARGUMENT", { message });
    await rejection(Keylane.attach(JSON.parse(JSON.stringify(handle))), "KEYLANE_ERR_ARGUMENT", { message });
    const script = `
      const { Keylane } = await import(${JSON.stringify(import.meta.resolve("keylane"))});
      await Keylane.attach(JSON.parse(process.argv[1])).catch(({ code, message }) => console.log(code + " " + message));`;
    const args = ["--input-type=module", "-e", script, JSON.stringify(handle)];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    assert.match(stdout, /^KEYLANE_ERR_ARGUMENT the handle belongs to another process/);
  });

  it("refuses the handle of another version", async () => {
    const lanes = await open();
    const handle = lanes.handle();
    const seats = freeSeats(handle);
    const region = { ...handle.region!, digest: "0123456789abcdef" };
    const message = /another version of keylane/;
    await rejection(Keylane.attach({ ...handle, keylane: 99 }), "KEYLANE_ERR_ARGUMENT", { message });
    await rejection(Keylane.attach({ ...handle, region }), "KEYLANE_ERR_ARGUMENT", { message });
    assert.equal(freeSeats(handle), seats);
  });

  it("refuses what is no handle", async () => {
    const lanes = await open();
    const handle = lanes.handle();
    const seats = freeSeats(handle);
    const blank = new SharedArrayBuffer(64 << 20);
    for (const garbage of [
      undefined,
      null,
      1,
      "handle",
      {},
      [],
      { keylane: "1" },
      { keylane: 1 },
      { keylane: 1, pid: process.pid },
      { ...handle, topologies: [{}] },
      { ...handle, topologies: 5 },
      { ...handle, region: 5 },
      { ...handle, region: {} },
      { ...handle, region: { ...handle.region, region: blank } },
      { ...handle, region: { ...handle.region, region: new ArrayBuffer(64 << 20) } },
      { ...handle, region: { ...handle.region, region: handle.topologies[0] } },
      { ...handle, region: { ...handle.region, control: undefined } },
      { ...handle, region: { ...handle.region, control: new SharedArrayBuffer(4) } },
    ]) {
      await rejection(Keylane.attach(garbage as never), "KEYLANE_ERR_ARGUMENT");
    }
    await rejection(Keylane.attach({ ...handle, options: undefined } as never), "KEYLANE_ERR_OPTIONS");
    assert.equal(freeSeats(handle), seats, "a refused handle takes no seat");
  });

  it("refuses a handle whose cache is closed", async () => {
    const lanes = await open();
    const handle = lanes.handle();
    await lanes.close();
    await rejection(Keylane.attach(handle), "KEYLANE_ERR_ARGUMENT", { message: /closed/ });
  });

  it("refuses one thread more than there are seats", async () => {
    const lanes = await open();
    const handle = lanes.handle();
    const joined: CacheSession[] = [];
    for (let seats = freeSeats(handle); seats > 0; seats -= 1) joined.push(sessionOf(handle));
    await rejection(Keylane.attach(handle), "KEYLANE_ERR_ARGUMENT", { message: /the handle's cache/ });
    joined.pop()!.end(false);
    await (await Keylane.attach(handle)).close();
    for (const one of joined) one.end(false);
  });

  it("cannot post options that hold functions", async () => {
    const { domains, ...rest } = options();
    const texts = { ...domains["texts"]!, natMap } as never;
    const lanes = await openLanes({ ...rest, domains: { ...domains, texts } });
    assert.throws(() => structuredClone(lanes.handle()), { name: "DataCloneError" });
    const url = new URL("data:text/javascript,");
    assert.throws(() => new Worker(url, { workerData: { handle: lanes.handle() } }), { name: "DataCloneError" });
    const plain = await open();
    const clone = structuredClone(plain.handle()) as KeylaneHandle;
    const again = await Keylane.attach(clone);
    await raw("SET", "t:cloned", "v");
    assert.equal(await again.get("t:cloned"), "v");
    assert.equal(plain.peek("t:cloned"), "v");
    await again.close();
  });

  // ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  it("reads values over maxValueBytes and does not keep them", async () => {
    const lanes = await open({ maxValueBytes: 100 });
    await raw("MSET", "t:fits", "v".repeat(100), "t:over", "v".repeat(101), "b:over", "v".repeat(1_000_000));
    const before = await gets();
    for (let round = 0; round < 2; round += 1) {
      assert.equal(await lanes.get("t:fits"), "v".repeat(100));
      assert.equal(await lanes.get("t:over"), "v".repeat(101));
      assert.equal(String(await lanes.get("b:over")), "v".repeat(1_000_000));
      assert.equal(lanes.peek("t:fits"), "v".repeat(100));
      assert.equal(lanes.peek("t:over"), undefined);
      assert.equal(lanes.peek("b:over"), undefined);
    }
    assert.equal((await gets()) - before, 5);
    assert.equal(lanes.stats().cache!.entries, 1);
    assert.equal(await lanes.warm(["t:fits", "t:over"]), 1);
  });

  it("drops the older value of a key whose value has grown past maxValueBytes", async () => {
    // Without invalidations by the server, so that it is the load that drops it.
    await raw("ACL", "SETUSER", "untracked", "on", "nopass", "~*", "&*", "+@all", "-client|tracking");
    const { domains, ...rest } = options({ maxValueBytes: 100, ttlMs: 600_000, refreshAfterMs: 5 });
    const texts = { ...domains["texts"]!, username: "untracked", password: "any" };
    const lanes = await openLanes({ ...rest, domains: { texts } });
    assert.equal(lanes.stats().cache!.staleness, "ttl");
    await raw("SET", "t:grows", "small");
    assert.equal(await lanes.get("t:grows"), "small");
    await raw("SET", "t:grows", "v".repeat(101));
    // A hit elects a refresher, which finds a value that cannot be kept.
    await until(() => {
      const value = lanes.peek("t:grows");
      assert.ok(value === "small" || value === undefined);
      return value === undefined;
    });
    assert.equal(await lanes.get("t:grows"), "v".repeat(101));
    assert.equal(lanes.peek("t:grows"), undefined);
  });

  it("reads right values of 100,000 keys through the smallest cache there can be", async () => {
    const refusal = await rejection(Keylane.open(options({}, { cacheBytes: 1024 })), "KEYLANE_ERR_OPTIONS");
    const cacheBytes = Number(/from (\d+) to/.exec(refusal.message)![1]);
    const count = 100_000;
    const fill = "for i = 0, ARGV[1] - 1 do redis.call('SET', 't:full:' .. i, 'value of ' .. i) end";
    await raw("EVAL", fill, 0, count);
    const lanes = await open({}, { cacheBytes });
    const check = async (from: number, to: number): Promise<void> => {
      const ids = Array.from({ length: to - from }, (_, at) => from + at);
      const values = await lanes.getMany(ids.map((id) => `t:full:${id}`));
      for (const [at, id] of ids.entries()) if (values[at] !== `value of ${id}`) assert.fail(`${id}: ${values[at]}`);
    };
    for (let from = 0; from < count; from += 2000) await check(from, from + 2000);
    for (let round = 0; round < 5; round += 1) await check(0, 50);
    const { evictions, entries, loads, bytesUsed, l0Hits, l1Hits } = lanes.stats().cache!;
    assert.ok(loads >= count);
    assert.ok(entries > 0 && entries < 10_000, `${entries} entries`);
    assert.ok(evictions >= count - entries - 2000, `${evictions} evictions`);
    assert.ok(bytesUsed <= cacheBytes);
    assert.ok(l0Hits + l1Hits > 0);
    await raw("EVAL", "for i = 0, ARGV[1] - 1 do redis.call('UNLINK', 't:full:' .. i) end", 0, count);
  });

  // ── writers that die ───────────────────────────────────────────────────────────────────────────────────────────────

  it("reads right values while threads that store are terminated at random", async () => {
    const lanes = await open({}, { cacheBytes: 1 << 20 });
    const handle = lanes.handle();
    const seats = freeSeats(handle);
    const keys = Array.from({ length: WRITER_KEYS }, (_, at) => `t:${at}`);
    let read = 0;
    const check = (): void => {
      for (const key of keys) {
        const value = lanes.peek(key) as string | undefined;
        if (value === undefined) continue;
        read += 1;
        if (!isWhole(key, value)) assert.fail(`${key}: ${value}`);
      }
    };
    const program = new URL("../../support/cache-writer.js", import.meta.url);
    for (let round = 0; round < 20; round += 1) {
      const writer = new Worker(program, { workerData: { handle } });
      await once(writer, "message");
      for (let looks = Math.random() * 20; looks > 0; looks -= 1) check();
      await writer.terminate();
      check();
    }
    assert.ok(read > 1000, `${read} values read`);
    assert.equal(freeSeats(handle), seats);
    await raw("SET", "t:0", "by the server");
    lanes.invalidate("t:0");
    assert.equal(await lanes.get("t:0"), "by the server");
    assert.equal(lanes.peek("t:0"), "by the server");
  });
});
