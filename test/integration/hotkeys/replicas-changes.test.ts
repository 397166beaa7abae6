/** Copies of hot keys while their cluster changes: they move with it, and nobody reads what is older than acknowledged. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";

import type { Keylane } from "keylane";
import type { SandboxNode } from "keylane/sandbox";
import { native } from "#dist/native/index.js";

import { useC6 } from "../../support/fixtures.js";
import { Replicated, replicatedOn } from "../../support/replicated.js";
import { until } from "../../support/until.js";

const c6 = useC6();
const KEY = "up:hot";

beforeEach(async () => {
  await c6.value.waitHealthy();
  for (const node of c6.value.primaries) await node.command("FLUSHALL");
});

async function hot(value: string): Promise<Replicated> {
  const rig = await Replicated.open(replicatedOn(c6.value, { commandTimeoutMs: 2000 }));
  await rig.lanes.set(KEY, value);
  await rig.copy(KEY, 2, c6.value);
  return rig;
}

/** Writes growing numbers and reads them, until it is stopped. */
class Traffic {
  readonly stale: string[] = [];
  readonly errors: string[] = [];
  reads = 0;
  #acknowledged = 0;
  #stopped = false;
  readonly #loops: readonly Promise<void>[];

  constructor(lanes: Keylane) {
    this.#loops = [this.#write(lanes), ...Array.from({ length: 6 }, () => this.#read(lanes))];
  }

  async stop(): Promise<number> {
    this.#stopped = true;
    await Promise.all(this.#loops);
    return this.#acknowledged;
  }

  async #write(lanes: Keylane): Promise<void> {
    for (let next = 1; !this.#stopped; next += 1) {
      try {
        await lanes.set(KEY, `${next}`);
        this.#acknowledged = next;
      } catch (error) {
        this.errors.push(String(error));
      }
    }
  }

  async #read(lanes: Keylane): Promise<void> {
    while (!this.#stopped) {
      const floor = this.#acknowledged;
      try {
        const value = Number(await lanes.get(KEY));
        if (value < floor) this.stale.push(`${value} after ${floor}`);
        this.reads += 1;
      } catch (error) {
        this.errors.push(String(error));
      }
    }
  }
}

/** The primaries that hold the copies. */
async function homes(rig: Replicated): Promise<SandboxNode[]> {
  return (await rig.nodesOf(rig.of(KEY), c6.value)).map(({ node }) => node);
}

/** Original and both copies live on three primaries, and follow what another client writes. */
async function isWhole(rig: Replicated): Promise<void> {
  await until(
    async () => {
      await rig.filled(KEY, 2, c6.value);
      const nodes = [...(await homes(rig)), await c6.value.ownerOf(native.slot(KEY))];
      return new Set(nodes).size === 3;
    },
    { what: "copies on all primaries" },
  );
  const owner = await c6.value.ownerOf(native.slot(KEY));
  const value = `foreign ${performance.now()}`;
  await owner.command("SET", KEY, value);
  await until(async () => (await rig.lanes.getMany([KEY, KEY, KEY])).every((read) => read === value));
}

describe("failovers", () => {
  for (const mode of ["graceful", "force"] as const) {
    it(`${mode}, of a node that holds a copy: it is made anew, and no old one is read`, async () => {
      const rig = await hot("0");
      const names = rig.of(KEY);
      const [home] = await homes(rig);
      const traffic = new Traffic(rig.lanes);
      await c6.value.failover(c6.value.replicasOf(home!)[0]!, mode);
      await until(() => !rig.of(KEY).includes(names[0]!) && rig.of(KEY).length === 2);
      const { reads } = traffic;
      await until(() => traffic.reads > reads + 100);
      const last = await traffic.stop();
      assert.deepEqual([traffic.stale, traffic.errors], [[], []]);
      assert.equal(await rig.lanes.get(KEY), `${last}`);
      assert.ok(rig.of(KEY).includes(names[1]!), "the other copy stayed");
      await isWhole(rig);
    });
  }

  it("of the original's node: copies go on, off the new primary", async () => {
    const rig = await hot("0");
    const owner = await c6.value.ownerOf(native.slot(KEY));
    const traffic = new Traffic(rig.lanes);
    await c6.value.failover(c6.value.replicasOf(owner)[0]!, "graceful");
    await until(async () => (await c6.value.ownerOf(native.slot(KEY))) !== owner);
    const { reads } = traffic;
    await until(() => traffic.reads > reads + 100);
    await traffic.stop();
    assert.deepEqual(traffic.stale, []);
    await isWhole(rig);
  });
});

