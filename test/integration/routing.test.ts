/** Keys reach the one cluster that their prefix names, and the one node that their slot names: counted on real servers. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { beforeEach, describe, it } from "node:test";

import type { SandboxCluster } from "keylane/sandbox";

import { useTriple } from "../support/fixtures.js";
import { openLanes, rejection, thrown } from "../support/lanes.js";
import { connectRaw, rawCommand } from "../support/raw.js";

const NAMES = ["user_profile", "freq_control", "realtime_billing"] as const;

async function sizeOf(cluster: SandboxCluster): Promise<number> {
  const sizes = await Promise.all(cluster.primaries.map((node) => node.command("DBSIZE")));
  return sizes.reduce<number>((sum, size) => sum + Number(size), 0);
}

describe("three domain clusters", () => {
  const triple = useTriple();
  const sizes = (): Promise<number[]> => Promise.all(triple.value.clusters.map(sizeOf));
  const nodesOf = (index: number): string[] => triple.value.clusters[index]!.seeds;

  beforeEach(async () => {
    const nodes = triple.value.clusters.flatMap((cluster) => cluster.primaries);
    await Promise.all(nodes.map((node) => node.command("FLUSHALL")));
  });

  it("R5: overlapping prefixes in every order, each key on the cluster of its longest prefix", async () => {
    const prefixes = ["user", "user_profile", "user_profile_post"];
    const orders = [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ];
    for (const [round, order] of orders.entries()) {
      const domains = Object.fromEntries(
        order.map((at) => [`d${at}`, { prefixes: [prefixes[at]!], nodes: nodesOf(at) }]),
      );
      const lanes = await openLanes({ domains });
      assert.equal(lanes.route("user_profile_x").domain, "d1");
      assert.equal(lanes.route("userx").domain, "d0");
      assert.equal(lanes.route("user_profile_post").matched, "user_profile_post");
      await lanes.set(`user_profile_x:${round}`, "1");
      await lanes.set(`userx:${round}`, "1");
      await lanes.set(`userx:${round}:again`, "1");
      await rejection(lanes.set("zzz", "1"), "KEYLANE_ERR_ROUTE", { outcome: "not-sent", message: /"zzz"/ });
      thrown(() => lanes.route("zzz"), "KEYLANE_ERR_ROUTE");
      assert.deepEqual(await sizes(), [2 * (round + 1), round + 1, 0]);
      await lanes.close();
    }
  });

  it("R5: no match goes to the configured fallback and is marked so", async () => {
    const domains = Object.fromEntries(NAMES.map((name, at) => [name, { prefixes: [`p${at}:`], nodes: nodesOf(at) }]));
    const lanes = await openLanes({ domains, fallback: { domain: "realtime_billing" } });
    assert.deepEqual(
      [lanes.route("zzz").domain, lanes.route("zzz").matched, lanes.route("p0:x").domain],
      ["realtime_billing", null, "user_profile"],
    );
    await lanes.set("zzz", "1");
    assert.deepEqual(await sizes(), [0, 0, 1]);
  });

  it("getMany crosses domains; a key without a domain fails alone", async () => {
    const { domains } = triple.value;
    const lanes = await openLanes({ domains });
    await Promise.all(["up:1", "fc:1", "rb:1"].map((key) => lanes.set(key, `of ${key}`)));
    assert.deepEqual(await sizes(), [1, 1, 1]);
    const asked = ["rb:1", "up:1", "fc:2", "fc:1", "up:1"];
    assert.deepEqual(await lanes.getMany(asked), ["of rb:1", "of up:1", null, "of fc:1", "of up:1"]);
    const mixed = await lanes.getMany(["up:1", "nowhere"], { onError: "return" });
    assert.equal(mixed[0], "of up:1");
    assert.equal((mixed[1] as { code?: string }).code, "KEYLANE_ERR_ROUTE");
  });

  it("a command whose keys are of two domains is refused, even when their slots agree", async () => {
    const lanes = await openLanes({ domains: triple.value.domains });
    assert.equal(lanes.route("up:{a}").slot, lanes.route("fc:{a}").slot);
    await rejection(lanes.command("MSET", "up:{a}", 1, "fc:{a}", 2), "KEYLANE_ERR_CROSSSLOT", {
      command: "MSET",
      domain: "user_profile",
      outcome: "not-sent",
    });
    assert.deepEqual(await sizes(), [0, 0, 0]);
  });

  it("fallback by rendezvous hashing: every key has one home and adding a domain moves about its share", async () => {
    const domains = Object.fromEntries(NAMES.map((name, at) => [name, { nodes: nodesOf(at) }]));
    const two = await openLanes({ domains, fallback: { hash: [NAMES[0], NAMES[1]] } });
    const three = await openLanes({ domains, fallback: { hash: [...NAMES] } });
    const reversed = await openLanes({ domains, fallback: { hash: NAMES.toReversed() } });
    const keys = Array.from({ length: 6000 }, (_, i) => `key:${i}`);
    let moved = 0;
    const share = new Map<string, number>();
    for (const key of keys) {
      const [before, after] = [two.route(key), three.route(key)];
      assert.equal(after.matched, null);
      assert.equal(after.domain, reversed.route(key).domain, "the order of the names does not matter");
      share.set(after.domain, (share.get(after.domain) ?? 0) + 1);
      if (before.domain === after.domain) continue;
      assert.equal(after.domain, NAMES[2], "a key moves to the new domain or not at all");
      moved += 1;
    }
    assert.ok(Math.abs(moved / keys.length - 1 / 3) < 0.03, `${moved} moved`);
    for (const name of NAMES) assert.ok(Math.abs(share.get(name)! / keys.length - 1 / 3) < 0.03, `${name}`);
    await Promise.all(keys.slice(0, 90).map((key) => three.set(key, "v")));
    const expected = NAMES.map((name) => keys.slice(0, 90).filter((key) => three.route(key).domain === name).length);
    assert.deepEqual(await sizes(), expected);
  });

  it("fallback md5-modulo: the key's MD5 as an integer modulo the domains in their order", async () => {
    const domains = Object.fromEntries(NAMES.map((name, at) => [name, { nodes: nodesOf(at) }]));
    const order = [NAMES[2], NAMES[0], NAMES[1]];
    const lanes = await openLanes({ domains, fallback: { hash: order, strategy: "md5-modulo" } });
    for (let i = 0; i < 300; i += 1) {
      const key = `user_${i}{x}`;
      const md5 = BigInt(`0x${createHash("md5").update(key).digest("hex")}`);
      assert.equal(lanes.route(key).domain, order[Number(md5 % 3n)], key);
    }
  });

  it("R2: nested and unbalanced braces have the server's slots and are found where the server keeps them", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: nodesOf(0) } } });
    const slots: [string, number][] = [
      ["foo{{bar}}zap", 4015],
      ["foo{bar}{zap}", 5061],
      ["A}B{C", 7939],
      ["a}b{c}d", 7365],
      ["abc{}", 16_021],
      ["{", 4092],
      ["", 0],
      ["a{'1':{'i32':1}}", 5540],
      ["foo{}{bar}", 8363],
    ];
    const [seed] = nodesOf(0);
    for (const [key, slot] of slots) {
      assert.equal(lanes.route(key).slot, slot, key);
      assert.equal(await rawCommand(seed!, "CLUSTER", "KEYSLOT", key), slot, key);
      assert.equal(await lanes.set(key, `at ${slot}`), true);
      assert.deepEqual(await rawCommand(lanes.route(key).node!, "GET", key), Buffer.from(`at ${slot}`));
      assert.equal(await lanes.get(key), `at ${slot}`);
    }
    assert.equal(lanes.stats().domains["all"]!.moved, 0);
  });

  it("E6: keys of 65,535, 65,536 and 70,000 bytes, in pairs that differ in the last byte, are distinct", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: nodesOf(0) } } });
    assert.equal(lanes.route("k".repeat(65_536)).slot, 2589);
    assert.equal(lanes.route("k".repeat(70_000)).slot, 6928);
    for (const length of [65_535, 65_536, 70_000]) {
      const pair = ["a", "b"].map((last) => "k".repeat(length - 1) + last) as [string, string];
      await Promise.all(pair.map((key, i) => lanes.set(key, `${length}:${i}`)));
      for (let round = 0; round < 2; round += 1) {
        assert.deepEqual(await lanes.getMany(pair), [`${length}:0`, `${length}:1`]);
      }
      const stored = await rawCommand(lanes.route(pair[1]).node!, "GET", pair[1]);
      assert.deepEqual(stored, Buffer.from(`${length}:1`));
      assert.equal(await lanes.get("k".repeat(length)), null);
    }
    assert.equal(await sizeOf(triple.value.user_profile), 6);
  });

  it("20,000 random keys: route agrees with CLUSTER KEYSLOT", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: nodesOf(0) } } });
    const alphabet = ["{", "}", "{}", "a", "Z", "0", ":", "\0", "é", "日", "👩", "\r\n", " "];
    let state = 12_345;
    const random = (below: number): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return Math.floor((state / 2 ** 32) * below);
    };
    const keys: (string | Buffer)[] = Array.from({ length: 20_000 }, (_, i) =>
      i % 2 === 0
        ? Array.from({ length: random(12) }, () => alphabet[random(alphabet.length)]!).join("")
        : Buffer.from(Array.from({ length: random(12) }, () => (random(4) === 0 ? 0x7b + 2 * random(2) : random(256)))),
    );
    const client = await connectRaw(nodesOf(0)[0]!, { timeoutMs: 30_000 });
    const told = await Promise.all(keys.map((key) => client.command("CLUSTER", "KEYSLOT", key)));
    client.close();
    for (const [i, key] of keys.entries()) assert.equal(lanes.route(key).slot, told[i], JSON.stringify(key));
  });
});
