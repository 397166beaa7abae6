/** Reads from replicas that are loading, have lost their primary or never had its data. */
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";

import type { Keylane } from "keylane";
import type { SandboxNode } from "keylane/sandbox";

import { useC6 } from "../../support/fixtures.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes } from "../../support/lanes.js";
import { failure, Stub } from "../../support/stub.js";
import { nextEvent, until } from "../../support/until.js";

describe("T7: replicas of a cluster", () => {
  // Too little backlog for a partial resynchronisation.
  const c6 = useC6({ config: { "loading-process-events-interval-bytes": 1024, "repl-backlog-size": "16kb" } });

  /** Opens lanes that read from replicas, and writes enough for a replica to be slow in loading it. */
  async function setUp(): Promise<{
    lanes: Keylane<never>;
    keys: string[];
    replica: SandboxNode;
    check(): Promise<void>;
  }> {
    const cluster = c6.value;
    const primary = cluster.primaries[0]!;
    const replica = cluster.replicasOf(primary)[0]!;
    const lanes = (await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds, scaleReads: "replica" } },
      // A replica that is down so long that its cluster leaves it out of the map comes back with a later map.
      refreshIntervalMs: 1000,
    })) as unknown as Keylane<never>;
    const keys = await keysOn(cluster, primary, 2000);
    await Promise.all(keys.map((key) => lanes.set(key, `value of ${key}` as never)));
    await until(async () => (await replica.command("DBSIZE")) === (await primary.command("DBSIZE")));
    const some = keys.slice(0, 100);
    const expected = some.map((key) => `value of ${key}`);
    const check = async (): Promise<void> => assert.deepEqual(await lanes.getMany(some), expected);
    return { lanes, keys, replica, check };
  }

  it("T7: a replica is restarted while reads are spread: LOADING and empty data reach no caller; then it serves again", async () => {
    const { lanes, replica, check } = await setUp();
    await check();
    const down = nextEvent(lanes, "node:down");
    await replica.kill();
    replica.config = { "key-load-delay": 500 };
    await down;
    await check();
    await replica.start();
    let loading = 0;
    await until(
      async () => {
        await check();
        if ((await replica.info("persistence")).get("loading") === "1") loading += 1;
        return (await replica.info("replication")).get("master_link_status") === "up";
      },
      { timeoutMs: 20_000 },
    );
    assert.ok(loading > 0, "it was seen loading");
    await replica.command("CONFIG", "RESETSTAT");
    await until(async () => {
      await check();
      return (await callsOf(replica, "get")) > 0;
    });
    assert.equal(lanes.stats().domains["all"]!.failed, 0);
    replica.config = {};
  });

  it("T7: a replica whose first sync never finished is not asked; nil from it is not believed", async () => {
    const { lanes, replica, check } = await setUp();
    const down = nextEvent(lanes, "node:down");
    await replica.kill();
    rmSync(join(replica.dir, "dump.rdb"), { force: true });
    // Its primary asks for no password, so the handshake of replication never succeeds.
    replica.config = { masterauth: "nonsense" };
    await down;
    const up = nextEvent(lanes, "node:up");
    await replica.start();
    await up;
    assert.equal((await replica.info("replication")).get("master_link_status"), "down");
    assert.equal(await replica.command("DBSIZE"), 0);
    for (let round = 0; round < 50; round += 1) await check();
    assert.equal(await callsOf(replica, "get"), 0);
    await replica.kill();
    replica.config = {};
    await replica.start();
    await c6.value.waitHealthy();
    assert.equal(lanes.stats().domains["all"]!.failed, 0);
  });
});

/** A primary and a replica that says it is well. */
async function pair(): Promise<AsyncDisposable & { primary: Stub; replica: Stub; open(): Promise<Keylane<never>> }> {
  const [primary, replica] = [await Stub.start(), await Stub.start()];
  const nodes = [primary, replica].map(({ host, port }) => ({ host, port }));
  for (const stub of [primary, replica]) stub.ranges = [{ from: 0, to: 16_383, nodes }];
  primary.script("ROLE", ["master", 0, []]).script("GET", "from the primary");
  replica.script("ROLE", ["slave", primary.host, primary.port, "connected", 0]);
  const open = async (): Promise<Keylane<never>> =>
    (await openLanes({
      domains: { all: { prefixes: [""], nodes: [primary.address], scaleReads: "replica" } },
    })) as unknown as Keylane<never>;
  return {
    primary,
    replica,
    open,
    async [Symbol.asyncDispose]() {
      await Promise.all([primary.stop(), replica.stop()]);
    },
  };
}

describe("T7: scripted replicas", () => {
  for (const refusal of ["LOADING Redis is loading the dataset in memory", "MASTERDOWN Link with MASTER is down"]) {
    it(`T7: ${refusal.split(" ", 1)[0]}: the primary is asked within the deadline, the replica leaves the rotation`, async () => {
      await using rig = await pair();
      rig.replica.script("GET", failure(refusal));
      const lanes = await rig.open();
      await until(() => lanes.stats().domains["all"]!.nodes.every(({ state }) => state === "ready"));
      const values = await Promise.all(Array.from({ length: 20 }, () => lanes.get("k")));
      assert.deepEqual(new Set(values), new Set(["from the primary"]));
      const asked = rig.replica.calls("GET").length;
      assert.ok(asked > 0, "it was asked at first");
      assert.equal(await lanes.get("k"), "from the primary");
      assert.equal(rig.replica.calls("GET").length, asked, "and not again");
    });
  }

  it("T7: what a replica lacks is asked of the primary, before the replica is known to be broken and after", async () => {
    await using rig = await pair();
    const { primary, replica } = rig;
    const lanes = await rig.open();
    const ready = (): boolean => lanes.stats().domains["all"]!.nodes.every(({ state }) => state === "ready");
    await until(ready);
    replica.script("GET", null).script("EXISTS", 0).script("PTTL", -2);
    primary.script("EXISTS", 1, 0).script("PTTL", 5000);
    assert.equal(await lanes.get("k"), "from the primary");
    assert.deepEqual(await Promise.all([lanes.exists("k"), lanes.ttl("k")]), [true, 5000]);
    assert.equal(await lanes.exists("k"), false, "what the primary lacks is absent");
    assert.equal(replica.calls("GET").length, 1);
    replica.script("ROLE", ["slave", primary.host, primary.port, "connect", -1]);
    const asked = (): number => replica.calls("GET").length;
    await until(async () => {
      const before = asked();
      assert.equal(await lanes.get("k"), "from the primary");
      return asked() === before;
    });
    replica.script("ROLE", ["slave", primary.host, primary.port, "connected", 0]).script("GET", "from the replica");
    await until(async () => (await lanes.get("k")) === "from the replica", { what: "it serves again" });
  });

  it("T7: a replica that hangs is given no more reads, and those it owes are asked of the primary in time", async () => {
    await using rig = await pair();
    const lanes = await rig.open();
    await until(() => lanes.stats().domains["all"]!.nodes.every(({ state }) => state === "ready"));
    rig.replica.script("GET", undefined);
    const values = await Promise.all(Array.from({ length: 20 }, () => lanes.get("k")));
    assert.deepEqual(new Set(values), new Set(["from the primary"]));
    assert.equal(lanes.stats().domains["all"]!.failed, 0);
  });
});
