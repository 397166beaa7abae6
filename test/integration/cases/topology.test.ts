/** Addresses of every kind a cluster can announce, and how often it is asked for them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkServerIdentity as verify, type PeerCertificate } from "node:tls";

import type { KeylaneError } from "keylane";
import type { SandboxCluster } from "keylane/sandbox";

import { useC3, useC6 } from "../../support/fixtures.js";
import { callsOf, keysIn } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { Relay } from "../../support/relay.js";
import { failure, OK, Stub } from "../../support/stub.js";
import { nextEvent, until, within } from "../../support/until.js";

/** CLUSTER SHARDS and CLUSTER SLOTS that the live nodes of a cluster have answered. */
async function topologyCalls(cluster: SandboxCluster): Promise<number> {
  let calls = 0;
  for (const node of cluster.nodes.filter((one) => one.running && !one.paused)) {
    calls += (await callsOf(node, "cluster|shards")) + (await callsOf(node, "cluster|slots"));
  }
  return calls;
}

describe("T2: addresses in redirects", () => {
  const KEY = "foo";
  const SLOT = 12_182;

  it("T2: MOVED and ASK to an IPv6 address, split at the last colon", async (t) => {
    const [asked, target] = [await Stub.start(), await Stub.start({ host: "::1" })];
    t.after(() => Promise.all([asked.stop(), target.stop()]));
    target.script("GET", "from ::1").script("SET", OK);
    asked.script("SET", failure(`ASK ${SLOT} ::1:${target.port}`));
    asked.script("GET", failure(`MOVED ${SLOT} ::1:${target.port}`));
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [asked.address] } } });
    assert.equal(await lanes.set(KEY, "v"), true);
    assert.equal(target.calls("SET")[0]!.asking, true);
    assert.equal(lanes.route(KEY).node, asked.address, "ASK changes no map");
    const reply = lanes.get(KEY);
    await until(() => lanes.route(KEY).node === `::1:${target.port}`);
    assert.equal(await reply, "from ::1");
    assert.equal(target.calls("GET")[0]!.asking, false);
  });

  it("T2: a host name is resolved", async (t) => {
    const [asked, target] = [await Stub.start(), await Stub.start()];
    t.after(() => Promise.all([asked.stop(), target.stop()]));
    asked.script("GET", failure(`MOVED ${SLOT} localhost:${target.port}`));
    target.script("GET", "by name");
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [asked.address] } } });
    assert.equal(await lanes.get(KEY), "by name");
  });

  it("T2: names and addresses that lead nowhere cost the call its deadline, and the rest nothing", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    stub.answer("GET", ({ args }) => {
      const told = /^lost-(.*)$/.exec(args[1]!.toString())?.[1];
      return told === undefined ? "here" : failure(`MOVED ${lanes.route(args[1]!).slot} ${told}`);
    });
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: [stub.address] } },
      commandTimeoutMs: 300,
    });
    for (const node of ["node-a.example:6379", "2001:db8::1:6379"]) {
      await rejection(lanes.get(`lost-${node}`), "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent", node });
      assert.equal(await lanes.get("other"), "here");
    }
  });

  it("T2: an impossible port is a typed error and changes no map", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [stub.address] } } });
    for (const target of ["node-a.example:99999", "127.0.0.1:0", "127.0.0.1:", "127.0.0.1", "::1:x", "127.0.0.1:-1"]) {
      for (const kind of ["MOVED", "ASK"]) {
        const message = `${kind} ${SLOT} ${target}`;
        stub.script("GET", failure(message));
        await rejection(lanes.get(KEY), "KEYLANE_ERR_REDIRECTS", { message: new RegExp(message), outcome: "rejected" });
        assert.equal(lanes.route(KEY).node, stub.address);
      }
    }
  });
});

