/** TLS with a CA of its own, ACL users, and addresses that clients cannot dial (`natMap`). */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Keylane } from "keylane";
import type { OpenOptions } from "keylane";

import { useC3, useFixture, useSingle } from "../support/fixtures.js";
import { errorIs, openLanes, rejection } from "../support/lanes.js";
import { Relay } from "../support/relay.js";
import { nextEvent } from "../support/until.js";

describe("a cluster that serves TLS only, to users of its ACL", () => {
  const c3 = useC3({ tls: true, users: ["app on >app-word ~* &* +@all", "default off"] });
  const login = { username: "app", password: "app-word" };
  const domain = (more: object): OpenOptions => ({
    domains: { safe: { prefixes: [""], nodes: c3.value.seeds, ...login, ...more } },
    connectTimeoutMs: 600,
    commandTimeoutMs: 5000,
  });

  it("is reached with its CA, and redirects are followed over TLS", async () => {
    const lanes = await openLanes(domain({ tls: { ca: c3.value.tls!.ca } }));
    const keys = Array.from({ length: 100 }, (_, i) => `k${i}`);
    await Promise.all(keys.map((key) => lanes.set(key, `é:${key}`)));
    assert.deepEqual(
      await lanes.getMany(keys),
      keys.map((key) => `é:${key}`),
    );
    const { slot } = lanes.route("k0");
    const from = await c3.value.ownerOf(slot);
    const to = c3.value.primaries.find((node) => node !== from)!;
    await c3.value.moveSlots([slot], from, to);
    assert.equal(await lanes.get("k0"), "é:k0");
    assert.equal(lanes.route("k0").node, to.address);
    assert.ok(lanes.stats().domains["safe"]!.moved > 0);
    const large = "v".repeat(3_000_000);
    assert.equal(await lanes.set("large", large), true);
    assert.equal((await lanes.get("large")) === large, true);
    assert.equal(await lanes.redis("safe").get("k1"), "é:k1");
  });

  it("without its CA, under another name or without TLS it is not", async () => {
    const [node] = c3.value.seeds;
    await rejection(Keylane.open(domain({ tls: {} })), "KEYLANE_ERR_CONNECT", { node: node!, message: /certificate/ });
    const wrong = { ca: c3.value.tls!.ca, servername: "other.example" };
    await rejection(Keylane.open(domain({ tls: wrong })), "KEYLANE_ERR_CONNECT", {
      message: /altnames|other\.example/,
    });
    await rejection(Keylane.open(domain({})), "KEYLANE_ERR_CONNECT", { node: node!, domain: "safe" });
  });

  it("a wrong password over TLS is KEYLANE_ERR_AUTH", async () => {
    const tls = { ca: c3.value.tls!.ca };
    await rejection(Keylane.open(domain({ tls, password: "other-word" })), "KEYLANE_ERR_AUTH", { domain: "safe" });
  });
});

describe("a server that demands client certificates", () => {
  const server = useSingle({ tls: { clientCertificates: true } });

  it("takes ours", async () => {
    const { ca, cert, key } = server.value.tls!;
    const options = (tls: object): OpenOptions => ({
      domains: { safe: { prefixes: [""], nodes: [server.value.address], mode: "single", tls } },
      connectTimeoutMs: 1000,
    });
    const lanes = await openLanes(options({ ca, cert, key }));
    assert.equal(await lanes.set("k", "v"), true);
    assert.equal(await lanes.get("k"), "v");
    await rejection(Keylane.open(options({ ca })), "KEYLANE_ERR_CONNECT");
  });
});

describe("a user with few rights", () => {
  const rights = "~app:* resetchannels -@all +get +set +cluster|slots";
  const c3 = useC3({ users: [`app on >app-word ${rights}`] });

  it("needs no more than CLUSTER SLOTS and the commands it calls", async () => {
    const lanes = await openLanes({
      domains: { few: { prefixes: [""], nodes: c3.value.seeds, username: "app", password: "app-word" } },
    });
    const keys = Array.from({ length: 30 }, (_, i) => `app:${i}`);
    await Promise.all(keys.map((key) => lanes.set(key, "v")));
    assert.deepEqual(new Set(await lanes.getMany(keys)), new Set(["v"]));
    await rejection(lanes.incrBy("app:n"), "KEYLANE_ERR_NOPERM", { command: "INCRBY", outcome: "rejected" });
    await rejection(lanes.get("other"), "KEYLANE_ERR_NOPERM", { command: "GET" });
    assert.equal(lanes.stats().domains["few"]!.reconnects, 0);
  });
});

