/** `staleIfErrorMs`: what is answered while a domain's servers cannot be reached, for how long, and what others notice. */
import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { describe, it } from "node:test";

import { startCluster, startSingle } from "keylane/sandbox";
import type { SandboxServer } from "keylane/sandbox";
import type { CacheMessage } from "keylane";

import { useSingle } from "../../support/fixtures.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { OK, Stub } from "../../support/stub.js";
import { nextEvent, until } from "../../support/until.js";

/** Distance of the loads that ask whether a node is back, in milliseconds. */
const PROBE_MS = 250;

interface Context {
  after(fn: () => unknown): void;
}

/** Collects what `keylane:cache` says of a domain while a test runs. */
function cacheMessages(t: Context, domain: string): CacheMessage[] {
  const messages: CacheMessage[] = [];
  const listener = (message: unknown): void => {
    if ((message as CacheMessage).domain === domain) messages.push(message as CacheMessage);
  };
  subscribe("keylane:cache", listener);
  t.after(() => unsubscribe("keylane:cache", listener));
  return messages;
}

/** A domain on a server of its own, beside one on a server that stays. */
async function twoDomains(t: Context, steady: SandboxServer, cache: object, ill?: SandboxServer) {
  const own = ill ?? (await startSingle());
  if (ill === undefined) t.after(() => own.stop());
  const lanes = await openLanes({
    domains: {
      ill: { prefixes: ["i:"], nodes: [own.address], mode: "single", cache: { mode: "all", ...cache } },
      well: { prefixes: ["w:"], nodes: [steady.address], mode: "single", cache: { mode: "all" } },
    },
    commandTimeoutMs: 200,
  });
  const degraded: { domain: string; reason: string }[] = [];
  lanes.on("degraded", (event) => degraded.push(event));
  return { lanes, own, degraded };
}

