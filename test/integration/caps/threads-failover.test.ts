/** Denials shared by threads; counts after a failover; counts that a replica has confirmed. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import type { Cap, CapsResult } from "keylane";
import { nativeInfo } from "keylane";
import { capsOptions } from "../../support/caps.js";
import type { CapsRequest } from "../../support/caps-thread.js";
import { useC3, useC6 } from "../../support/fixtures.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { until } from "../../support/until.js";

const HOUR = 3_600_000;
const list: readonly Cap[] = [
  { name: "a", limit: 2, windowMs: HOUR },
  { name: "b", limit: 5, windowMs: HOUR, sliding: true },
];

describe("caps in threads", () => {
  const c3 = useC3();

  it("a denial costs no call in any thread; a refund in one is heard of in all", async () => {
    const lanes = await openLanes(capsOptions(c3.value.seeds));
    const worker = new Worker(new URL("../../support/caps-thread.js", import.meta.url), {
      workerData: { handle: lanes.handle() },
    });
    after(() => worker.terminate());
    await once(worker, "message");
    const ask = async (call: CapsRequest["call"], id: string): Promise<unknown> => {
      worker.postMessage({ call, user: "u", caps: list, id } satisfies CapsRequest, []);
      return ((await once(worker, "message")) as [unknown])[0];
    };
    await lanes.caps.take("u", list, { id: "1" });
    await ask("take", "2");
    assert.equal((await lanes.caps.take("u", list, { id: "3" })).source, "redis");
    const calls = async (): Promise<number> => {
      const each = await Promise.all(c3.value.primaries.map((node) => callsOf(node, "evalsha")));
      return each.reduce((sum, one) => sum + one, 0);
    };
    const before = await calls();
    const shared = nativeInfo().kind === "rust";
    const denied = (await ask("take", "4")) as CapsResult;
    assert.deepEqual([denied.allowed, denied.source], [false, shared ? "cache" : "redis"]);
    for (let i = 0; i < 100; i += 1) assert.equal((await lanes.caps.take("u", list)).source, "cache");
    assert.equal(await calls(), before + (shared ? 0 : 1));
    assert.equal(await ask("refund", "1"), true);
    if (shared) {
      assert.equal((await lanes.caps.take("u", list, { id: "5" })).allowed, true);
      assert.equal(((await ask("take", "6")) as CapsResult).allowed, false);
      assert.equal(await lanes.caps.refund("u", list, { id: "5" }), true);
      assert.equal(((await ask("take", "7")) as CapsResult).allowed, true);
    }
    assert.equal(await ask("close", ""), "closed");
  });
});

describe("caps and replicas", () => {
  const c6 = useC6();

  it("counts that the new primary lacks are raised again, never lowered, once", async () => {
    const cluster = c6.value;
    const lanes = await openLanes(capsOptions(cluster.seeds, { onError: "throw" }, { refreshMinimumMs: 50 }));
    const primary = cluster.primaries[0]!;
    const heir = cluster.replicasOf(primary)[0]!;
    const [user] = (await keysOn(cluster, primary, 1)) as [string];
    const hash = `fc:caps:{${user}}`;
    await lanes.caps.take(user, list, { id: "1" });
    await lanes.caps.take(user, list, { id: "2" });
    await heir.command("READONLY");
    await until(async () => (await heir.command("EXISTS", hash)) === 1);
    await cluster.failover(heir);
    // What a real failover may do: the last count is missing.
    const fields = (await heir.command("HGETALL", hash)) as string[];
    for (let at = 0; at < fields.length; at += 2) {
      if (/^[fs]/.test(fields[at]!))
        await heir.command("HSET", hash, fields[at]!, fields[at + 1]!.replace(/:2$/, ":1"));
    }
    await lanes.get(`fc:{${user}}`);
    await until(() => lanes.route(hash).node === heir.address);
    const result = await lanes.caps.take(user, list, { id: "3" });
    assert.deepEqual([result.allowed, result.caps.map(({ used }) => used)], [false, [2, 2]]);
    assert.equal(lanes.stats().caps.repaired, 2);
    assert.equal(await lanes.caps.refund(user, list, { id: "2" }), true);
    assert.deepEqual(
      (await lanes.caps.check(user, list)).caps.map(({ used }) => used),
      [1, 1],
    );
    assert.equal(lanes.stats().caps.repaired, 2);
  });

  it("counters of takeKey that the new primary lacks are raised again, never lowered, and keep their windows", async () => {
    const cluster = c6.value;
    const lanes = await openLanes(capsOptions(cluster.seeds, { onError: "throw" }, { refreshMinimumMs: 50 }));
    const primary = cluster.primaries[2]!;
    const heir = cluster.replicasOf(primary)[0]!;
    const [tag] = (await keysOn(cluster, primary, 1)) as [string];
    const [behind, lost, ahead] = ["behind", "lost", "ahead"].map((name) => `fc:{${tag}}:${name}`) as [
      string,
      string,
      string,
    ];
    const take = (key: string, limit: number): Promise<CapsResult> =>
      lanes.caps.takeKey(key, { limit, windowMs: HOUR });
    for (const key of [behind, lost, ahead]) for (let i = 0; i < 2; i += 1) await take(key, 9);
    await heir.command("READONLY");
    await until(async () => (await heir.command("GET", ahead)) === "2");
    await cluster.failover(heir);
    // What a real failover may do: counts are missing. And others may have counted before this process knows.
    await heir.command("SET", behind, "1", "KEEPTTL");
    await heir.command("DEL", lost);
    await heir.command("INCRBY", ahead, 3);
    await lanes.get(behind);
    await until(() => lanes.route(behind).node === heir.address);
    const denied = await take(behind, 2);
    assert.deepEqual([denied.allowed, denied.caps[0]!.used], [false, 2]);
    assert.equal((await take(lost, 9)).caps[0]!.used, 3);
    assert.equal((await take(ahead, 9)).caps[0]!.used, 6);
    assert.equal((await take(lost, 9)).caps[0]!.used, 4, "raised once");
    assert.equal(lanes.stats().caps.repaired, 2);
    for (const key of [behind, lost, ahead]) {
      const ttl = await lanes.ttl(key);
      assert.ok(ttl !== null && ttl > HOUR - 60_000 && ttl <= HOUR, `${key}: ${ttl}`);
    }
  });

  it("strict: a count is told once a replica holds it, else it is an error", async () => {
    const cluster = c6.value;
    const lanes = await openLanes(capsOptions(cluster.seeds, { strict: true, onError: "throw" }));
    const primary = cluster.primaries[1]!;
    const replica = cluster.replicasOf(primary)[0]!;
    const [user] = (await keysOn(cluster, primary, 1)) as [string];
    const hash = `fc:caps:{${user}}`;
    assert.equal((await lanes.caps.take(user, list)).allowed, true);
    await replica.command("READONLY");
    assert.equal(await replica.command("EXISTS", hash), 1);
    const many = await Promise.all(Array.from({ length: 20 }, () => lanes.caps.take(user, list)));
    assert.equal(many.filter(({ allowed }) => allowed).length, 1);
    replica.pause();
    after(() => replica.resume());
    const other: Cap[] = [{ name: "c", limit: 9, windowMs: HOUR }];
    await rejection(lanes.caps.take(user, other), "KEYLANE_ERR_NOREPLICAS", { outcome: "unknown" });
    replica.resume();
    assert.equal((await lanes.caps.check(user, other)).caps[0]!.used, 1);
  });
});
