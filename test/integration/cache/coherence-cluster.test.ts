/** Coherence while a cluster changes: whoever owns a key's slot, its changes by others are heard of. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import type { Keylane } from "keylane";
import type { SandboxNode } from "keylane/sandbox";

import { useC6 } from "../../support/fixtures.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes } from "../../support/lanes.js";
import { until } from "../../support/until.js";

const c6 = useC6();

function open(cache: object = {}, more: object = {}) {
  return openLanes({
    domains: { all: { prefixes: [""], nodes: c6.value.seeds, cache: { mode: "all", ...cache }, ...more } },
    commandTimeoutMs: 5000,
    refreshIntervalMs: 300,
    refreshMinimumMs: 100,
  }) as unknown as Promise<Keylane>;
}

/** Another client's writes to a cached key drop it, and what is read next is what was written. */
async function follows(lanes: Keylane, owner: SandboxNode, key: string, times: number): Promise<void> {
  for (let i = 0; i < times; i += 1) {
    const value = `${owner.address} ${i} ${performance.now()}`;
    await lanes.get(key);
    await until(() => lanes.peek(key) !== undefined);
    await owner.command("SET", key, value);
    await until(() => lanes.peek(key) === undefined, { everyMs: 1, what: `write ${i} to be heard of` });
    assert.equal(await lanes.get(key), value);
    // A node that was the owner before may tell of the same change, later: that drops the new value once more.
    await until(async () => (await lanes.get(key)) === value && lanes.peek(key) === value);
  }
}

describe("failovers", () => {
  for (const mode of ["graceful", "force"] as const) {
    it(`${mode}: what the old primary fed is not kept, and the new one tells of changes`, async () => {
      const cluster = c6.value;
      const lanes = await open();
      const primary = cluster.primaries[0]!;
      const heir = cluster.replicasOf(primary)[0]!;
      const [key, untouched] = (await keysOn(cluster, primary, 2)) as [string, string];
      await primary.command("SET", untouched, "v");
      await lanes.get(untouched);
      await follows(lanes, primary, key, 2);
      await cluster.failover(heir, mode);
      const value = `written after ${mode}`;
      await heir.command("SET", key, value);
      await until(() => lanes.peek(key) === undefined, { everyMs: 1 });
      assert.equal(await lanes.get(key), value);
      await until(() => lanes.route(key).node === heir.address);
      await follows(lanes, heir, key, 3);
      await heir.command("SET", untouched, "new");
      await until(async () => (await lanes.get(untouched)) === "new");
      await follows(lanes, heir, untouched, 2);
      assert.equal(lanes.stats().cache!.staleness, "tracked");
    });
  }

  it("a primary that hangs: what it fed goes within the bound, its heir tells of changes", async () => {
    const cluster = c6.value;
    const lanes = await open();
    const primary = cluster.primaries[0]!;
    const heir = cluster.replicasOf(primary)[0]!;
    const [key] = (await keysOn(cluster, primary, 1)) as [string];
    await follows(lanes, primary, key, 1);
    primary.pause();
    try {
      await until(() => lanes.peek(key) === undefined, { timeoutMs: lanes.stats().cache!.stalenessBoundMs + 500 });
      await until(async () => (await heir.info("replication")).get("role") === "master", { timeoutMs: 20_000 });
      await heir.command("SET", key, "written meanwhile");
      await until(async () => (await lanes.get(key)) === "written meanwhile");
      await follows(lanes, heir, key, 2);
    } finally {
      primary.resume();
      await cluster.waitHealthy();
    }
  });
});

describe("slot moves", () => {
  it("a moved key is dropped, its new owner tells of changes; what is known absent does not outlive the move", async () => {
    const cluster = c6.value;
    const lanes = await open({ negativeTtlMs: 600_000 });
    const [from, to] = cluster.primaries as [SandboxNode, SandboxNode];
    const [key] = (await keysOn(cluster, from, 1)) as [string];
    const absent = `absent{${key}}`;
    const steady = (await keysOn(cluster, to, 1))[0]!;
    await follows(lanes, from, key, 2);
    await to.command("SET", steady, "v");
    assert.deepEqual(await lanes.getMany([absent, steady]), [null, "v"]);
    const { slot } = lanes.route(key);
    assert.equal(lanes.route(absent).slot, slot);
    await cluster.moveSlots([slot], from, to);
    await until(() => lanes.peek(key) === undefined);
    await to.command("SET", absent, "created there");
    await until(() => lanes.peek(absent) === undefined);
    assert.equal(await lanes.get(absent), "created there");
    assert.equal(lanes.route(key).node, to.address);
    assert.equal(lanes.peek(steady), "v", "the new owner's keys stay");
    await follows(lanes, to, key, 3);
    await follows(lanes, to, absent, 2);
  });

  it("keys of a slot that is half moved follow changes on both sides", async () => {
    const cluster = c6.value;
    const lanes = await open({ negativeTtlMs: 600_000 });
    const [, from, to] = cluster.primaries as [SandboxNode, SandboxNode, SandboxNode];
    const [key] = (await keysOn(cluster, from, 1)) as [string];
    const { slot } = lanes.route(key);
    await follows(lanes, from, key, 1);
    const move = await cluster.beginMove(slot, from, to);
    await follows(lanes, from, key, 1);
    await from.command("MIGRATE", to.host, to.port, key, 0, 5000);
    await until(() => lanes.peek(key) === undefined, { everyMs: 1 });
    for (let i = 0; i < 3; i += 1) {
      const value = (await lanes.get(key)) as string;
      assert.equal(lanes.peek(key), value, "read by ASK, and cached");
      const client = await to.client();
      const [, set] = await Promise.all([client.command("ASKING"), client.command("SET", key, `asked ${i}`)]);
      assert.equal(String(set), "OK");
      client.close();
      await until(() => lanes.peek(key) === undefined, { everyMs: 1 });
      assert.equal(await lanes.get(key), `asked ${i}`);
    }
    await move.finish();
    await until(async () => (await lanes.get(key)) === "asked 2" && lanes.route(key).node === to.address);
    await follows(lanes, to, key, 2);
  });
});

describe("reads from replicas", () => {
  it("replicas tell of the changes of what they gave, also after a failover", async () => {
    const cluster = c6.value;
    const lanes = await open({}, { scaleReads: "replica" });
    const primary = cluster.primaries[0]!;
    const replica = cluster.replicasOf(primary)[0]!;
    const [key] = (await keysOn(cluster, primary, 1)) as [string];
    await primary.command("SET", key, "v");
    await until(async () => (await replica.info("replication")).get("master_link_status") === "up");
    const idle = await callsOf(replica, "get");
    await until(async () => {
      lanes.invalidate(key);
      return (await lanes.get(key)) === "v" && (await callsOf(replica, "get")) > idle;
    });
    const before = await callsOf(replica, "get");
    await follows(lanes, primary, key, 10);
    assert.ok((await callsOf(replica, "get")) - before >= 10, "the replica was asked");
    await lanes.set(key, "own" as never);
    await until(async () => (await lanes.get(key)) === "own" && lanes.peek(key) === "own");
    await cluster.failover(replica);
    await replica.command("SET", key, "promoted");
    await until(async () => (await lanes.get(key)) === "promoted");
    await follows(lanes, replica, key, 5);
  });
});