describe("staleIfErrorMs", () => {
  const steady = useSingle();

  it("answers what the lost connection fed, once the server is gone; fresh again when it is back", async (t) => {
    const { lanes, own, degraded } = await twoDomains(t, steady.value, { staleIfErrorMs: 600_000 });
    const messages = cacheMessages(t, "ill");
    await own.node.command("SET", "i:fed", "old");
    await lanes.warm(["i:fed"]);
    await own.node.kill();
    await until(() => lanes.peek("i:fed") === undefined);
    assert.equal(await lanes.get("i:fed"), "old");
    assert.equal(lanes.peek("i:fed"), undefined, "peek gives nothing past its expiry");
    const reads = await Promise.all(Array.from({ length: 100 }, () => lanes.get("i:fed")));
    assert.deepEqual(new Set(reads), new Set(["old"]));
    assert.equal(await lanes.get("i:fed", { timeoutMs: 100 }), "old");
    assert.equal(await lanes.get(Buffer.from("i:fed")), "old");
    assert.deepEqual(await lanes.getMany(["i:fed", "i:fed"]), ["old", "old"]);
    const { cache } = lanes.stats();
    assert.equal(cache!.staleHits, 105);
    assert.equal(messages.filter(({ kind }) => kind === "stale").length, 105);
    await rejection(lanes.get("i:never"), "KEYLANE_ERR_TIMEOUT");
    const told = degraded.filter(({ reason }) => reason.startsWith("cached values are answered past their expiry"));
    assert.deepEqual(
      told.map(({ domain }) => domain),
      ["ill"],
    );

    await own.node.start();
    await own.node.command("SET", "i:fed", "new");
    await until(() => lanes.stats().domains["ill"]!.nodes[0]!.state === "ready");
    assert.equal(await lanes.get("i:fed"), "new");
    assert.equal(lanes.peek("i:fed"), "new");
    assert.equal(await lanes.get("i:never"), null);
    const { staleHits } = lanes.stats().cache!;
    await own.node.command("SET", "i:fed", "newer");
    await until(() => lanes.peek("i:fed") === undefined);
    assert.equal(await lanes.get("i:fed"), "newer");
    assert.equal(lanes.stats().cache!.staleHits, staleHits);
  });

  it("answers values past their time to live", async (t) => {
    const { lanes, own } = await twoDomains(t, steady.value, { staleIfErrorMs: 600_000, ttlMs: 50, negativeTtlMs: 50 });
    await own.node.command("SET", "i:k", "v");
    assert.equal(await lanes.get("i:k"), "v");
    assert.equal(await lanes.get("i:none"), null);
    await until(() => lanes.peek("i:k") === undefined && lanes.peek("i:none") === undefined);
    own.node.pause();
    assert.equal(await lanes.get("i:k"), "v");
    assert.equal(await lanes.get("i:none"), null);
    own.node.resume();
    await until(async () => {
      await lanes.get("i:k");
      return lanes.peek("i:k") === "v";
    });
  });

  it("does nothing unless it is asked for: the error surfaces", async (t) => {
    const { lanes, own, degraded } = await twoDomains(t, steady.value, {});
    await own.node.command("SET", "i:k", "v");
    assert.equal(await lanes.get("i:k"), "v");
    await own.node.kill();
    await until(() => lanes.peek("i:k") === undefined);
    await rejection(lanes.get("i:k"), "KEYLANE_ERR_TIMEOUT");
    await rejection(lanes.get("i:k"), "KEYLANE_ERR_TIMEOUT");
    assert.equal(lanes.stats().cache!.staleHits, 0);
    assert.deepEqual(degraded, []);
  });

  it("surfaces the error past its limit", async (t) => {
    const { lanes, own } = await twoDomains(t, steady.value, { staleIfErrorMs: 700 });
    await own.node.command("SET", "i:k", "v");
    assert.equal(await lanes.get("i:k"), "v");
    await own.node.kill();
    await until(() => lanes.peek("i:k") === undefined);
    assert.equal(await lanes.get("i:k"), "v");
    let answers = 0;
    const error = await until(async () => {
      const [read] = await Promise.allSettled([lanes.get("i:k")]);
      if (read.status === "rejected") return read.reason as Error;
      assert.equal(read.value, "v");
      answers += 1;
      return null;
    });
    assert.ok(answers > 0);
    await rejection(Promise.reject(error), "KEYLANE_ERR_TIMEOUT");
    await rejection(lanes.get("i:k"), "KEYLANE_ERR_TIMEOUT");
  });

  it("never answers a value that is known to have changed, or was dropped", async (t) => {
    const { lanes, own } = await twoDomains(t, steady.value, { staleIfErrorMs: 600_000 });
    for (const key of ["i:changed", "i:dropped", "i:written", "i:kept"]) await own.node.command("SET", key, "old");
    await lanes.warm(["i:changed", "i:dropped", "i:written", "i:kept"]);
    await own.node.command("SET", "i:changed", "new");
    await until(() => lanes.peek("i:changed") === undefined);
    lanes.invalidate("i:dropped");
    await own.node.kill();
    await until(() => lanes.peek("i:kept") === undefined);
    await rejection(lanes.set("i:written", "new"), "KEYLANE_ERR_TIMEOUT");
    assert.equal(await lanes.get("i:kept"), "old");
    for (const key of ["i:changed", "i:dropped", "i:written"]) await rejection(lanes.get(key), "KEYLANE_ERR_TIMEOUT");
  });

  it("leaves another domain alone: no error, tracked, answered from memory", async (t) => {
    const { lanes, own, degraded } = await twoDomains(t, steady.value, { staleIfErrorMs: 600_000 });
    await own.node.command("SET", "i:k", "v");
    await steady.value.node.command("SET", "w:k", "0");
    await lanes.warm(["i:k", "w:k"]);
    await own.node.kill();
    await until(() => lanes.peek("i:k") === undefined);
    const before = lanes.stats();
    for (let i = 1; i <= 20; i += 1) {
      assert.equal(await lanes.get("i:k"), "v");
      assert.equal(await lanes.get("w:k"), String(i - 1));
      assert.equal(lanes.peek("w:k"), String(i - 1));
      await steady.value.node.command("SET", "w:k", i);
      await until(() => lanes.peek("w:k") === undefined, { everyMs: 1 });
    }
    const { domains, cache } = lanes.stats();
    assert.equal(domains["well"]!.failed, 0);
    assert.equal(domains["well"]!.reconnects, 0);
    assert.equal(cache!.staleness, "tracked");
    assert.equal(cache!.staleHits - before.cache!.staleHits, 20);
    assert.deepEqual(new Set(degraded.map(({ domain }) => domain)), new Set(["ill"]));
  });

  it("asks at most once in 250 ms whether the server is back", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    const asked: number[] = [];
    const phase = { out: false };
    stub.answer("CLIENT TRACKING", () => OK).answer("PTTL", () => -1);
    stub.answer("GET", ({ args }) => {
      if (!phase.out) return args[1]!;
      asked.push(performance.now());
      return undefined;
    });
    const lanes = await openLanes({
      domains: {
        all: {
          prefixes: [""],
          nodes: [stub.address],
          mode: "single",
          cache: { mode: "all", ttlMs: 30, staleIfErrorMs: 60_000 },
        },
      },
      commandTimeoutMs: 100,
      silenceTimeoutMs: 60_000,
    });
    assert.equal(await lanes.get("k"), "k");
    phase.out = true;
    await until(() => lanes.peek("k") === undefined);
    await until(
      async () => {
        assert.equal(await lanes.get("k"), "k");
        return asked.length >= 6;
      },
      { everyMs: 1 },
    );
    const distances = asked.slice(1).map((at, index) => at - asked[index]!);
    // A probe is sent at the end of its turn, and seen when the stub reads it.
    assert.ok(Math.min(...distances) > PROBE_MS / 2, distances.join(" "));
    assert.equal(lanes.stats().cache!.loads, 1 + asked.length);
  });
});

