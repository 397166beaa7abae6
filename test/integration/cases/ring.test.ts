/** Several standalone servers that share a domain: shares, weights, and what becomes of a dead server's keys. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { type Keylane, type NodeOption, valueOf } from "keylane";
import { type SandboxServer, startSingle } from "keylane/sandbox";

import { useFixture } from "../../support/fixtures.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { nextEvent, until } from "../../support/until.js";

const KEYS = Array.from({ length: 4000 }, (_, at) => `key:${at}`);

const open = async (nodes: readonly NodeOption[], ejectMs?: number): Promise<Keylane<never>> =>
  (await openLanes({
    domains: {
      all: {
        prefixes: [""],
        mode: "ring",
        nodes,
        value: valueOf<string>(),
        ...(ejectMs === undefined ? {} : { ejectMs }),
      },
    },
    commandTimeoutMs: 800,
  })) as unknown as Keylane<never>;
const owners = (lanes: Keylane<never>): string[] => KEYS.map((key) => lanes.route(key).node!);
const set = (lanes: Keylane<never>, key: string, value: string): Promise<boolean> => lanes.set(key, value as never);
/** A key whose home is a server. */
const keyOf = (lanes: Keylane<never>, server: SandboxServer, prefix = "x"): string =>
  Array.from({ length: 500 }, (_, n) => `${prefix}${n}`).find((key) => lanes.route(key).node === server.address)!;

