/** Refusals, scripted and of a real server: what is tried again, in which order, and how it ends. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import type { KeylaneErrorCode } from "keylane";

import { useSingle } from "../support/fixtures.js";
import { rejection, useLanes } from "../support/lanes.js";
import { stubPair } from "../support/rigs.js";
import { failure } from "../support/stub.js";
import { until } from "../support/until.js";

describe("refusals that pass", () => {
  const passing: [string, KeylaneErrorCode][] = [
    ["TRYAGAIN Multiple keys request during rehashing of slot", "KEYLANE_ERR_TRYAGAIN"],
    ["CLUSTERDOWN The cluster is down", "KEYLANE_ERR_CLUSTERDOWN"],
    ["LOADING Redis is loading the dataset in memory", "KEYLANE_ERR_LOADING"],
    ["MASTERDOWN Link with MASTER is down", "KEYLANE_ERR_MASTERDOWN"],
    ["READONLY You can't write against a read only replica.", "KEYLANE_ERR_READONLY"],
    ["BUSY Redis is busy running a script.", "KEYLANE_ERR_BUSY"],
  ];

  for (const [text, code] of passing) {
    it(`${code}: tried again inside the deadline, then told`, async () => {
      await using rig = await stubPair({ commandTimeoutMs: 5000 });
      const { a, lanes } = rig;
      a.script("INCRBY", failure(text), failure(text), 7);
      assert.equal(await lanes.incrBy("bar"), 7);
      assert.equal(a.calls("INCRBY").length, 3);
      a.script("INCRBY", failure(text));
      const call = lanes.incrBy("bar", 1, { timeoutMs: 100 });
      const error = await rejection(call, code, { command: "INCRBY", outcome: "rejected", retryable: true });
      assert.equal(error.message, text);
      assert.ok(a.calls("INCRBY").length > 4);
    });
  }

  it("later operations of the slot wait behind one that is being retried; other slots do not", async () => {
    await using rig = await stubPair({ commandTimeoutMs: 5000 });
    const { a, lanes } = rig;
    let down = true;
    const ran: string[] = [];
    a.answer("APPEND", ({ args }) => {
      if (down && String(args[1]) === "bar") return failure("CLUSTERDOWN Hash slot not served");
      return ran.push(String(args[2]));
    });
    const first = lanes.command("APPEND", "bar", "first");
    await until(() => lanes.stats().domains["all"]!.retries > 0);
    const second = lanes.command("APPEND", "bar", "second");
    assert.equal(await lanes.command("APPEND", "b", "beside"), 1);
    await until(() => lanes.stats().domains["all"]!.retries > 3);
    down = false;
    assert.deepEqual(await Promise.all([first, second]), [2, 3]);
    assert.deepEqual(ran, ["beside", "first", "second"]);
  });
});

describe("refusals that stay", () => {
  const surfaced: [string, KeylaneErrorCode][] = [
    ["NOREPLICAS Not enough good replicas to write.", "KEYLANE_ERR_NOREPLICAS"],
    ["MISCONF Redis is configured to save RDB snapshots", "KEYLANE_ERR_MISCONF"],
    ["OOM command not allowed when used memory > 'maxmemory'.", "KEYLANE_ERR_OOM"],
    ["NOPERM this user has no permissions", "KEYLANE_ERR_NOPERM"],
    ["NOAUTH Authentication required.", "KEYLANE_ERR_AUTH"],
    ["WRONGTYPE Operation against a key", "KEYLANE_ERR_WRONGTYPE"],
    ["EXECABORT Transaction discarded because of previous errors.", "KEYLANE_ERR_EXECABORT"],
    ["CROSSSLOT Keys in request don't hash to the same slot", "KEYLANE_ERR_CROSSSLOT"],
    ["ERR whatever", "KEYLANE_ERR_REPLY"],
  ];

  it("are told once, with their code and the server's words, and are not sent again", async () => {
    await using rig = await stubPair();
    const { a, lanes } = rig;
    for (const [i, [text, code]] of surfaced.entries()) {
      a.script("INCRBY", failure(text));
      const error = await rejection(lanes.incrBy("bar"), code, {
        command: "INCRBY",
        outcome: "rejected",
        node: a.address,
      });
      assert.equal(error.message, text);
      assert.equal(a.calls("INCRBY").length, i + 1);
    }
  });
});

describe("refusals of a real server", () => {
  const server = useSingle({ config: { "busy-reply-threshold": 20 } });
  const open = useLanes(() => ({
    domains: { all: { prefixes: [""], nodes: [server.value.address], mode: "single" } },
    commandTimeoutMs: 5000,
  }));
  const config = (name: string, value: string | number): Promise<unknown> =>
    server.value.node.command("CONFIG", "SET", name, value);

  it("out of memory: writes are refused, reads go on", async () => {
    await open.value.set("k", "v");
    await config("maxmemory", 1);
    await rejection(open.value.set("k", "w"), "KEYLANE_ERR_OOM", { command: "SET", outcome: "rejected" });
    assert.equal(await open.value.get("k"), "v");
    await config("maxmemory", 0);
    assert.equal(await open.value.set("k", "w"), true);
  });

  it("too few replicas", async () => {
    await config("min-replicas-to-write", 1);
    await rejection(open.value.incrBy("n"), "KEYLANE_ERR_NOREPLICAS", { command: "INCRBY", outcome: "rejected" });
    await config("min-replicas-to-write", 0);
    assert.equal(await open.value.incrBy("n"), 1);
  });

  it("busy with a script: calls wait and succeed when it ends", async () => {
    const client = await server.value.node.client();
    const script = client.command("EVAL", "while true do end", 0).catch((error: Error) => error.message);
    await until(async () => {
      const told = await server.value.node.command("PING").catch((error: Error) => error.message);
      return String(told).startsWith("BUSY");
    });
    await rejection(open.value.get("k", { timeoutMs: 500 }), "KEYLANE_ERR_BUSY", { outcome: "rejected" });
    const waiting = open.value.get("k");
    await until(() => open.value.stats().domains["all"]!.retries > 5);
    await server.value.node.command("SCRIPT", "KILL");
    assert.equal(await waiting, "w");
    assert.match(String(await script), /killed/);
    client.close();
  });

  it("a replica that lost its primary: MASTERDOWN for reads, READONLY for writes", async () => {
    await config("replica-serve-stale-data", "no");
    await server.value.node.command("REPLICAOF", "127.0.0.1", 1);
    await rejection(open.value.get("k", { timeoutMs: 500 }), "KEYLANE_ERR_MASTERDOWN", { outcome: "rejected" });
    await config("replica-serve-stale-data", "yes");
    await rejection(open.value.set("k", "v", { timeoutMs: 500 }), "KEYLANE_ERR_READONLY", { outcome: "rejected" });
    const waiting = open.value.set("k", "x");
    await until(() => open.value.stats().domains["all"]!.retries > 10);
    await server.value.node.command("REPLICAOF", "NO", "ONE");
    assert.equal(await waiting, true);
    assert.equal(await open.value.get("k"), "x");
  });
});