describe("staleIfErrorMs on a cluster", () => {
  it("one node stopped: its keys are answered past their expiry, the others' as ever", async (t) => {
    const cluster = await startCluster({ config: { "cluster-require-full-coverage": "no" } });
    t.after(() => cluster.stop());
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds, cache: { mode: "all", staleIfErrorMs: 600_000 } } },
      commandTimeoutMs: 300,
    });
    const degraded: string[] = [];
    lanes.on("degraded", ({ reason }) => degraded.push(reason));
    const [gone, ...rest] = cluster.primaries as [(typeof cluster.primaries)[0], ...typeof cluster.primaries];
    const lost = await keysOn(cluster, gone, 20);
    const kept = (await Promise.all(rest.map((node) => keysOn(cluster, node, 10)))).flat();
    await Promise.all([...lost, ...kept].map((key) => lanes.set(key, `v:${key}`)));
    assert.equal(await lanes.warm([...lost, ...kept]), 40);
    await gone.kill();
    await until(() => lost.every((key) => lanes.peek(key) === undefined));
    const gets = await Promise.all(rest.map((node) => callsOf(node, "get")));
    const { staleHits } = lanes.stats().cache!;
    for (let round = 0; round < 5; round += 1) {
      assert.deepEqual(
        await lanes.getMany(lost),
        lost.map((key) => `v:${key}`),
      );
      assert.deepEqual(
        await lanes.getMany(kept),
        kept.map((key) => `v:${key}`),
      );
      for (const key of kept) assert.equal(lanes.peek(key), `v:${key}`);
    }
    assert.equal(lanes.stats().cache!.staleHits - staleHits, 100);
    assert.deepEqual(await Promise.all(rest.map((node) => callsOf(node, "get"))), gets, "answered from memory");
    const told = degraded.filter((reason) => reason.startsWith("cached values are answered past their expiry"));
    assert.equal(told.length, 1);
    await gone.start();
    await cluster.waitHealthy();
    await Promise.all(lost.map((key) => gone.command("SET", key, `new:${key}`)));
    await until(async () => (await lanes.get(lost[0]!)) === `new:${lost[0]!}`);
    assert.deepEqual(
      await lanes.getMany(lost),
      lost.map((key) => `new:${key}`),
    );
  });
});

describe("keylane:cache", () => {
  const server = useSingle();

  it("tells loads and refreshes, what they took, and their errors; no keys, no values", async (t) => {
    const messages = cacheMessages(t, "told");
    const lanes = await openLanes({
      domains: {
        told: {
          prefixes: [""],
          nodes: [server.value.address],
          mode: "single",
          cache: { mode: "all", refreshAfterMs: 20, ttlMs: 600_000 },
        },
      },
    });
    await server.value.node.command("SET", "secret-key", "secret-value");
    await lanes.get("secret-key");
    assert.equal(messages.length, 1);
    await lanes.get("secret-key");
    assert.equal(messages.length, 1, "a hit is no message");
    await until(() => lanes.peek("secret-key") !== undefined && messages.length >= 2);
    await server.value.node.command("RPUSH", "secret-list", "a");
    await rejection(lanes.get("secret-list"), "KEYLANE_ERR_WRONGTYPE");
    const [load, refresh] = messages;
    const failed = messages.find(({ error }) => error !== null);
    for (const [message, kind, error] of [
      [load, "load", null],
      [refresh, "refresh", null],
      [failed, "load", "KEYLANE_ERR_WRONGTYPE"],
    ] as const) {
      assert.deepEqual(Object.keys(message!).toSorted(), ["domain", "durationMs", "error", "kind"]);
      assert.deepEqual([message!.domain, message!.kind, message!.error], ["told", kind, error]);
      assert.ok(message!.durationMs! > 0 && message!.durationMs! < 10_000);
    }
  });

  it("tells stale answers, without a duration", async (t) => {
    const own = await startSingle();
    t.after(() => own.stop());
    const messages = cacheMessages(t, "ill");
    const { lanes } = await twoDomains(t, server.value, { staleIfErrorMs: 60_000 }, own);
    await own.node.command("SET", "i:k", "v");
    await lanes.get("i:k");
    const down = nextEvent(lanes, "node:down");
    await own.node.kill();
    await down;
    assert.equal(await lanes.get("i:k"), "v");
    const kinds = messages.map(({ kind, durationMs, error }) => [kind, durationMs === null, error]);
    assert.deepEqual(kinds, [
      ["load", false, null],
      ["load", false, "KEYLANE_ERR_TIMEOUT"],
      ["stale", true, null],
    ]);
  });
});
