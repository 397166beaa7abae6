/** Primaries that die, are demoted or are replaced: who notices, who does not, and how soon the calls go on. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import type { Keylane, KeylaneError } from "keylane";
import { startCluster, startSingle } from "keylane/sandbox";
import type { SandboxCluster, SandboxNode } from "keylane/sandbox";

import { useC6 } from "../../support/fixtures.js";
import { Gate } from "../../support/gate.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { Stub, type StubReply } from "../../support/stub.js";
import { nextEvent, until } from "../../support/until.js";

/** Counts how the calls of each shard end, 50 in flight a shard, while `during` runs. */
async function underLoad(
  lanes: Keylane<never>,
  shards: readonly (readonly string[])[],
  during: () => Promise<void>,
): Promise<Map<string, number>[]> {
  const phase = { over: false };
  const endings = shards.map(() => new Map<string, number>());
  const workers = shards.flatMap((keys, shard) =>
    Array.from({ length: 50 }, async (_, worker) => {
      const key = keys[worker % keys.length]!;
      while (!phase.over) {
        const call: Promise<unknown> = worker % 2 === 0 ? lanes.get(key) : lanes.incrBy(key);
        const ending = await call.then(
          () => "ok",
          (error: KeylaneError) => error.code,
        );
        endings[shard]!.set(ending, (endings[shard]!.get(ending) ?? 0) + 1);
      }
    }),
  );
  await during();
  phase.over = true;
  await Promise.all(workers);
  return endings;
}

async function connectionsOf(node: SandboxNode): Promise<number> {
  return Number((await node.info("stats")).get("total_connections_received"));
}

async function setUp(coverage: "yes" | "no"): Promise<[SandboxCluster, Keylane<never>, string[][]]> {
  const cluster = await startCluster({ config: { "cluster-require-full-coverage": coverage } });
  const lanes = await openLanes({
    domains: { all: { prefixes: [""], nodes: cluster.seeds } },
    commandTimeoutMs: 500,
    // The load makes keys hot, and copies are made over connections of their own.
    hotKeys: false,
  });
  const shards = await Promise.all(cluster.primaries.map((node) => keysOn(cluster, node, 5)));
  return [cluster, lanes as unknown as Keylane<never>, shards];
}

describe("T6: a demoted primary", () => {
  it("T6: a standalone pair is swapped by REPLICAOF under an open connection: sent once to the new primary", async (t) => {
    const [one, two] = await Promise.all([startSingle(), startSingle()]);
    t.after(() => Promise.all([one.stop(), two.stop()]));
    await two.node.command("REPLICAOF", one.node.host, one.node.port);
    await until(async () => (await two.node.info("replication")).get("master_link_status") === "up");
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], mode: "single", nodes: [one.address, two.address] } },
      refreshMinimumMs: 100,
    });
    assert.equal(lanes.route("n").node, one.address);
    assert.equal(await lanes.incrBy("n"), 1);
    for (const [old, young, sum] of [
      [one.node, two.node, 2],
      [two.node, one.node, 3],
    ] as const) {
      await until(async () => Number(await young.command("GET", "n")) === sum - 1);
      await young.command("REPLICAOF", "NO", "ONE");
      await old.command("REPLICAOF", young.host, young.port);
      assert.equal(await lanes.incrBy("n"), sum, "the refused one did not run, and it is sent once");
      assert.equal(lanes.route("n").node, young.address);
      assert.equal(await young.command("GET", "n"), String(sum));
    }
    assert.equal(lanes.stats().domains["all"]!.failed, 0);
  });

  it("T6: persistent READONLY is a typed error at the deadline", async (t) => {
    const [one, two] = await Promise.all([startSingle(), startSingle()]);
    t.after(() => Promise.all([one.stop(), two.stop()]));
    await two.node.command("REPLICAOF", one.node.host, one.node.port);
    await until(async () => (await two.node.info("replication")).get("master_link_status") === "up");
    const lanes = await openLanes({ domains: { all: { prefixes: [""], mode: "single", nodes: [two.address] } } });
    const error = await rejection(lanes.set("k", "v", { timeoutMs: 400 }), "KEYLANE_ERR_READONLY", {
      outcome: "rejected",
      retryable: true,
      node: two.address,
    });
    assert.match(error.message, /READONLY/);
    assert.equal(await lanes.get("k"), null, "reads are answered");
  });
});

describe("T6: failover in a cluster", () => {
  const c6 = useC6();

  it("T6: CLUSTER FAILOVER under load: every call succeeds, each INCRBY once, in order", async () => {
    const cluster = c6.value;
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const primary = cluster.primaries[0]!;
    const heir = cluster.replicasOf(primary)[0]!;
    const keys = await keysOn(cluster, primary, 10);
    const sums: Promise<number | bigint>[] = [];
    const phase = { over: false };
    const load = (async () => {
      while (!phase.over) {
        for (const key of keys) sums.push(lanes.incrBy(key));
        await new Promise(setImmediate);
      }
    })();
    await cluster.failover(heir);
    await until(() => lanes.route(keys[0]!).node === heir.address);
    phase.over = true;
    await load;
    const seen = await Promise.all(sums);
    assert.deepEqual(
      seen,
      seen.map((_, at) => Math.floor(at / keys.length) + 1),
    );
    for (const key of keys) assert.equal(await heir.command("GET", key), String(seen.length / keys.length));
  });

  it("T6: EVAL with a write never goes to a replica that answers reads, before and after a failover", async () => {
    const cluster = c6.value;
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds, scaleReads: "replica" } },
    });
    const primary = cluster.primaries[0]!;
    const [key] = (await keysOn(cluster, primary, 1)) as [string];
    const write = (value: string): Promise<unknown> =>
      lanes.command("EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", 1, key, value);
    await write("before");
    const heir = cluster.replicasOf(primary)[0]!;
    await cluster.failover(heir);
    for (let at = 0; at < 20; at += 1) {
      await write(`after ${at}`);
      await lanes.get(key);
    }
    assert.equal(await heir.command("GET", key), "after 19");
    assert.equal(lanes.stats().domains["all"]!.failed, 0);
  });

  it("T6: a primary is killed: its replica serves soon after its promotion, and nothing is sent twice", async () => {
    const cluster = c6.value;
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: cluster.seeds } } });
    const primary = cluster.primaries[0]!;
    const heir = cluster.replicasOf(primary)[0]!;
    const [key] = (await keysOn(cluster, primary, 1)) as [string];
    await lanes.set(key, "0");
    await until(async () => (await heir.command("DBSIZE")) === (await primary.command("DBSIZE")));
    const down = nextEvent(lanes, "node:down");
    await primary.kill();
    await down;
    assert.equal(await lanes.incrBy(key, 1, { timeoutMs: 20_000 }), 1, "it waited for the new primary");
    assert.equal(lanes.route(key).node, heir.address);
    assert.equal(await heir.command("GET", key), "1");
    await primary.start();
    await cluster.waitHealthy();
  });
});

