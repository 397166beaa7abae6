/** Hot keys on a real cluster: found, reported, served from the shared cache in all threads, and let go. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane } from "keylane";
import type { HotKeyEvent, HotKeyRecoveredEvent, HotKeysOptions, OpenOptions } from "keylane";
import type { SandboxNode } from "keylane/sandbox";

import { CacheThreads } from "../../support/cache-threads.js";
import { useC3 } from "../../support/fixtures.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes, thrown } from "../../support/lanes.js";
import { until } from "../../support/until.js";

const c3 = useC3();

/** Low thresholds: what is tested is not how fast this machine is. */
const LOW: HotKeysOptions = { warn: 1000, critical: 4000 };

function optionsOf(mode: "all" | "hot" | "off", more: Partial<OpenOptions> = {}): OpenOptions {
  const domain = { nodes: c3.value.seeds, prefixes: [""], cache: { mode } };
  return { domains: { all: domain }, hotKeys: LOW, commandTimeoutMs: 10_000, ...more };
}

/** Reads a key `perTurn` times, again and again, until `stop` says so. Resolves with how many reads there were. */
async function drive(lanes: Keylane, key: string, stop: () => boolean, perTurn = 50): Promise<number> {
  let reads = 0;
  while (!stop()) {
    const values = await Promise.all(Array.from({ length: perTurn }, () => lanes.get(key)));
    assert.ok(values.every((value) => value === "value"));
    reads += perTurn;
    await sleep(2);
  }
  return reads;
}

/** Drives a key until an event tells that it is hot, at least at `level`. */
async function heat(lanes: Keylane, key: string, level: "warn" | "critical"): Promise<HotKeyEvent[]> {
  const events: HotKeyEvent[] = [];
  const hear = (event: HotKeyEvent): void => void (event.key === key && events.push(event));
  lanes.on("hotkey", hear);
  await drive(lanes, key, () => events.some((event) => event.level === level));
  lanes.off("hotkey", hear);
  return events;
}

const recovery = (lanes: Keylane): Promise<[HotKeyRecoveredEvent]> =>
  once(lanes, "hotkey:recovered", { signal: AbortSignal.timeout(15_000) }) as Promise<[HotKeyRecoveredEvent]>;

/** A key of a node, with a value, and the node's statistics reset. */
async function keyOn(lanes: Keylane, node: SandboxNode, count = 1): Promise<string[]> {
  const keys = await keysOn(c3.value, node, count);
  for (const key of keys) await lanes.set(key, "value");
  return keys;
}

