/** Opening: what cannot be reached, will not let in or is no cluster, and servers that know less than others. */
import assert from "node:assert/strict";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";

import { Keylane, KeylaneError } from "keylane";
import type { OpenOptions } from "keylane";
import { startCluster, startSingle } from "keylane/sandbox";

import { useC3, useSingle } from "../support/fixtures.js";
import { errorIs, openLanes, rejection } from "../support/lanes.js";
import { Relay } from "../support/relay.js";
import { failure, Stub } from "../support/stub.js";
import { nextEvent, until, within } from "../support/until.js";

const one = (nodes: string[], more: object = {}): OpenOptions => ({
  domains: { front: { prefixes: [""], nodes, ...more } },
  connectTimeoutMs: 400,
});

/** A port on which nobody listens. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}

describe("opening", () => {
  const single = useSingle();

  it("refused options never dial", async () => {
    await rejection(Keylane.open({ domains: {} }), "KEYLANE_ERR_OPTIONS", { outcome: "not-sent" });
    await rejection(Keylane.open(undefined as never), "KEYLANE_ERR_OPTIONS");
    const twice = { a: { prefixes: ["x"], nodes: ["h:1"] }, b: { prefixes: ["x"], nodes: ["h:1"] } };
    await rejection(Keylane.open({ domains: twice }), "KEYLANE_ERR_OPTIONS", { message: /domains\.b\.prefixes\.0/ });
  });

  it("nodes that nobody listens on: after the deadline, all named, with the domain and why", async () => {
    const nodes = [`127.0.0.1:${await closedPort()}`, `127.0.0.1:${await closedPort()}`];
    const began = performance.now();
    const error = await rejection(Keylane.open(one(nodes)), "KEYLANE_ERR_CONNECT", {
      domain: "front",
      node: nodes[0]!,
      outcome: "not-sent",
      retryable: true,
      message: /domain front .*within 400 ms/,
    });
    assert.ok(performance.now() - began >= 390);
    for (const node of nodes) assert.ok(error.message.includes(`${node} (connect ECONNREFUSED`), error.message);
    assert.match((error.cause as Error).message, /ECONNREFUSED/);
  });

  it("a node that accepts and says nothing", async (t) => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => sockets.push(socket.on("error", () => undefined)));
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    t.after(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const node = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const call = Keylane.open(one([node]));
    await within(rejection(call, "KEYLANE_ERR_CONNECT", { node, domain: "front" }), 5000);
  });

  it("a host name that does not resolve", async () => {
    const error = await rejection(Keylane.open(one(["no-such-host.invalid:6379"])), "KEYLANE_ERR_CONNECT", {
      node: "no-such-host.invalid:6379",
    });
    assert.match(error.message, /ENOTFOUND|EAI_AGAIN|no answer/);
  });

  it("a peer that does not speak RESP", async (t) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    t.after(() => server.close());
    const node = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    await within(rejection(Keylane.open(one([node])), "KEYLANE_ERR_CONNECT", { node }), 5000);
  });

  it("one seed of two is enough", async () => {
    const cluster = await startCluster({ primaries: 1 });
    try {
      const lanes = await Keylane.open(one([`127.0.0.1:${await closedPort()}`, cluster.seeds[0]!]));
      assert.equal(await lanes.set("k", "v"), true);
      await lanes.close();
    } finally {
      await cluster.stop();
    }
  });

  it("a server that is no cluster says so at once, and what to do", async () => {
    const node = single.value.address;
    await rejection(Keylane.open({ ...one([node]), connectTimeoutMs: 60_000 }), "KEYLANE_ERR_NOT_CLUSTER", {
      domain: "front",
      node,
      outcome: "not-sent",
      message: /mode: "single"/,
    });
    const stub = await Stub.start({ cluster: false, shards: false });
    await rejection(Keylane.open(one([stub.address])), "KEYLANE_ERR_NOT_CLUSTER", { node: stub.address });
    await stub.stop();
  });

  it("a cluster that serves no slots", async () => {
    const stub = await Stub.start();
    stub.ranges = [];
    await rejection(Keylane.open(one([stub.address])), "KEYLANE_ERR_NO_NODE", { domain: "front", node: stub.address });
    await stub.stop();
  });

  it("natMap without the announced address", async () => {
    const stub = await Stub.start();
    const natMap = { "10.0.0.1:6379": { host: "127.0.0.1", port: 1 } };
    await rejection(Keylane.open(one([stub.address], { natMap })), "KEYLANE_ERR_UNMAPPED", {
      domain: "front",
      node: stub.address,
      message: /natMap of domain front/,
    });
    await stub.stop();
  });

  it("when one domain of two fails, nothing stays open", async () => {
    const port = await closedPort();
    const { node } = single.value;
    const before = (await node.info("clients")).get("connected_clients");
    const options = {
      domains: {
        good: { prefixes: ["g:"], nodes: [single.value.address], mode: "single" },
        bad: { prefixes: ["b:"], nodes: [`127.0.0.1:${port}`] },
      },
      connectTimeoutMs: 300,
    } as const;
    await rejection(Keylane.open(options), "KEYLANE_ERR_CONNECT", { domain: "bad" });
    await until(async () => (await node.info("clients")).get("connected_clients") === before);
  });
});

describe("credentials", () => {
  const server = useSingle({ password: "s3cret-word", users: ["app on >app-word ~app:* &* +@all -config -role"] });
  const domain = (more: object): OpenOptions => ({
    domains: { back: { prefixes: [""], nodes: [server.value.address], mode: "single", ...more } },
    connectTimeoutMs: 60_000,
  });

  it("no, a wrong or a half password fails at once and does not appear in the message", async () => {
    const faults = [
      {},
      { password: "wrong-word" },
      { username: "app", password: "s3cret-word" },
      { username: "nobody", password: "x" },
    ];
    for (const more of faults) {
      const error = await within(
        rejection(Keylane.open(domain(more)), "KEYLANE_ERR_AUTH", {
          domain: "back",
          node: server.value.address,
          outcome: "not-sent",
          retryable: false,
        }),
        5000,
      );
      assert.doesNotMatch(JSON.stringify(error) + String(error.stack), /s3cret-word|wrong-word/);
    }
  });

  it("the default user's password and an ACL user's", async () => {
    const lanes = await openLanes(domain({ password: "s3cret-word" }));
    assert.equal(await lanes.set("app:1", "v"), true);
    const app = await openLanes(domain({ username: "app", password: "app-word" }));
    assert.equal(await app.get("app:1"), "v");
  });

  it("a user without CONFIG is served; a key or command beyond its rights is KEYLANE_ERR_NOPERM", async () => {
    const app = await openLanes(domain({ username: "app", password: "app-word" }));
    const expected = { outcome: "rejected", retryable: false, domain: "back", node: server.value.address } as const;
    await rejection(app.get("other:1"), "KEYLANE_ERR_NOPERM", { ...expected, command: "GET" });
    await rejection(app.set("other:1", "v"), "KEYLANE_ERR_NOPERM", { ...expected, command: "SET" });
    assert.equal(await app.incrBy("app:n"), 1);
    assert.equal(app.stats().domains["back"]!.reconnects, 0);
  });

  it("rights revoked on an open connection are told by the calls that need them", async () => {
    const app = await openLanes(domain({ username: "app", password: "app-word" }));
    assert.equal(await app.incrBy("app:m"), 1);
    await server.value.node.command("ACL", "SETUSER", "app", "-incrby");
    await rejection(app.incrBy("app:m"), "KEYLANE_ERR_NOPERM", { command: "INCRBY" });
    assert.equal(await app.get("app:m"), "1");
    await server.value.node.command("ACL", "SETUSER", "app", "+incrby");
    assert.equal(await app.incrBy("app:m"), 2);
  });
});

describe("servers that know less", () => {
  for (const [what, options] of [
    ["RESP2 only: HELLO is refused", { resp3: false }],
    ["no CLUSTER SHARDS", { shards: false }],
    ["neither", { resp3: false, shards: false }],
    ["a password and RESP2 only", { resp3: false, password: "word" }],
    ["a password", { password: "word" }],
  ] as const) {
    it(what, async (t) => {
      const stub = await Stub.start(options);
      t.after(() => stub.stop());
      stub.answer("GET", ({ args }) => (String(args[1]) === "absent" ? null : `value of ${String(args[1])}`));
      stub.answer("SET", () => null);
      stub.answer("HGETALL", () => ["f", "1", "__proto__", "2"]);
      stub.answer("INCRBY", () => 9007199254740993n);
      const { password } = options as { password?: string };
      const lanes = await openLanes(one([stub.address], password === undefined ? {} : { password }));
      assert.deepEqual(await lanes.getMany(["a", "absent", "é"]), ["value of a", null, "value of é"]);
      assert.equal(await lanes.set("a", "v" as never, { ifAbsent: true }), false);
      assert.equal(JSON.stringify(await lanes.command("HGETALL", "h")), '{"f":"1","__proto__":"2"}');
      assert.equal(await lanes.incrBy("n"), 9007199254740993n);
    });
  }

  it("CONFIG refused or unknown: the protocol's own limit holds", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    stub.answer("CONFIG GET", () => failure("ERR unknown command 'CONFIG'"));
    stub.answer("GET", () => "v");
    const lanes = await openLanes(one([stub.address]));
    assert.equal(await lanes.get("k"), "v");
  });
});

describe("a cluster of which a node is away", () => {
  const c3 = useC3({ config: { "cluster-require-full-coverage": "no" } });

  it("opens with the nodes that answer, and tells the others' keys by their own deadline", async () => {
    const away = c3.value.primaries[2]!;
    const open = {
      domains: { part: { prefixes: [""], nodes: c3.value.seeds } },
      connectTimeoutMs: 500,
      commandTimeoutMs: 300,
    };
    away.pause();
    try {
      const lanes = await openLanes(open);
      const [degraded] = (await nextEvent(lanes, "degraded")) as [{ domain: string; reason: string }];
      assert.equal(degraded.domain, "part");
      assert.ok(degraded.reason.includes(away.address), degraded.reason);
      const keys = Array.from({ length: 60 }, (_, i) => `k${i}`);
      const results = await Promise.all(keys.map((key) => lanes.set(key, "v").catch((error: unknown) => error)));
      for (const [i, result] of results.entries()) {
        const { node } = lanes.route(keys[i]!);
        if (node === away.address) errorIs(result, "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent", node });
        else assert.equal(result, true, `${keys[i]} on ${node}`);
      }
      assert.ok(results.some((result) => result instanceof KeylaneError));
    } finally {
      away.resume();
    }
    await c3.value.waitHealthy();
  });

  it("a connection that is refused for a while comes back by itself", async (t) => {
    const server = await startSingle();
    const relay = await Relay.start(server.address);
    t.after(async () => {
      await relay.stop();
      await server.stop();
    });
    const lanes = await openLanes({ ...one([relay.address], { mode: "single" }), commandTimeoutMs: 10_000 });
    await lanes.set("k", "v");
    await relay.refuse();
    relay.cut();
    await until(() => lanes.stats().domains["front"]!.nodes[0]!.state === "down");
    const waiting = lanes.get("k");
    await relay.accept();
    assert.equal(await waiting, "v");
    assert.equal(lanes.stats().domains["front"]!.reconnects, 1);
  });
});