describe("rings", () => {
  const servers = useFixture(
    () => Promise.all([0, 1, 2, 3].map(() => startSingle())),
    (started) => Promise.all(started.map((server) => server.stop())),
  );
  const at = (index: number): SandboxServer => servers.value[index]!;

  it("keys are where route says, one hash tag on one server, and the order of the list does not matter", async () => {
    const addresses = [0, 1, 2].map((index) => at(index).address);
    const lanes = await open(addresses);
    const turned = await open(addresses.toReversed());
    assert.deepEqual(owners(turned), owners(lanes));
    for (const key of KEYS.slice(0, 50)) {
      await set(lanes, key, `value of ${key}`);
      const server = servers.value.find(({ address }) => address === lanes.route(key).node)!;
      assert.equal(await server.node.command("GET", key), `value of ${key}`);
    }
    assert.deepEqual(
      await turned.getMany(KEYS.slice(0, 50)),
      KEYS.slice(0, 50).map((key) => `value of ${key}`),
    );
    const tagged = new Set(KEYS.slice(0, 100).map((key) => lanes.route(`{user}${key}`).node));
    assert.equal(tagged.size, 1);
    assert.deepEqual(await lanes.multi("{t}n").incrBy("{t}n").get("{t}n").exec(), [1, "1"]);
    assert.deepEqual(await lanes.script("return {KEYS[1], KEYS[2]}").run(["{t}a", "{t}b"]), ["{t}a", "{t}b"]);
  });

  it("a server that comes or goes moves its own share and nothing else", async () => {
    const three = owners(await open([0, 1, 2].map((index) => at(index).address)));
    const four = owners(await open([0, 1, 2, 3].map((index) => at(index).address)));
    const moved = KEYS.filter((_, key) => three[key] !== four[key]);
    for (const [key, owner] of four.entries()) if (owner !== three[key]) assert.equal(owner, at(3).address);
    assert.ok(Math.abs(moved.length / KEYS.length - 1 / 4) < 0.03, `${moved.length} of ${KEYS.length} keys moved`);
  });

  it("weights are shares", async () => {
    const nodes = [0, 1, 2].map((index) => {
      const { host, port } = at(index).node;
      return { host, port, weight: index + 1 };
    });
    const lanes = await open(nodes);
    const counts = [0, 1, 2].map((index) => owners(lanes).filter((node) => node === at(index).address).length);
    for (const [index, count] of counts.entries()) {
      const share = (index + 1) / 6;
      assert.ok(Math.abs(count / KEYS.length - share) < 0.03, `server ${index} has ${count} of ${KEYS.length}`);
    }
    const even = owners(await open([0, 1, 2].map((index) => at(index).address)));
    const heavier = owners(lanes).map((owner, key) => [even[key], owner]);
    for (const [before, after] of heavier.slice(0, 200)) {
      assert.ok(before === after || after !== at(0).address, "nothing moves to the server whose share shrank");
    }
  });

  it("a dead server's keys fail with its name and the reason; the others see nothing", async () => {
    const lanes = await open([0, 1, 2].map((index) => at(index).address));
    const [dead, alive] = [at(2), at(0)];
    const [lost, kept] = [keyOf(lanes, dead), keyOf(lanes, alive)];
    await set(lanes, lost, "there");
    const down = nextEvent(lanes, "node:down");
    await dead.node.kill();
    await down;
    const expected = { outcome: "not-sent", node: dead.address, retryable: true } as const;
    const [refused] = await Promise.all([
      rejection(lanes.incrBy(lost), "KEYLANE_ERR_TIMEOUT", expected),
      ...Array.from({ length: 100 }, () => lanes.incrBy(kept)),
    ]);
    assert.match(refused.message, /ECONNREFUSED/);
    assert.equal(lanes.route(lost).node, dead.address, "without ejectMs nothing moves");
    await dead.node.start();
    assert.equal(await lanes.incrBy(lost, 1, { timeoutMs: 10_000 } as never), 1);
  });

  it("with ejectMs caches move to the next server and come back; counters never move, whatever they waited for", async () => {
    const lanes = await open(
      [0, 1, 2].map((index) => at(index).address),
      300,
    );
    const dead = at(1);
    const others = owners(lanes);
    const cache = keyOf(lanes, dead, "cache");
    const counter = keyOf(lanes, dead, "counter");
    const [list, tag] = [keyOf(lanes, dead, "list"), keyOf(lanes, dead, "tag")];
    await Promise.all([set(lanes, cache, "old"), lanes.incrBy(counter, 5)]);
    const degraded = nextEvent(lanes, "degraded");
    const down = nextEvent(lanes, "node:down");
    await dead.node.kill();
    await down;
    // These are accepted while the server is waited for, and still may not move when it is given up.
    const waiting = [
      lanes.incrBy(counter, 1, { timeoutMs: 5000 } as never),
      lanes.command("RPUSH", list, "x", { timeoutMs: 5000 } as never),
      lanes.multi(tag).incrBy(tag).exec({ timeoutMs: 5000 }),
      lanes.script("return redis.call('INCR', KEYS[1])").run(counter, [], { timeoutMs: 5000 }),
    ];
    const read = lanes.get(cache, { timeoutMs: 5000 } as never);
    const refusals = Promise.all(
      waiting.map((call) => rejection(call, "KEYLANE_ERR_NO_NODE", { outcome: "not-sent" })),
    );
    await degraded;
    for (const { message } of await refusals) assert.match(message, new RegExp(dead.address));
    assert.equal(await read, null, "a cache misses");
    assert.notEqual(lanes.route(cache).node, dead.address);
    assert.equal(await set(lanes, cache, "new"), true);
    assert.equal(await lanes.get(cache), "new");
    assert.equal(await lanes.expire(cache, 60_000), true);
    await rejection(lanes.incrBy(counter), "KEYLANE_ERR_NO_NODE", { outcome: "not-sent" });
    const now = owners(lanes);
    for (const [key, owner] of others.entries()) {
      if (owner !== dead.address) assert.equal(now[key], owner, "other servers' keys stay");
    }
    for (const server of [at(0), at(2)]) assert.equal(await server.node.command("EXISTS", counter, list, tag), 0);

    await dead.node.start();
    await until(() => lanes.route(cache).node === dead.address, { what: "the server is back in the ring" });
    assert.deepEqual(owners(lanes), others);
    assert.equal(await lanes.incrBy(counter, 1, { timeoutMs: 5000 } as never), 1, "an empty server counts anew");
  });

  it("the last server is never taken out", async () => {
    const lanes = await open([at(3).address], 100);
    const down = nextEvent(lanes, "node:down");
    await at(3).node.kill();
    await down;
    await rejection(lanes.get("k", { timeoutMs: 500 } as never), "KEYLANE_ERR_TIMEOUT", { node: at(3).address });
    assert.equal(lanes.route("k").node, at(3).address);
    await at(3).node.start();
    assert.equal(await lanes.get("k", { timeoutMs: 10_000 } as never), null);
  });
});
