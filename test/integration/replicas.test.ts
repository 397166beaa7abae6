/** `scaleReads`: who really answered is read from the servers' own command statistics. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import type { SandboxNode } from "keylane/sandbox";

import { useC6, useSingle } from "../support/fixtures.js";
import { openLanes, useLanes } from "../support/lanes.js";
import { nextEvent, until } from "../support/until.js";

/** Calls of a command that a node counted since its statistics were reset. */
async function callsOf(node: SandboxNode, command: string): Promise<number> {
  const line = (await node.info("commandstats")).get(`cmdstat_${command}`);
  return line === undefined ? 0 : Number(/^calls=(\d+)/.exec(line)![1]);
}

async function sumOf(nodes: readonly SandboxNode[], command: string): Promise<number> {
  const calls = await Promise.all(nodes.map((node) => callsOf(node, command)));
  return calls.reduce((sum, one) => sum + one, 0);
}

describe("reads from replicas of a cluster", () => {
  const c6 = useC6({ config: { "cluster-require-full-coverage": "no" } });
  const keys = Array.from({ length: 300 }, (_, i) => `k${i}`);
  const domain = (scaleReads: "master" | "replica" | "slave" | "all" | "nearest"): object => ({
    domains: { all: { prefixes: [""], nodes: c6.value.seeds, scaleReads } },
    commandTimeoutMs: 5000,
  });
  const writer = useLanes(() => ({ domains: { all: { prefixes: [""], nodes: c6.value.seeds } } }));

  /** All keys written and on every replica; then the statistics begin anew. */
  async function prepare(): Promise<void> {
    await Promise.all(keys.map((key) => writer.value.set(key, `v:${key}`)));
    await writer.value.command("HSET", "h", "f", 1);
    await until(async () => {
      const sizes = await Promise.all(c6.value.nodes.map((node) => node.command("DBSIZE")));
      return sizes.reduce<number>((sum, size) => sum + Number(size), 0) === 2 * (keys.length + 1);
    });
    await Promise.all(c6.value.nodes.map((node) => node.command("CONFIG", "RESETSTAT")));
  }

  /** Resolves when the replicas take part: connected, and known to be linked to their primaries. */
  async function settled(lanes: { getMany(keys: readonly string[]): Promise<unknown> }): Promise<void> {
    await until(async () => {
      const before = await sumOf(c6.value.primaries, "get");
      await lanes.getMany(keys);
      return (await sumOf(c6.value.primaries, "get")) === before;
    });
    await Promise.all(c6.value.nodes.map((node) => node.command("CONFIG", "RESETSTAT")));
  }

  for (const scaleReads of ["replica", "slave"] as const) {
    it(`"${scaleReads}": every read is answered by a replica, every write by a primary`, async () => {
      await prepare();
      const lanes = await openLanes(domain(scaleReads) as never);
      await settled(lanes);
      for (let round = 0; round < 5; round += 1) {
        assert.deepEqual(
          await lanes.getMany(keys),
          keys.map((key) => `v:${key}`),
        );
      }
      await lanes.set("k0", "v:k0" as never);
      assert.deepEqual(await lanes.command("HGETALL", "h"), { f: "1" });
      assert.equal(await lanes.command("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, "k1"), "v:k1");
      assert.equal(await sumOf(c6.value.replicas, "get"), 5 * keys.length + 1);
      assert.equal(await sumOf(c6.value.primaries, "get"), 0);
      assert.equal(await sumOf(c6.value.primaries, "set"), 1);
      assert.equal(await sumOf(c6.value.replicas, "hgetall"), 1);
      assert.equal(await sumOf(c6.value.replicas, "eval_ro"), 1);
      const roles = lanes.stats().domains["all"]!.nodes.map((node) => node.role);
      assert.deepEqual(roles.toSorted(), ["primary", "primary", "primary", "replica", "replica", "replica"]);
      assert.equal(lanes.stats().domains["all"]!.moved, 0);
    });
  }

  it('"master" reads nothing from replicas and keeps no connections to them', async () => {
    await prepare();
    const lanes = await openLanes(domain("master") as never);
    await lanes.getMany(keys);
    assert.equal(await sumOf(c6.value.replicas, "get"), 0);
    assert.equal(await sumOf(c6.value.primaries, "get"), keys.length);
    await until(() => lanes.stats().domains["all"]!.nodes.length === 3);
  });

  it('"all" and "nearest" read the right values, "all" from both roles', async () => {
    for (const scaleReads of ["all", "nearest"] as const) {
      await prepare();
      const lanes = await openLanes(domain(scaleReads) as never);
      let done = false;
      for (let rounds = 1; !done; rounds += 1) {
        assert.deepEqual(
          await lanes.getMany(keys),
          keys.map((key) => `v:${key}`),
        );
        const [primaries, replicas] = [await sumOf(c6.value.primaries, "get"), await sumOf(c6.value.replicas, "get")];
        assert.equal(primaries + replicas, rounds * keys.length);
        done = scaleReads === "all" ? primaries > 0 && replicas > 0 : rounds === 10;
        assert.ok(rounds < 2000, "the replicas never took part");
      }
    }
  });

  it("a replica that goes away leaves the rotation, and no read fails", async () => {
    await prepare();
    const lanes = await openLanes(domain("replica") as never);
    await settled(lanes);
    const gone = c6.value.replicas[0]!;
    const down = nextEvent(lanes, "node:down");
    const reading = Array.from({ length: 20 }, () => lanes.getMany(keys));
    await gone.kill();
    assert.deepEqual(((await down) as [{ node: string }])[0].node, gone.address);
    for (const values of [...(await Promise.all(reading)), await lanes.getMany(keys)]) {
      assert.deepEqual(
        values,
        keys.map((key) => `v:${key}`),
      );
    }
    await gone.start();
    await c6.value.waitHealthy();
  });
});

describe("reads from a replica outside a cluster", () => {
  const primary = useSingle();
  const replica = useSingle();

  it("mode single: the nodes tell who is the primary, in whatever order they are named", async () => {
    await replica.value.node.command("REPLICAOF", "127.0.0.1", primary.value.node.port);
    await until(async () => (await replica.value.node.info("replication")).get("master_link_status") === "up");
    const nodes = [replica.value.address, primary.value.address];
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes, mode: "single", scaleReads: "replica" } },
      commandTimeoutMs: 5000,
    });
    assert.equal(lanes.route("k").node, primary.value.address);
    await lanes.set("k", "v");
    await until(async () => (await replica.value.node.command("GET", "k")) === "v");
    await until(async () => (await lanes.get("k")) === "v" && (await callsOf(replica.value.node, "get")) > 1);
    await Promise.all([primary, replica].map(({ value }) => value.node.command("CONFIG", "RESETSTAT")));
    for (let i = 0; i < 20; i += 1) assert.equal(await lanes.get("k"), "v");
    assert.equal(await callsOf(replica.value.node, "get"), 20);
    assert.equal(await callsOf(primary.value.node, "get"), 0);
    assert.equal(await lanes.incrBy("n"), 1);
    assert.equal(await callsOf(primary.value.node, "incrby"), 1);
  });
});
