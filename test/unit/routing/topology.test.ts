/** The shared slot map: what a report, a MOVED and a vanished node do to it, and that threads see one and the same. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";

import { Topology } from "#dist/routing/topology.js";
import type { Address, ShardView } from "#dist/routing/topology.js";

const at = (port: number): Address => ({ host: "127.0.0.1", port });
const shard = (first: number, last: number, port: number, ...replicas: number[]): ShardView => ({
  ranges: [[first, last]],
  primary: at(port),
  replicas: replicas.map(at),
});
const three = [shard(0, 5460, 1), shard(5461, 10_922, 2), shard(10_923, 16_383, 3)];
const portOf = (topology: Topology, slot: number): number | undefined => topology.node(topology.nodeOf(slot))?.port;

test("a new map knows no node of any slot", () => {
  const topology = new Topology();
  assert.equal(topology.version, 1);
  assert.deepEqual(topology.nodes(), []);
  assert.equal(topology.uncovered(), 16_384);
  assert.equal(topology.nodeOf(0), -1);
  assert.equal(topology.node(-1), null);
  assert.equal(topology.node(0), null);
  assert.equal(topology.node(512), null);
});

test("a report fills the map; the same report again changes nothing", () => {
  const topology = new Topology();
  assert.equal(topology.apply(three), true);
  const { version } = topology;
  assert.deepEqual(
    [0, 5460, 5461, 10_922, 10_923, 16_383].map((slot) => portOf(topology, slot)),
    [1, 1, 2, 2, 3, 3],
  );
  assert.equal(topology.uncovered(), 0);
  assert.deepEqual(
    topology.nodes().map((node) => topology.slotCount(node.index)),
    [5461, 5462, 5461],
  );
  assert.equal(topology.apply(three), false);
  assert.equal(topology.version, version);
});

test("replicas name their primary, and a failover swaps the roles", () => {
  const topology = new Topology();
  topology.apply([shard(0, 16_383, 1, 2)]);
  const [primary, replica] = topology.nodes() as [ReturnType<Topology["nodes"]>[0], ReturnType<Topology["nodes"]>[0]];
  assert.equal(primary.replica, false);
  assert.equal(primary.primary, -1);
  assert.equal(replica.replica, true);
  assert.equal(replica.primary, primary.index);
  assert.equal(topology.apply([shard(0, 16_383, 2, 1)]), true);
  assert.equal(portOf(topology, 42), 2);
  assert.equal(topology.node(primary.index)?.replica, true);
  assert.equal(topology.node(replica.index)?.replica, false);
});

test("MOVED points one slot at a node, known or new, and makes a replica a primary", () => {
  const topology = new Topology();
  topology.apply([...three, { ranges: [], primary: at(1), replicas: [at(9)] }]);
  const { version } = topology;
  const known = topology.assign(100, at(2));
  assert.equal(portOf(topology, 100), 2);
  assert.equal(portOf(topology, 101), 1);
  assert.equal(topology.version, version + 1);
  assert.equal(topology.assign(100, at(2)), known);
  assert.equal(topology.version, version + 1, "saying it again changes nothing");
  topology.assign(200, { host: "2001:db8::1", port: 6379 });
  assert.equal(topology.node(topology.nodeOf(200))?.host, "2001:db8::1");
  const promoted = topology.assign(300, at(9));
  assert.equal(topology.node(promoted)?.replica, false);
});

test("slots outside a report lose their node and nodes outside it their record, whose next user is a new generation", () => {
  const topology = new Topology();
  topology.apply(three);
  const gone = topology.node(topology.nodeOf(16_383))!;
  topology.apply(three.slice(0, 2));
  assert.equal(topology.nodeOf(16_383), -1);
  assert.equal(topology.uncovered(), 5461);
  assert.equal(topology.node(gone.index), null);
  const index = topology.intern(at(4));
  assert.equal(index, gone.index);
  assert.ok(topology.node(index)!.generation > gone.generation);
  assert.equal(topology.slotCount(index), 0);
  assert.equal(topology.intern(at(4)), index);
});

test("a full directory and an endless host name are refused with -1 and harm nothing", () => {
  const topology = new Topology();
  topology.apply(three);
  assert.equal(topology.assign(7, { host: "h".repeat(241), port: 1 }), -1);
  for (let port = 4; port <= 512; port += 1) assert.ok(topology.intern(at(port)) >= 0, String(port));
  assert.equal(topology.intern(at(513)), -1);
  assert.equal(topology.assign(7, at(513)), -1);
  assert.equal(portOf(topology, 7), 1);
  assert.equal(topology.nodes().length, 512);
});

test("refreshes are claimed once per interval by all threads together", () => {
  const topology = new Topology();
  const other = new Topology(topology.buffer);
  assert.equal(topology.refreshDelay(60_000), 0);
  assert.equal(topology.claimRefresh(60_000), true);
  assert.equal(other.claimRefresh(60_000), false);
  assert.equal(topology.refreshes, 1);
  assert.ok(other.refreshDelay(60_000) > 0);
  assert.ok(other.refreshDelay(60_000) <= 60_000);
  assert.equal(other.claimRefresh(0), true);
  assert.equal(topology.refreshes, 2);
});

test("the refresh clock wraps after 24.8 days of uptime without stopping refreshes", (t) => {
  let ms = 2n ** 31n - 10n;
  t.mock.method(process.hrtime, "bigint", () => ms * 1_000_000n);
  const topology = new Topology();
  assert.equal(topology.claimRefresh(500), true);
  ms += 400n;
  assert.equal(topology.refreshDelay(500), 100);
  assert.equal(topology.claimRefresh(500), false);
  ms += 100n;
  assert.equal(topology.refreshDelay(500), 0);
  assert.equal(topology.claimRefresh(500), true);
});

test("a MOVED seen by one thread corrects the map of all", async () => {
  const topology = new Topology();
  topology.apply(three);
  const source = `
    import { parentPort, workerData } from "node:worker_threads";
    const { Topology } = await import(workerData.module);
    const topology = new Topology(workerData.buffer);
    const before = topology.node(topology.nodeOf(5)).port;
    topology.assign(5, { host: "127.0.0.1", port: 3 });
    parentPort.postMessage({ before, version: topology.version });
  `;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`), {
    workerData: { module: import.meta.resolve("#dist/routing/topology.js"), buffer: topology.buffer },
  });
  const [told] = (await once(worker, "message")) as [{ before: number; version: number }];
  assert.equal(told.before, 1);
  assert.equal(portOf(topology, 5), 3);
  assert.equal(topology.version, told.version);
  await worker.terminate();
});

test("four threads interning and assigning at once leave one record per address and no torn slot", async () => {
  const topology = new Topology();
  const source = `
    import { workerData } from "node:worker_threads";
    const { Topology } = await import(workerData.module);
    const topology = new Topology(workerData.buffer);
    for (let i = 0; i < 2000; i += 1) topology.assign((i * 4 + workerData.index) % 16384, { host: "h" + (i % 37), port: 1 + (i % 37) });
  `;
  const url = new URL(`data:text/javascript,${encodeURIComponent(source)}`);
  const module = import.meta.resolve("#dist/routing/topology.js");
  const workers = [0, 1, 2, 3].map(
    (index) => new Worker(url, { workerData: { module, buffer: topology.buffer, index } }),
  );
  await Promise.all(workers.map((worker) => once(worker, "exit")));
  assert.equal(topology.nodes().length, 37);
  assert.equal(new Set(topology.nodes().map((node) => `${node.host}:${node.port}`)).size, 37);
  for (let i = 0; i < 2000; i += 1) {
    for (let index = 0; index < 4; index += 1) {
      const view = topology.node(topology.nodeOf((i * 4 + index) % 16_384))!;
      assert.deepEqual([view.host, view.port], [`h${i % 37}`, 1 + (i % 37)]);
    }
  }
  assert.equal(topology.uncovered(), 16_384 - 8000);
});