describe("slot moves", () => {
  it("of a copy's slot: another copy takes its place on the node that it left", async () => {
    const rig = await hot("0");
    const [name, other] = rig.of(KEY);
    const [home] = await homes(rig);
    const owner = await c6.value.ownerOf(native.slot(KEY));
    const traffic = new Traffic(rig.lanes);
    await c6.value.moveSlots([native.slot(name!)], home!, owner);
    await until(() => rig.of(KEY).length === 2 && !rig.of(KEY).includes(name!));
    await traffic.stop();
    assert.deepEqual([traffic.stale, traffic.errors], [[], []]);
    assert.ok(rig.of(KEY).includes(other!));
    await isWhole(rig);
  });

  it("of the original's slot, to a node that holds a copy", async () => {
    const rig = await hot("0");
    const [home] = await homes(rig);
    const owner = await c6.value.ownerOf(native.slot(KEY));
    const traffic = new Traffic(rig.lanes);
    await c6.value.moveSlots([native.slot(KEY)], owner, home!);
    await until(async () => (await homes(rig)).every((node) => node !== home));
    const last = await traffic.stop();
    assert.deepEqual([traffic.stale, traffic.errors], [[], []]);
    assert.equal(await rig.lanes.get(KEY), `${last}`);
    await isWhole(rig);
  });
});

/** After so long the cluster gives a node up that does not answer. */
async function timeout(ms: number): Promise<void> {
  await Promise.all(c6.value.nodes.map((node) => node.command("CONFIG", "SET", "cluster-node-timeout", ms)));
}

describe("ill nodes", () => {
  it("a node that hangs with a copy costs no read and no write, and its copy is not read until it is made anew", async () => {
    const rig = await hot("0");
    const names = rig.of(KEY);
    const [home] = await homes(rig);
    // The cluster itself is not to notice, however long this takes: that it is down is another matter.
    await timeout(60_000);
    const traffic = new Traffic(rig.lanes);
    home!.pause();
    try {
      await until(() => !rig.of(KEY).includes(names[0]!));
      const { reads } = traffic;
      await until(() => traffic.reads > reads + 100);
    } finally {
      home!.resume();
      await timeout(1000);
    }
    await until(() => rig.of(KEY).length === 2, { timeoutMs: 20_000 });
    const last = await traffic.stop();
    assert.deepEqual([traffic.stale, traffic.errors], [[], []]);
    assert.equal(await rig.lanes.get(KEY), `${last}`);
    await c6.value.waitHealthy();
    await isWhole(rig);
  });

  it("the connection that hears of changes is lost: what was changed meanwhile is read", async () => {
    const rig = await hot("0");
    const owner = await c6.value.ownerOf(native.slot(KEY));
    for (let i = 0; i < 5; i += 1) {
      await rig.filled(KEY, 2, c6.value);
      const clients = String(await owner.command("CLIENT", "LIST")).split("\n");
      const watching = clients.filter((line) => /name=\S+-hot /.test(line)).map((line) => /\bid=(\d+)/.exec(line)![1]!);
      assert.equal(watching.length, 1);
      const [killed] = await Promise.all([
        owner.command("CLIENT", "KILL", "ID", watching[0]!),
        owner.command("SET", KEY, `${i}`),
      ]);
      assert.equal(killed, 1);
      await until(async () => (await rig.lanes.getMany([KEY, KEY, KEY])).every((value) => value === `${i}`));
    }
    await isWhole(rig);
  });
});