describe("natMap", () => {
  const c3 = useC3({
    announce: (index) => ({ hostname: `node-${index}.example`, endpoint: "hostname" }),
  });
  const relays = useFixture(
    () => Promise.all(c3.value.primaries.map((node) => Relay.start(node.address))),
    (started) => Promise.all(started.map((relay) => relay.stop())),
  );
  const announced = (index: number): string => `node-${index}.example:${c3.value.primaries[index]!.port}`;
  const table = (indices: readonly number[]): Record<string, { host: string; port: number }> =>
    Object.fromEntries(indices.map((i) => [announced(i), { host: "127.0.0.1", port: relays.value[i]!.port }]));

  for (const form of ["table", "function"] as const) {
    it(`as a ${form}: announced addresses are dialled through the relays, MOVED included`, async () => {
      const entries = table([0, 1, 2]);
      const natMap = form === "table" ? entries : (name: string) => entries[name] ?? null;
      const lanes = await openLanes({
        domains: { far: { prefixes: [""], nodes: [relays.value[0]!.address], natMap } },
        commandTimeoutMs: 5000,
      });
      const keys = Array.from({ length: 60 }, (_, i) => `${form}:${i}`);
      await Promise.all(keys.map((key) => lanes.set(key, `v:${key}`)));
      const mine = relays.value.map((relay) => relay.address);
      assert.deepEqual(new Set(keys.map((key) => lanes.route(key).node)), new Set(mine));
      const { slot } = lanes.route(keys[0]!);
      const from = await c3.value.ownerOf(slot);
      const to = c3.value.primaries.find((node) => node !== from)!;
      await c3.value.moveSlots([slot], from, to);
      assert.deepEqual(
        await lanes.getMany(keys),
        keys.map((key) => `v:${key}`),
      );
      assert.equal(lanes.route(keys[0]!).node, mine[c3.value.primaries.indexOf(to)]);
      assert.ok(lanes.stats().domains["far"]!.moved > 0);
    });
  }

  it("T3: an address missing from the map is one error event and costs its own slots; the rest work", async () => {
    const lanes = await openLanes({
      domains: { far: { prefixes: [""], nodes: [relays.value[0]!.address], natMap: table([0, 1]) } },
      commandTimeoutMs: 300,
      refreshMinimumMs: 60_000,
    });
    const [early] = await nextEvent(lanes, "error");
    errorIs(early, "KEYLANE_ERR_UNMAPPED", { domain: "far", node: announced(2) });
    const keys = Array.from({ length: 60 }, (_, i) => `part:${i}`);
    const { slot } = lanes.route(keys.find((key) => lanes.route(key).node !== null)!);
    const results = await Promise.allSettled(keys.map((key) => lanes.set(key, "v")));
    for (const [i, result] of results.entries()) {
      const owner = c3.value.primaries.indexOf(await c3.value.ownerOf(lanes.route(keys[i]!).slot));
      if (owner === 2) {
        assert.equal((result as PromiseRejectedResult).reason.code, "KEYLANE_ERR_UNMAPPED", keys[i]);
        assert.equal(lanes.route(keys[i]!).node, null);
      } else assert.deepEqual(result, { status: "fulfilled", value: true }, keys[i]);
    }
    const [to, from] = [c3.value.primaries[2]!, await c3.value.ownerOf(slot)];
    const key = keys.find((one) => lanes.route(one).slot === slot)!;
    await c3.value.moveSlots([slot], from, to);
    let again = 0;
    lanes.on("error", () => (again += 1));
    const error = await rejection(lanes.get(key), "KEYLANE_ERR_UNMAPPED", { outcome: "rejected" });
    assert.match(error.message, /no entry for node-2\.example:/);
    assert.equal(again, 0, "what was told once is not told again");
  });
});
