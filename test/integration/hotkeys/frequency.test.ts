/** OBJECT FREQ of every key: on a real cluster, and what only a scripted server says. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { RawClient } from "keylane";
import { findOnServers } from "#dist/hotkeys/server-side.js";
import type { Progress } from "#dist/hotkeys/server-side.js";
import { useC3 } from "../../support/fixtures.js";
import { findOnStub, names } from "../../support/hotkeys.js";
import { rejection, useLanes } from "../../support/lanes.js";
import { failure, Stub, type StubReply } from "../../support/stub.js";

describe("OBJECT FREQ", () => {
  const c3 = useC3({ config: { "maxmemory-policy": "allkeys-lfu", "lfu-log-factor": 1 } });
  const binary = Buffer.from([0x66, 0x00, 0xff, 0xc3, 0x28]);
  const open = useLanes(() => ({ domains: { all: { prefixes: [""], nodes: c3.value.seeds, codec: "buffer" } } }));
  let client: RawClient;
  before(async () => {
    const lanes = open.value;
    client = lanes.redis("all");
    await Promise.all(Array.from({ length: 900 }, (_, i) => lanes.set(`cold:${i}`, Buffer.from("v"))));
    await lanes.set(binary, Buffer.from("v"));
    await lanes.set("hot*[1]", Buffer.from("v"));
    for (let round = 0; round < 20; round += 1) {
      await Promise.all(Array.from({ length: 100 }, () => Promise.all([lanes.get(binary), lanes.get("hot*[1]")])));
    }
  });

  it("ranks the keys of all primaries, as bytes, and tells how far it is", async () => {
    const progress: Progress[] = [];
    const found = await findOnServers(client, { top: 5, rate: 1_000_000, progress: (one) => progress.push(one) });
    assert.equal(found.keys.length, 5);
    assert.deepEqual(new Set(names(found.keys.slice(0, 2))), new Set([binary.toString(), "hot*[1]"]));
    assert.ok(found.keys.some(({ key }) => key.equals(binary)));
    const [first, , third] = found.keys;
    assert.ok(first!.frequency! > third!.frequency!, `${first!.frequency} > ${third!.frequency}`);
    for (const { key, node, slot, finder } of found.keys) {
      assert.equal(finder, "frequency");
      assert.equal((await c3.value.ownerOf(slot!)).address, node, key.toString());
    }
    assert.equal(
      found.nodes.reduce((sum, { looked }) => sum + looked, 0),
      902,
    );
    assert.deepEqual(
      found.nodes.map(({ finder, refused, complete, skipped, slots }) => ({
        finder,
        refused,
        complete,
        skipped,
        slots,
      })),
      Array.from({ length: 3 }, () => ({
        finder: "frequency",
        refused: null,
        complete: true,
        skipped: 0,
        slots: null,
      })),
    );
    for (const node of c3.value.seeds) {
      const last = progress.findLast((one) => one.node === node)!;
      assert.deepEqual([last.unit, last.done], ["keys", last.total]);
    }
  });

  it("takes a prefix literally", async () => {
    const found = await findOnServers(client, { prefix: "hot*[", rate: 1_000_000 });
    assert.deepEqual(names(found.keys), ["hot*[1]"]);
  });

  it("ends at an abort, and at its own time limit", async () => {
    const abort = new AbortController();
    const running = findOnServers(client, { rate: 10, signal: abort.signal, progress: () => abort.abort() });
    await rejection(running, "KEYLANE_ERR_ABORTED");
    const found = await findOnServers(client, { rate: 100, scanLimitMs: 1 });
    assert.ok(found.nodes.every(({ complete, looked }) => !complete && looked > 0 && looked < 300));
  });

  it("is refused by a policy that is not LFU, which the refusal names; other nodes go on", async () => {
    const [odd] = c3.value.primaries;
    await odd!.command("CONFIG", "SET", "maxmemory-policy", "volatile-ttl");
    try {
      const found = await findOnServers(client, { rate: 1_000_000 });
      const told = found.nodes.find(({ node }) => node === odd!.address)!;
      assert.equal(told.refused?.code, "KEYLANE_ERR_UNSUPPORTED");
      assert.match(told.refused!.message, /maxmemory-policy is volatile-ttl/);
      assert.deepEqual([told.refused!.node, told.server], [odd!.address, `redis ${c3.value.binary.version}`]);
      assert.ok(found.keys.length > 0 && found.keys.every(({ node }) => node !== odd!.address));
    } finally {
      await odd!.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu");
    }
  });

  it("refuses impossible options", async () => {
    for (const options of [{ top: 0 }, { rate: 1.5 }, { seconds: 3601 }, { rate: Number.NaN }]) {
      await rejection(findOnServers(client, options), "KEYLANE_ERR_ARGUMENT");
    }
  });
});

describe("OBJECT FREQ, scripted", () => {
  const open: Stub[] = [];
  after(() => Promise.all(open.map((stub) => stub.stop())));

  async function lfu(): Promise<Stub> {
    const stub = await Stub.start();
    open.push(stub);
    stub.answer("INFO", () => "redis_version:7.0.15\r\nloading:0\r\nmaxmemory_policy:allkeys-lfu\r\n");
    stub.answer("DBSIZE", () => 4);
    return stub;
  }

  it("tells each key once, and skips what is gone or has moved away", async () => {
    const stub = await lfu();
    stub.script("SCAN", ["7", ["twice", "moved", "gone"]], ["0", ["twice", "asked", "cool"]]);
    const freq: Record<string, StubReply> = { twice: 9, cool: 1, gone: null };
    stub.answer("OBJECT FREQ", ({ args }) => {
      const key = args[2]!.toString();
      if (key === "moved") return failure("MOVED 42 10.0.0.1:6379");
      if (key === "asked") return failure("ASK 42 10.0.0.1:6379");
      return freq[key];
    });
    const found = await findOnStub(stub, { rate: 1000 });
    assert.deepEqual(
      found.keys.map(({ key, frequency }) => [key.toString(), frequency]),
      [
        ["twice", 9],
        ["cool", 1],
      ],
    );
    const [node] = found.nodes;
    assert.deepEqual([node!.looked, node!.skipped, node!.complete], [6, 3, true]);
  });

  it("looks at no more keys than the rate allows", async () => {
    const stub = await lfu();
    let left = 4;
    stub.answer("SCAN", () => [(left -= 1) === 0 ? "0" : "1", ["a", "b", "c", "d", "e"]]);
    stub.answer("OBJECT FREQ", () => 1);
    const began = performance.now();
    await findOnStub(stub, { rate: 100 });
    assert.deepEqual(
      stub.calls("SCAN").map(({ args }) => args[3]!.toString()),
      ["5", "5", "5", "5"],
    );
    assert.ok(performance.now() - began >= 140, "20 keys at 100 a second, the last 5 at once");
  });

  it("tells when the policy is changed meanwhile, and what a user may not do", async () => {
    const stub = await lfu();
    stub.answer("SCAN", () => ["0", ["a"]]);
    stub.answer("OBJECT FREQ", () =>
      failure("ERR An LFU maxmemory policy is not selected, access frequency not tracked."),
    );
    const [changed] = (await findOnStub(stub)).nodes;
    assert.equal(changed!.refused?.code, "KEYLANE_ERR_UNSUPPORTED");
    stub.answer("SCAN", () => failure("NOPERM this user has no permissions to run the 'scan' command"));
    const [denied] = (await findOnStub(stub)).nodes;
    assert.deepEqual([denied!.refused?.code, denied!.refused?.node], ["KEYLANE_ERR_NOPERM", stub.address]);
  });
});