describe("T2: a cluster on ::1", () => {
  const c3 = useC3({ host: "::1" });

  it("T2: nodes are found, and a slot that moved is followed", async () => {
    const { primaries } = c3.value;
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: c3.value.seeds } } });
    const { slot } = lanes.route("foo");
    const from = await c3.value.ownerOf(slot);
    const to = primaries.find((node) => node !== from)!;
    assert.equal(lanes.route("foo").node, `::1:${from.port}`);
    await lanes.set("foo", "v");
    await c3.value.moveSlots([slot], from, to);
    assert.equal(await lanes.get("foo"), "v");
    assert.equal(lanes.route("foo").node, `::1:${to.port}`);
  });
});

describe("T3: addresses that clients cannot reach", () => {
  const c6 = useC6({ announce: (index) => ({ hostname: `node-${index}.example`, endpoint: "hostname" }) });

  it("T3: the map serves SHARDS, MOVED and ASK alike; a promoted node that it lacks is one clear error, the rest works", async (t) => {
    const cluster = c6.value;
    const relays = await Promise.all(cluster.nodes.map((node) => Relay.start(node.address)));
    t.after(() => Promise.all(relays.map((relay) => relay.stop())));
    const entry = (index: number): [string, { host: string; port: number }] => [
      `node-${index}.example:${cluster.nodes[index]!.port}`,
      { host: "127.0.0.1", port: relays[index]!.port },
    ];
    const natMap = Object.fromEntries([0, 1, 2].map(entry));
    const nodes = [relays[0]!.address];
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes, natMap } }, commandTimeoutMs: 1000 });
    const errors: KeylaneError[] = [];
    lanes.on("error", (error) => errors.push(error));
    const told = (): unknown => errors.map(({ code, node }) => `${code} ${node}`).toSorted();
    const unmapped = cluster.replicas.map(({ index, port }) => `KEYLANE_ERR_UNMAPPED node-${index}.example:${port}`);
    const [p0, p1, p2] = cluster.nodes as [
      (typeof cluster.nodes)[0],
      (typeof cluster.nodes)[0],
      (typeof cluster.nodes)[0],
    ];
    const owned = async (node: typeof p0): Promise<number> =>
      (await cluster.view()).find(({ id }) => id === node.id)!.slots[0]![0];
    const [slot0, slot1, slot2] = [await owned(p0), await owned(p1), await owned(p2)];
    const keys = keysIn([slot0, slot1, slot2]);
    const [key0, key1, key2] = [keys.get(slot0)!, keys.get(slot1)!, keys.get(slot2)!];
    const nodeOf = (key: string): string | null => lanes.route(key).node;
    assert.deepEqual(
      [key0, key1, key2].map(nodeOf),
      relays.slice(0, 3).map((relay) => relay.address),
    );
    await Promise.all([lanes.set(key0, "0"), lanes.set(key1, "1"), lanes.set(key2, "2")]);

    const move = await cluster.beginMove(slot0, p0, p1);
    await move.migrate();
    assert.equal(await lanes.get(key0), "0");
    assert.equal(lanes.stats().domains["all"]!.asked, 1);
    await move.finish();
    assert.equal(await lanes.get(key0), "0");
    assert.equal(nodeOf(key0), relays[1]!.address);
    assert.deepEqual(told(), unmapped.toSorted(), "nodes that may be needed one day are told in advance");

    const heir = cluster.replicasOf(p2)[0]!;
    const name = `node-${heir.index}.example:${heir.port}`;
    await cluster.failover(heir);
    const refused = await rejection(lanes.set(key2, "3"), "KEYLANE_ERR_UNMAPPED", { retryable: false });
    assert.match(refused.message, new RegExp(`natMap of domain all has no entry for ${name}`));
    await Promise.all(Array.from({ length: 50 }, () => rejection(lanes.get(key2), "KEYLANE_ERR_UNMAPPED")));
    await Promise.all([lanes.set(key0, "00"), lanes.set(key1, "11")]);
    assert.deepEqual(await lanes.getMany([key0, key1]), ["00", "11"]);
    assert.deepEqual(told(), unmapped.toSorted(), "each is told once");
  });
});

