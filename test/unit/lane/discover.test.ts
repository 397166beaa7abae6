/** CLUSTER SLOTS and CLUSTER SHARDS → shards: every form servers use, and none of the bad rows. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { mapAddress, readShards, readSlots } from "#dist/lane/discover.js";
import type { Reply } from "keylane";

const asked = { host: "10.0.0.9", port: 7000 };
const slots = (reply: Reply, natMap?: Parameters<typeof readSlots>[2]): ReturnType<typeof readSlots> =>
  readSlots(reply, asked, natMap, "d");
const shards = (reply: Reply, tls = false, natMap?: Parameters<typeof readSlots>[2]): ReturnType<typeof readShards> =>
  readShards(reply, asked, tls, natMap, "d");
const node = (fields: Record<string, Reply>): Reply => ({
  id: "x",
  port: 7001,
  ip: "10.0.0.1",
  endpoint: "10.0.0.1",
  role: "master",
  health: "online",
  ...fields,
});

test("CLUSTER SLOTS: ranges of one primary are one shard, replicas once each", () => {
  const report = slots([
    [0, 5460, ["10.0.0.1", 7001, "id1"], ["10.0.0.4", 7004, "id4"]],
    [5461, 10_922, ["10.0.0.2", 7002, "id2"]],
    [10_923, 16_383, ["10.0.0.1", 7001, "id1"], ["10.0.0.4", 7004, "id4"], ["10.0.0.5", 7005, "id5"]],
  ]);
  assert.deepEqual(report, {
    ambiguous: false,
    faults: [],
    shards: [
      {
        ranges: [
          [0, 5460],
          [10_923, 16_383],
        ],
        primary: { host: "10.0.0.1", port: 7001 },
        replicas: [
          { host: "10.0.0.4", port: 7004 },
          { host: "10.0.0.5", port: 7005 },
        ],
      },
      { ranges: [[5461, 10_922]], primary: { host: "10.0.0.2", port: 7002 }, replicas: [] },
    ],
  });
});

test("an endpoint left open means the address that was asked", () => {
  for (const open of [null, "", "?"]) {
    assert.deepEqual(slots([[0, 1, [open, 7001, "id"]]]).shards[0]!.primary, { host: "10.0.0.9", port: 7001 });
    const entry = { slots: [0, 1], nodes: [node({ endpoint: open })] };
    assert.equal(shards([entry]).shards[0]!.primary!.host, open === null ? "10.0.0.1" : "10.0.0.9");
  }
});

test("bad rows are passed over and void nothing else", () => {
  const good = [5, 6, ["10.0.0.1", 7001]];
  const rows = [
    null,
    "x",
    [],
    [0],
    [3, 1, ["a", 1]],
    [-1, 1, ["a", 1]],
    [0, 16_384, ["a", 1]],
    ["0", 1, ["a", 1]],
    good,
  ];
  assert.deepEqual(slots(rows as Reply).shards, [
    { ranges: [[5, 6]], primary: { host: "10.0.0.1", port: 7001 }, replicas: [] },
  ]);
  for (const port of [0, 65_536, -1, "x", null]) {
    assert.equal(slots([[0, 1, ["a", port]]] as Reply).shards[0]!.primary, null, String(port));
  }
  for (const reply of [null, "OK", 5, {}]) {
    assert.deepEqual(slots(reply).shards, []);
    assert.deepEqual(shards(reply).shards, []);
  }
  assert.deepEqual(shards([null, "x", { slots: "no", nodes: 5 }, { slots: [0, 99_999, 7, 3, 1, 2] }]).shards, [
    { ranges: [], primary: null, replicas: [] },
    { ranges: [[1, 2]], primary: null, replicas: [] },
  ]);
});

test("G5: a report cannot write to a prototype", () => {
  slots([["__proto__", "__proto__", ["__proto__", 1]]] as Reply);
  shards([["__proto__", { slots: [0, 1] }, "nodes", []]] as Reply);
  assert.equal(({} as { slots?: unknown }).slots, undefined);
  assert.equal(([] as unknown[])[0], undefined);
});

const flat = (value: Record<string, Reply>): Reply => Object.entries(value).flat();

test("CLUSTER SHARDS: as maps (RESP3) and as flat lists (RESP2)", () => {
  const asMap = {
    slots: [0, 10, 20, 30],
    nodes: [
      node({}),
      node({ role: "replica", port: 7004, endpoint: "10.0.0.4" }),
      node({ role: "replica", port: 7005, endpoint: "10.0.0.5", health: "loading" }),
      node({ role: "replica", port: 7006, endpoint: "10.0.0.6", health: "fail" }),
    ],
  };
  const asList = flat({ ...asMap, nodes: asMap.nodes.map((entry) => flat(entry as Record<string, Reply>)) });
  const expected = {
    ranges: [
      [0, 10],
      [20, 30],
    ],
    primary: { host: "10.0.0.1", port: 7001 },
    replicas: [
      { host: "10.0.0.4", port: 7004 },
      { host: "10.0.0.5", port: 7005 },
    ],
  };
  assert.deepEqual(shards([asMap as Reply]).shards, [expected]);
  assert.deepEqual(shards([asList]).shards, [expected]);
});

const entry = (fields: Record<string, Reply>): Reply => ({ slots: [0, 1], nodes: [node(fields)] });

const port = (fields: Record<string, Reply>, tls: boolean): number | undefined =>
  shards([entry(fields)], tls).shards[0]!.primary?.port;

test("CLUSTER SHARDS: the port that fits the connection", () => {
  assert.equal(port({ port: 7001, "tls-port": 7101 }, false), 7001);
  assert.equal(port({ port: 7001, "tls-port": 7101 }, true), 7101);
  assert.equal(port({ port: null, "tls-port": 7101 }, false), 7101);
  assert.equal(port({ port: 7001 }, true), 7001);
});

test("CLUSTER SHARDS: a failed primary is none, two live ones are ambiguous", () => {
  const failed = shards([{ slots: [0, 1], nodes: [node({ health: "fail" }), node({ role: "replica", port: 7004 })] }]);
  assert.equal(failed.shards[0]!.primary, null);
  assert.equal(failed.ambiguous, false);
  const two = shards([{ slots: [0, 1], nodes: [node({}), node({ port: 7002 })] }]);
  assert.equal(two.ambiguous, true);
});

test("natMap: every announced address passes it, as a table or as a function", () => {
  const table = { "10.0.0.1:7001": { host: "127.0.0.1", port: 17_001 } };
  const rows: Reply = [
    [0, 10, ["10.0.0.1", 7001]],
    [11, 20, ["10.0.0.2", 7002]],
  ];
  for (const natMap of [table, (key: string) => (key === "10.0.0.1:7001" ? table[key] : null)]) {
    const report = slots(rows, natMap);
    assert.deepEqual(
      report.shards.map((shard) => shard.primary),
      [{ host: "127.0.0.1", port: 17_001 }, null],
    );
    assert.deepEqual(
      report.faults.map((fault) => [fault.code, fault.node, fault.domain]),
      [["KEYLANE_ERR_UNMAPPED", "10.0.0.2:7002", "d"]],
    );
  }
});

const map = (host: string): unknown => mapAddress({ host, port: 1 }, {}, "d");

test("natMap: only own entries count", () => {
  for (const host of ["__proto__", "constructor", "toString"]) {
    assert.throws(() => map(host), { code: "KEYLANE_ERR_UNMAPPED" });
  }
  assert.deepEqual(mapAddress({ host: "a", port: 1 }, undefined, "d"), { host: "a", port: 1 });
});
