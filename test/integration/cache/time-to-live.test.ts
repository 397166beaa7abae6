/** L3: a value lives in the cache for `ttlMs`, at most as long as its key does in the server, whenever it is filled. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { cachedOn, lifeLeft } from "../../support/cached.js";
import { useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes } from "../../support/lanes.js";
import { rawCommand } from "../../support/raw.js";
import { Relay } from "../../support/relay.js";
import { until } from "../../support/until.js";

const HOUR = 3_600_000;
/** Longest life in the region. */
const LONGEST = 2 ** 30;

function between(low: number, value: number | undefined, high: number): void {
  assert.ok(value !== undefined && value > low && value <= high, `${value} is not in (${low}, ${high}]`);
}

describe("L3: life in the cache", () => {
  const single = useSingle();
  const open = (cache: object) => openLanes(cachedOn(single.value.address, cache));
  const raw = (...args: (string | number)[]) => rawCommand(single.value.address, ...args);
  const gets = () => callsOf(single.value.node, "get");

  it("L3: a cap of 100 ms, and an hour in the server: every refill gets the cap", async () => {
    await raw("SET", "t:hour", "v", "PX", HOUR);
    const lanes = await open({ ttlMs: 100 });
    const before = await gets();
    for (let fill = 1; fill <= 3; fill += 1) {
      assert.equal(await lanes.get("t:hour"), "v");
      const left = lifeLeft(lanes.handle(), "t:hour");
      // None is left only if the machine stood still for 100 ms.
      if (left !== undefined) between(0, left, 100);
      await until(() => lanes.peek("t:hour") === undefined);
    }
    const loads = (await gets()) - before;
    assert.equal(loads, 3);
  });

  it("L3: a key that lives 30 ms in the server lives no longer in the cache", async () => {
    const lanes = await open({ ttlMs: HOUR });
    await raw("SET", "t:long", "v");
    assert.equal(await lanes.get("t:long"), "v");
    between(HOUR - 60_000, lifeLeft(lanes.handle(), "t:long"), HOUR);
    await raw("SET", "t:short", "v", "PX", 30);
    const value = await lanes.get("t:short");
    const left = lifeLeft(lanes.handle(), "t:short");
    if (value === "v" && left !== undefined && lanes.peek("t:short") !== null) between(0, left, 30);
    assert.equal(await until(async () => (await lanes.get("t:short")) === null), true);
    assert.equal(await raw("EXISTS", "t:short"), 0);
    assert.equal(lanes.peek("t:long"), "v");
  });

  it("L3: every refill takes the lesser of cap and remaining life", async () => {
    await raw("SET", "t:refill", "v", "PX", HOUR);
    const lanes = await open({ ttlMs: 60_000 });
    for (const [life, most] of [
      [HOUR, 60_000],
      [20_000, 20_000],
      [40_000, 40_000],
      [10_000, 10_000],
    ] as const) {
      await raw("PEXPIRE", "t:refill", life);
      await until(() => lanes.peek("t:refill") === undefined);
      assert.equal(await lanes.get("t:refill"), "v");
      between(most - 5000, lifeLeft(lanes.handle(), "t:refill"), most);
    }
    await raw("PERSIST", "t:refill");
    await until(() => lanes.peek("t:refill") === undefined);
    assert.equal(await lanes.get("t:refill"), "v");
    between(55_000, lifeLeft(lanes.handle(), "t:refill"), 60_000);
  });

  it("L3: a refresh behind a hit takes the lesser of cap and remaining life, too", async () => {
    await raw("SET", "t:refresh", "v", "PX", 20_000);
    const lanes = await open({ ttlMs: 60_000, refreshAfterMs: 10 });
    assert.equal(await lanes.get("t:refresh"), "v");
    await until(() => lanes.peek("t:refresh") === "v" && lanes.stats().cache!.loads >= 3);
    between(10_000, lifeLeft(lanes.handle(), "t:refresh"), 20_000);
  });

  for (const huge of [Number.MAX_SAFE_INTEGER, 2 ** 32, 2 ** 31]) {
    it(`L3: ttlMs ${huge} is as good as the longest life there is`, async () => {
      await raw("SET", "t:huge", "v");
      await raw("SET", "t:brief", "v", "PX", 40);
      await raw("DEL", "t:nil");
      const lanes = await open({ ttlMs: huge, negativeTtlMs: huge, refreshAfterMs: huge - 1 });
      const before = await gets();
      assert.equal(await lanes.get("t:huge"), "v");
      assert.equal(await lanes.get("t:nil"), null);
      // What lives shortly shows that the clock went on.
      await until(async () => (await lanes.get("t:brief")) === null);
      const all = await gets();
      assert.equal(await lanes.get("t:huge"), "v");
      assert.equal(await lanes.get("t:nil"), null);
      assert.equal(lanes.peek("t:huge"), "v");
      assert.equal(await gets(), all);
      assert.ok(all - before >= 3);
      for (const key of ["t:huge", "t:nil"]) between(LONGEST - 60_000, lifeLeft(lanes.handle(), key), LONGEST);
    });
  }

  it("L3: a life in the server past all bounds is the cap", async () => {
    await raw("SET", "t:bounds", "v", "PX", "9000000000000000");
    const lanes = await open({ ttlMs: 1000 });
    assert.equal(await lanes.get("t:bounds"), "v");
    const left = lifeLeft(lanes.handle(), "t:bounds");
    if (left !== undefined) between(0, left, 1000);
  });

  it("L3: the time a reply travels is not added to the key's life", async () => {
    const relay = await Relay.start(single.value.address);
    try {
      const lanes = await openLanes(cachedOn(relay.address, { negativeTtlMs: 1 }));
      relay.up.delayMs = 100;
      relay.down.delayMs = 200;
      await raw("SET", "t:far", "v", "PX", 10_000);
      await raw("SET", "t:gone", "v", "PX", 250);
      const values = await lanes.getMany(["t:far", "t:gone"]);
      const inServer = Number(await raw("PTTL", "t:far"));
      const inCache = lifeLeft(lanes.handle(), "t:far");
      assert.equal(values[0], "v");
      between(0, inCache, inServer);
      // It was read 100 ms ago at least and arrived 200 ms later: its life is over.
      assert.equal(lifeLeft(lanes.handle(), "t:gone"), undefined);
      await lanes.close();
    } finally {
      await relay.stop();
    }
  });
});