describe("T3: announced 10.255.0.x", () => {
  it("T3: SLOTS, MOVED and ASK through the map, of a server without SHARDS", async (t) => {
    const stubs = [await Stub.start({ shards: false }), await Stub.start({ shards: false })] as const;
    t.after(() => Promise.all(stubs.map((stub) => stub.stop())));
    const ranges = [0, 1].map((at) => ({
      from: at * 8192,
      to: at * 8192 + 8191,
      nodes: [{ host: `10.255.0.${at + 1}`, port: 7000 }],
    }));
    for (const stub of stubs) stub.ranges = ranges;
    const natMap = (name: string): { host: string; port: number } | null => {
      const at = ["10.255.0.1:7000", "10.255.0.2:7000"].indexOf(name);
      return at === -1 ? null : { host: "127.0.0.1", port: stubs[at]!.port };
    };
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [stubs[0].address], natMap } } });
    const [low, high] = [keysIn([1]).get(1)!, keysIn([9000]).get(9000)!];
    stubs[0].script("GET", failure("ASK 1 10.255.0.2:7000"), failure("MOVED 1 10.255.0.2:7000"));
    stubs[1].script("GET", "asked", "high", "moved");
    assert.equal(await lanes.get(low), "asked");
    assert.equal(await lanes.get(high), "high");
    assert.equal(await lanes.get(low), "moved");
    assert.equal(lanes.route(low).node, stubs[1].address);
  });
});

describe("T3: TLS with a certificate of DNS names only", () => {
  const c3 = useC3({
    tls: { names: ["localhost", "node-0.example", "node-1.example", "node-2.example"] },
    announce: (index) => ({ hostname: `node-${index}.example`, endpoint: "ip" }),
  });

  it("T3: each node is dialled by address and verified by the name it announces", async () => {
    const { tls, primaries } = c3.value;
    const names: string[] = [];
    const checkServerIdentity = (name: string, certificate: PeerCertificate): Error | undefined => {
      names.push(name);
      return verify(name, certificate);
    };
    const nodes = [`localhost:${primaries[1]!.port}`];
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes, tls: { ca: tls!.ca, checkServerIdentity } } },
    });
    for (let at = 0; at < 20; at += 1) assert.equal(await lanes.set(`k${at}`, String(at)), true);
    const { nodes: told } = lanes.stats().domains["all"]!;
    assert.deepEqual(
      told.map(({ node, state }) => [node, state]).toSorted(),
      primaries.map(({ address }) => [address, "ready"]).toSorted(),
    );
    assert.deepEqual(names.toSorted(), ["localhost", "node-0.example", "node-1.example", "node-2.example"]);
  });
});