describe("hot keys", () => {
  it("is reported by level, served from L1 in mode hot, and let go when it is silent", async () => {
    const lanes = await openLanes(optionsOf("hot"));
    const node = c3.value.nodes[0]!;
    const [key] = (await keyOn(lanes, node)) as [string];
    const events = await heat(lanes, key, "critical");
    // A window that comes late may find the key at the second level at once.
    const levels = events.length === 1 ? ["critical"] : ["warn", "critical"];
    assert.deepEqual(
      events.map(({ level, action, domain, node: at }) => ({ level, action, domain, at })),
      levels.map((level) => ({ level, action: "l1", domain: "all", at: node.address })),
    );
    assert.ok(events[0]!.rate >= 950 && events.at(-1)!.rate >= 3800);
    const before = await callsOf(node, "get");
    const end = performance.now() + 1000;
    const reads = await drive(lanes, key, () => performance.now() > end);
    const asked = (await callsOf(node, "get")) - before;
    assert.ok(asked <= Math.max(3, reads / 100), `${asked} of ${reads} reads reached the server`);
    const [listed] = lanes.hotKeys.list();
    const { rate, upper, peak, hotMs, stateMs, ...rest } = listed!;
    assert.ok(rate > 0 && upper >= rate && peak >= rate && hotMs >= stateMs && stateMs >= 0);
    assert.deepEqual(rest, {
      key,
      domain: "all",
      node: node.address,
      state: "hot",
      level: "critical",
      action: "l1",
      replicas: [],
      valueBytes: 5,
      big: false,
      pinned: false,
      remote: false,
    });
    assert.equal(lanes.hotKeys.top(5).find((top) => top.key === key)?.domain, "all");
    const stopped = performance.now();
    const [recovered] = await recovery(lanes);
    const silentMs = performance.now() - stopped;
    assert.ok(silentMs >= 5000, `let go after ${silentMs} ms`);
    assert.equal(recovered.key, key);
    assert.equal(recovered.action, "l1");
    assert.equal(recovered.level, "critical");
    assert.ok(recovered.hotMs > 5000);
    await until(() => lanes.hotKeys.list().length === 0);
    assert.equal(lanes.peek(key), undefined, "nothing of it is left in the cache");
    const again = await callsOf(node, "get");
    assert.equal(await lanes.get(key), "value");
    assert.equal(await lanes.get(key), "value");
    assert.equal(await callsOf(node, "get"), again + 2, "reads go to the server again");
    const { counting, reason, hits, keys, critical, reported, refused } = lanes.stats().hotKeys;
    assert.deepEqual(
      { counting, reason, keys, critical, reported, refused },
      { counting: true, reason: null, keys: 0, critical: 0, reported: levels.length, refused: 0 },
    );
    assert.ok(hits > reads);
  });

  for (const threads of [0, 1]) {
    it(`a thread that attached counts and acts too (threads: ${threads})`, async () => {
      const lanes = await openLanes(optionsOf("hot", { threads }));
      const node = c3.value.nodes[1]!;
      const [key] = (await keyOn(lanes, node)) as [string];
      await using guests = await CacheThreads.start(lanes.handle(), 2);
      const [one, other] = guests.all;
      const told = once(lanes, "hotkey") as Promise<[HotKeyEvent]>;
      await until(async () => {
        await one!.calls(100, "get", key).answers;
        return lanes.hotKeys.stats().reported > 0;
      });
      assert.equal((await told)[0].key, key);
      await until(async () => {
        await other!.call("get", key);
        return (await other!.call("peek", key)) === "value";
      });
      const before = await callsOf(node, "get");
      const answers = await Promise.all(guests.all.map((guest) => guest.calls(500, "get", key).answers));
      assert.ok(answers.flat().every((answer) => "value" in answer && answer.value === "value"));
      const asked = (await callsOf(node, "get")) - before;
      assert.ok(asked <= 10, `${asked} of 1,000 reads reached the server`);
    });
  }

  it("a write to a hot key is seen at once in every thread", async () => {
    const lanes = await openLanes(optionsOf("hot"));
    const [key] = (await keyOn(lanes, c3.value.nodes[2]!)) as [string];
    await using guests = await CacheThreads.start(lanes.handle(), 1);
    const [guest] = guests.all;
    lanes.hotKeys.pin(key);
    assert.equal(lanes.hotKeys.list()[0]?.pinned, true);
    for (let n = 0; n < 50; n += 1) {
      await lanes.set(key, `${n}`);
      assert.equal(await guest!.call("get", key), `${n}`);
      assert.equal(await lanes.get(key), `${n}`);
    }
    assert.notEqual(lanes.peek(key), undefined);
    assert.equal(lanes.hotKeys.unpin(key), true);
    assert.equal(lanes.peek(key), undefined);
    assert.equal(lanes.hotKeys.unpin(key), false);
    assert.deepEqual(lanes.hotKeys.list(), []);
  });

  it("lists keep their hands off keys: reported, not cached", async () => {
    const lanes = await openLanes(optionsOf("hot", { hotKeys: { ...LOW, deny: ["k"] } }));
    const node = c3.value.nodes[0]!;
    const [key] = (await keyOn(lanes, node)) as [string];
    const [event] = await heat(lanes, key, "warn");
    assert.equal(event?.action, "none");
    assert.equal(lanes.hotKeys.list()[0]?.action, "none");
    const before = await callsOf(node, "get");
    await Promise.all(Array.from({ length: 100 }, () => lanes.get(key)));
    assert.equal((await callsOf(node, "get")) - before, 100);
  });

  it("a value over 64 KiB is told as big, and not cached", async () => {
    const lanes = await openLanes(optionsOf("hot", { hotKeys: { ...LOW, replicas: false } }));
    const [key] = (await keyOn(lanes, c3.value.nodes[0]!)) as [string];
    await heat(lanes, key, "warn");
    await lanes.set(key, "x".repeat(70_000));
    lanes.hotKeys.pin("k-big");
    await lanes.set("k-big", "x".repeat(70_000));
    lanes.hotKeys.unpin("k-big");
    lanes.hotKeys.pin("k-big");
    const big = await until(() => lanes.hotKeys.list().find(({ valueBytes }) => valueBytes === 70_000));
    assert.equal(big.key, "k-big");
    assert.equal(big.big, true);
    assert.equal(big.action, "none");
  });

  it("H3: retries, refreshes and what keylane does by itself are no hits", async () => {
    const refreshed = { ttlMs: 400, refreshAfterMs: 20 };
    const lanes = await openLanes({
      domains: {
        cached: { nodes: c3.value.seeds, prefixes: ["k"], cache: { mode: "all", ...refreshed } },
        plain: { nodes: c3.value.seeds, prefixes: [""] },
      },
      refreshIntervalMs: 100,
      commandTimeoutMs: 10_000,
    });
    const [node, target] = c3.value.nodes as [SandboxNode, SandboxNode];
    const [key] = (await keysOn(c3.value, node, 1)) as [string];
    await lanes.set(key, "value");
    const { slot } = lanes.route(key);
    const moved = `plain{${key}}`;
    await lanes.set(moved, "0");
    /** `untold`: hits of a thread's own map that wait for more. */
    const counted = async (act: () => Promise<number>, untold = 0): Promise<void> => {
      await sleep(250);
      const before = lanes.hotKeys.stats().hits;
      const calls = await act();
      await until(() => lanes.hotKeys.stats().hits >= before + calls - untold);
      await sleep(250);
      const hits = lanes.hotKeys.stats().hits - before;
      assert.ok(hits <= calls && hits >= calls - untold, `${hits} hits, ${calls} calls`);
    };
    const { loads } = lanes.stats().cache!;
    await counted(async () => {
      for (let n = 0; n < 400; n += 1) {
        assert.equal(await lanes.get(key), "value");
        await sleep(1);
      }
      return 400;
    }, 31);
    assert.ok(lanes.stats().cache!.loads > loads, "there were refreshes");
    await counted(async () => 0);
    const retries = (): number => lanes.stats().domains["plain"]!.retries;
    const before = retries();
    await counted(async () => {
      const sums = Array.from({ length: 100 }, () => lanes.incrBy(moved));
      const moving = c3.value.moveSlots([slot], node, target);
      for (let n = 0; n < 400 || retries() === before; n += 1) {
        sums.push(lanes.incrBy(moved));
        await new Promise(setImmediate);
      }
      await moving;
      assert.equal((await Promise.all(sums)).at(-1), sums.length);
      return sums.length;
    });
    assert.ok(retries() > before, "there were redirections");
    await c3.value.moveSlots([slot], target, node);
  });

  it("turned off, nothing is counted and nothing is found; a domain can be left out", async () => {
    const off = await openLanes(optionsOf("hot", { hotKeys: false }));
    assert.equal(off.handle().hot, null);
    assert.deepEqual(off.hotKeys.list(), []);
    assert.deepEqual(off.hotKeys.top(), []);
    assert.equal(off.hotKeys.stats().counting, false);
    assert.equal(off.hotKeys.stats().reason, "the options turn hot keys off");
    thrown(() => off.hotKeys.pin("k"), "KEYLANE_ERR_ARGUMENT", { message: /turn hot keys off/ });
    const nodes = c3.value.seeds;
    const some = await openLanes({
      domains: { on: { nodes, prefixes: ["on:"] }, off: { nodes, prefixes: ["off:"], hotKeys: false } },
      hotKeys: LOW,
    });
    const told = once(some, "hotkey", { signal: AbortSignal.timeout(5000) }) as Promise<[HotKeyEvent]>;
    await Promise.all(Array.from({ length: 3000 }, () => some.get("off:1")));
    await Promise.all(Array.from({ length: 3000 }, () => some.get("on:1")));
    const [event] = await told;
    assert.equal(event.key, "on:1");
    assert.equal(some.hotKeys.stats().hits, 3000);
    thrown(() => some.hotKeys.pin("off:1"), "KEYLANE_ERR_ARGUMENT", { message: /no domain that has hot keys/ });
    thrown(() => some.hotKeys.pin("none"), "KEYLANE_ERR_ARGUMENT", { message: /no domain that has hot keys/ });
    thrown(() => some.hotKeys.pin("on:1", { replicas: -1 }), "KEYLANE_ERR_ARGUMENT");
    thrown(() => some.hotKeys.pin(Buffer.from("on:1") as never), "KEYLANE_ERR_ARGUMENT");
    thrown(() => some.hotKeys.top(0), "KEYLANE_ERR_ARGUMENT");
  });

  it("a handle whose memories are something else is refused", async () => {
    const lanes = await openLanes(optionsOf("off"));
    const handle = lanes.handle();
    const { set, hits } = handle.hot!;
    const odd: unknown[] = [{ set: hits, hits }, { set, hits: new ArrayBuffer(8) }, { set, hits: set }, {}];
    for (const hot of odd) {
      await assert.rejects(Keylane.attach({ ...handle, hot } as never), { code: "KEYLANE_ERR_ARGUMENT" });
    }
    const guest = await Keylane.attach(handle);
    assert.deepEqual(guest.hotKeys.list(), []);
    assert.equal(guest.hotKeys.stats().counting, true);
    thrown(() => guest.hotKeys.pin("k"), "KEYLANE_ERR_ARGUMENT", { message: /only the thread that opened/ });
    await guest.close();
  });
});
