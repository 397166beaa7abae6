/** From the first read to the last trace: a key that is read too much for one node is copied, and let go. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { beforeEach, describe, it } from "node:test";

import type { HotKeyEvent, Keylane, OpenOptions } from "keylane";

import { useC3 } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes } from "../../support/lanes.js";
import { leftovers } from "../../support/replicated.js";
import { until } from "../../support/until.js";

const c3 = useC3();
const KEY = "up:hot";
beforeEach(async () => {
  for (const node of c3.value.primaries) await node.command("FLUSHALL");
});

/** How long the balance is measured. */
const MEASURED_MS = 1000 * Number(process.env["KEYLANE_HOT_SECONDS"] ?? 1);

function optionsOf(cache: "off" | "all" | "hot", more: Partial<OpenOptions> = {}): OpenOptions {
  return {
    domains: { users: { prefixes: ["up:"], nodes: c3.value.seeds, cache: { mode: cache } } },
    // Low, as what is tested is not how fast this machine is.
    hotKeys: { warn: 1000, critical: 3000, nodeLimit: 1000 },
    commandTimeoutMs: 10_000,
    ...more,
  };
}

/** Reads a key until `stop` says so. */
async function drive(lanes: Keylane, key: string, value: string, stop: () => boolean): Promise<void> {
  const loop = async (): Promise<void> => {
    while (!stop()) assert.equal(await lanes.get(key), value);
  };
  await Promise.all(Array.from({ length: 32 }, loop));
}

/** The life of hot keys, each with its value, of which no other key of the instance is read. */
async function runs(options: OpenOptions, values: Readonly<Record<string, string>>): Promise<void> {
  const lanes = (await openLanes(options)) as unknown as Keylane;
  const keys = Object.keys(values);
  const told = new Map<string, HotKeyEvent>();
  const recovered: string[] = [];
  lanes.on("hotkey", (event) => told.set(event.key, event));
  lanes.on("hotkey:recovered", ({ key }) => recovered.push(key));
  let stopped = false;
  const driving: Promise<void>[] = [];
  for (const key of keys) {
    await lanes.set(key, values[key]!);
    driving.push(drive(lanes, key, values[key]!, () => stopped));
  }
  const copied = (): number => lanes.hotKeys.list().filter(({ replicas }) => replicas.length === 2).length;
  await until(() => copied() === keys.length, { what: "copies of each" });
  for (const node of c3.value.primaries) await node.command("CONFIG", "RESETSTAT");
  const end = performance.now() + MEASURED_MS;
  await until(() => performance.now() >= end, { timeoutMs: MEASURED_MS + 10_000 });
  const calls = await Promise.all(c3.value.primaries.map((node) => callsOf(node, "get")));
  stopped = true;
  await Promise.all(driving);
  const mean = calls.reduce((sum, count) => sum + count, 0) / calls.length;
  assert.ok(
    calls.every((count) => count > mean / 1.3 && count < mean * 1.3),
    `${calls.join()}: not even`,
  );
  for (const key of keys) {
    const { level, action } = told.get(key)!;
    assert.deepEqual({ level, action }, { level: "critical", action: "replicas" });
    // Reads of copies are the original's hits, and copies have none of their own.
    const { peak } = lanes.hotKeys.list().find((listed) => listed.key === key)!;
    assert.ok(peak > 3000, `${peak}`);
  }
  const top = lanes.hotKeys.top().map(({ key }) => key);
  assert.deepEqual(top.toSorted(), keys.toSorted());
  await until(() => recovered.length === keys.length && lanes.hotKeys.list().length === 0, { timeoutMs: 20_000 });
  const mine = (key: string): boolean => keys.includes(key);
  await until(async () => (await leftovers(c3.value, mine)).length === 0, { what: "nothing left" });
  for (const node of c3.value.primaries) {
    const clients = String(await node.command("CLIENT", "LIST"));
    assert.ok(!/name=\S+-hot /.test(clients), "nobody listens any more");
  }
  for (const key of keys) assert.equal(await lanes.get(key), values[key]!);
}

describe("a hot key", () => {
  it("of a domain without cache: its nodes' loads become even, and nothing is left when it is silent", async () => {
    await runs(optionsOf("off"), { [KEY]: "value" });
  });

  it("too long for the cache of its domain", async () => {
    const nodes = c3.value.seeds;
    const domains = {
      all: { prefixes: ["up:"], nodes, cache: { mode: "all" } },
      hot: { prefixes: ["hot:"], nodes, cache: { mode: "hot" } },
    } as const;
    const value = "0123456789abcdef".repeat(2048);
    await runs({ ...optionsOf("off"), domains }, { [KEY]: value, "hot:1": value });
  });

  it("of a cached domain, pinned with copies: it is answered from the cache all the same", async () => {
    const lanes = (await openLanes(optionsOf("hot"))) as unknown as Keylane;
    await lanes.set(KEY, "v");
    lanes.hotKeys.pin(KEY, { replicas: 2 });
    await until(async () => (await leftovers(c3.value, (key) => key === KEY)).length === 2);
    await until(async () => (await lanes.get(KEY)) === "v" && lanes.peek(KEY) === "v");
    for (const node of c3.value.primaries) await node.command("CONFIG", "RESETSTAT");
    for (let i = 0; i < 50; i += 1) assert.equal(await lanes.get(KEY), "v");
    const calls = await Promise.all(c3.value.primaries.map((node) => callsOf(node, "get")));
    assert.ok(
      calls.every((count) => count < 10),
      calls.join(),
    );
    await lanes.set(KEY, "w");
    assert.equal(await lanes.get(KEY), "w");
  });

  it("pinned with copies has them whatever its rate, until it is not pinned any more", async () => {
    const lanes = (await openLanes(optionsOf("off"))) as unknown as Keylane;
    await lanes.set(KEY, "1");
    lanes.hotKeys.pin(KEY, { replicas: 2 });
    await until(() => lanes.hotKeys.list()[0]?.replicas.length === 2);
    for (let i = 0; i < 20; i += 1) {
      await lanes.incrBy(KEY);
      assert.deepEqual(new Set(await lanes.getMany([KEY, KEY, KEY])), new Set([`${i + 2}`]));
    }
    assert.equal(lanes.hotKeys.unpin(KEY), true);
    await until(async () => (await leftovers(c3.value, (key) => key === KEY)).length === 0);
    assert.deepEqual(lanes.hotKeys.list(), []);
  });

  it("is let go when keylane closes", async () => {
    const lanes = (await openLanes(optionsOf("off"))) as unknown as Keylane;
    await lanes.set(KEY, "v");
    lanes.hotKeys.pin(KEY, { replicas: 2 });
    await until(async () => (await leftovers(c3.value, (key) => key === KEY)).length === 2);
    await lanes.close();
    assert.deepEqual(await leftovers(c3.value, (key) => key === KEY), []);
  });

  it("is not copied where the options say so", async () => {
    const hotKeys = { warn: 1000, critical: 3000, nodeLimit: 1000, replicas: false };
    const lanes = (await openLanes(optionsOf("off", { hotKeys }))) as unknown as Keylane;
    await lanes.set(KEY, "v");
    const heard = once(lanes, "hotkey");
    let stopped = false;
    const driving = drive(lanes, KEY, "v", () => stopped);
    const [{ action }] = (await heard) as [HotKeyEvent];
    await until(() => lanes.hotKeys.list()[0]!.level === "critical");
    stopped = true;
    await driving;
    assert.equal(action, "none");
    assert.deepEqual(lanes.hotKeys.list()[0]!.replicas, []);
  });
});