describe("T4: refreshes", () => {
  const c3 = useC3();

  it("T4: all slots leave a node, which is forgotten and stopped before it is asked again: found within one interval", async () => {
    const cluster = c3.value;
    const [owner] = cluster.primaries as [(typeof cluster.primaries)[0]];
    const guest = await cluster.addNode();
    const slots = (await cluster.view()).find(({ id }) => id === owner.id)!.slots[0]!;
    const range = [slots[0], slots[0] + 9] as const;
    await cluster.moveSlots([range], owner, guest);
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds } },
      refreshIntervalMs: 2000,
    });
    const key = keysIn([range[0]]).get(range[0])!;
    await lanes.set(key, "kept");
    assert.equal(lanes.route(key).node, guest.address);
    await cluster.moveSlots([range], guest, owner);
    await cluster.removeNode(guest);
    assert.equal(await within(lanes.get(key, { timeoutMs: 2000 }), 2500), "kept");
    assert.equal(lanes.route(key).node, owner.address);
    await until(() => lanes.stats().domains["all"]!.nodes.every(({ node }) => node !== guest.address));
  });

  it("T4: a map that went stale without a word is corrected at the interval", async () => {
    const cluster = c3.value;
    const [from, to] = cluster.primaries as [(typeof cluster.primaries)[0], (typeof cluster.primaries)[0]];
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds } },
      refreshIntervalMs: 600,
    });
    const slots = (await cluster.view()).find(({ id }) => id === from.id)!.slots.at(-1)!;
    const key = keysIn([slots[1]]).get(slots[1])!;
    const told = nextEvent(lanes, "topology");
    await cluster.moveSlots([slots[1]], from, to);
    await told;
    assert.equal(lanes.route(key).node, to.address);
    assert.equal(lanes.stats().domains["all"]!.moved, 0);
    await cluster.moveSlots([slots[1]], to, from);
  });

  it("T4: 500 concurrent MOVED are one refresh, or two", async (t) => {
    const cluster = c3.value;
    const minimumMs = 500;
    const [from, to] = cluster.primaries as [(typeof cluster.primaries)[0], (typeof cluster.primaries)[0]];
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds } },
      refreshMinimumMs: minimumMs,
      commandTimeoutMs: 5000,
    });
    const [first] = (await cluster.view()).find(({ id }) => id === from.id)!.slots.at(-1)!;
    const range = [first, first + 499] as const;
    const keys = [...keysIn(Array.from({ length: 500 }, (_, at) => first + at)).values()];
    await Promise.all(keys.map((key) => lanes.set(key, key)));
    await cluster.moveSlots([range], from, to);
    const before = await topologyCalls(cluster);
    const began = performance.now();
    assert.deepEqual(await lanes.getMany(keys), keys);
    assert.equal(lanes.stats().domains["all"]!.moved, 500);
    // Whatever the MOVED set off has been sent when twice the minimum has passed.
    await until(() => performance.now() - began > 2 * minimumMs);
    const calls = (await topologyCalls(cluster)) - before;
    const limit = Math.floor((performance.now() - began) / minimumMs) + 1;
    t.diagnostic(`${calls} topology requests, ${limit} allowed`);
    assert.ok(calls >= 1 && calls <= limit, `${calls} topology requests, ${limit} allowed`);
    await cluster.moveSlots([range], to, from);
  });

  it("T4: 5 s of CLUSTERDOWN stay within elapsed ÷ minimum + 1", async (t) => {
    const cluster = c3.value;
    const minimumMs = 500;
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds } },
      refreshMinimumMs: minimumMs,
      commandTimeoutMs: 300,
    });
    const victim = cluster.primaries[0]!;
    const [first] = (await cluster.view()).find(({ id }) => id === cluster.primaries[1]!.id)!.slots[0]!;
    const key = keysIn([first]).get(first)!;
    await victim.kill();
    try {
      const downs = (): Promise<KeylaneError> =>
        lanes.get(key).then(
          () => assert.fail("the cluster is still up"),
          (error: KeylaneError) => error,
        );
      await until(async () => (await downs()).code === "KEYLANE_ERR_CLUSTERDOWN");
      const before = await topologyCalls(cluster);
      const began = performance.now();
      const codes = new Map<string, number>();
      while (performance.now() - began < 5000) {
        for (const { code, outcome } of await Promise.all(Array.from({ length: 100 }, downs))) {
          codes.set(`${code} ${outcome}`, (codes.get(`${code} ${outcome}`) ?? 0) + 1);
        }
      }
      const calls = (await topologyCalls(cluster)) - before;
      const limit = Math.floor((performance.now() - began) / minimumMs) + 1;
      const told = ["KEYLANE_ERR_CLUSTERDOWN not-sent", "KEYLANE_ERR_CLUSTERDOWN rejected"];
      assert.deepEqual([...codes.keys()].toSorted(), told);
      t.diagnostic(`${calls} topology requests, ${limit} allowed`);
      assert.ok(calls >= 1 && calls <= limit, `${calls} topology requests, ${limit} allowed`);
    } finally {
      await victim.start();
      await cluster.waitHealthy();
    }
    assert.equal(await until(() => lanes.set(key, "up again")), true);
  });
});