describe("T8: one primary without a replica dies", () => {
  it("T8: cluster-require-full-coverage no: the other shards see no errors and no new connections", async (t) => {
    const [cluster, lanes, shards] = await setUp("no");
    t.after(() => cluster.stop());
    const [victim, ...others] = cluster.primaries as [SandboxNode, ...SandboxNode[]];
    const before = await Promise.all(others.map(connectionsOf));
    const [lost, ...kept] = await underLoad(lanes, shards, async () => {
      const down = nextEvent(lanes, "node:down");
      await victim.kill();
      await down;
      // Until the cluster itself has given the node up, and a while longer.
      const [seen] = others as [SandboxNode];
      await until(async () =>
        (await cluster.view(seen)).some(({ id, flags }) => id === victim.id && flags.includes("fail")),
      );
      await rejection(lanes.set(shards[0]![0]!, "v" as never, { timeoutMs: 800 }), "KEYLANE_ERR_NO_NODE", {
        outcome: "not-sent",
        retryable: true,
      });
    });
    for (const endings of kept) assert.deepEqual([...endings.keys()], ["ok"]);
    const told = new Set(["ok", "KEYLANE_ERR_CONNECTION_LOST", "KEYLANE_ERR_NO_NODE", "KEYLANE_ERR_TIMEOUT"]);
    assert.deepEqual(
      [...lost!.keys()].filter((code) => !told.has(code)),
      [],
    );
    assert.ok(lost!.size > 1);
    assert.deepEqual(await Promise.all(others.map(connectionsOf)), before);
    await victim.start();
    await cluster.waitHealthy();
    assert.equal(await until(() => lanes.set(shards[0]![0]!, "back" as never)), true);
  });

  it("T8: cluster-require-full-coverage yes: CLUSTERDOWN is waited for within the deadline, then told", async (t) => {
    const [cluster, lanes, shards] = await setUp("yes");
    t.after(() => cluster.stop());
    const [victim, other] = cluster.primaries as [SandboxNode, SandboxNode];
    await victim.kill();
    const [key] = shards[1] as [string];
    await until(async () => (await other.info("cluster-info")).get("cluster_state") === "fail");
    await other.command("CONFIG", "RESETSTAT");
    await rejection(lanes.get(key, { timeoutMs: 1000 }), "KEYLANE_ERR_CLUSTERDOWN", {
      outcome: "rejected",
      retryable: true,
      node: other.address,
    });
    assert.equal(await callsOf(other, "get"), 0, "it did not run");
    const stats = String(await other.command("INFO", "commandstats"));
    const asked = Number(/cmdstat_get:.*rejected_calls=(\d+)/.exec(stats)?.[1]);
    assert.ok(asked >= 3 && asked <= 20, `asked ${asked} times in a second`);
    await victim.start();
    await cluster.waitHealthy();
    assert.equal(await lanes.get(key, { timeoutMs: 2000 }), null);
  });
});

describe("a node that hangs while its connection is made", () => {
  it("costs its own slots only, and serves when it goes on", async (t) => {
    const [well, ill] = (await Stub.cluster(2)) as [Stub, Stub];
    t.after(() => Promise.all([well.stop(), ill.stop()]));
    well.script("GET", "well");
    ill.script("GET", "ill");
    const phase = { hanging: true };
    const goOn = new Gate<StubReply>();
    ill.answer("HELLO", ({ connection }) => {
      if (phase.hanging) return goOn.opened;
      connection.protocol = 2;
      return ["server", "redis", "proto", 2, "mode", "cluster", "role", "master"];
    });
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: [well.address] } },
      connectTimeoutMs: 400,
      commandTimeoutMs: 300,
    });
    const [mine, theirs] = ["bar", "foo"].map((key) => [key, lanes.route(key).node]).toSorted() as [
      [string, string],
      [string, string],
    ];
    const [healthy, hanging] = mine[1] === well.address ? [mine[0], theirs[0]] : [theirs[0], mine[0]];
    assert.equal(await lanes.get(healthy), "well");
    await rejection(lanes.get(hanging), "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent", node: ill.address });
    assert.equal(await lanes.get(healthy), "well");
    phase.hanging = false;
    goOn.open(undefined);
    assert.equal(
      await lanes.get(hanging, { timeoutMs: 5000 }),
      "ill",
      "a handshake that hangs is given up and begun anew",
    );
    assert.ok(ill.calls("HELLO").length >= 2);
  });
});
