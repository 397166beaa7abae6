/** Refusals that a real server gives rarely or never, from a scripted one: what is retried, in which order, and how it ends. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Keylane } from "keylane";
import type { KeylaneErrorCode } from "keylane";

import { useSingle } from "../support/fixtures.js";
import { openLanes, rejection, useLanes } from "../support/lanes.js";
import { failure, OK, raw, Stub } from "../support/stub.js";
import type { StubCall } from "../support/stub.js";
import { until, within } from "../support/until.js";

type Lanes = Keylane<{ readonly all: { readonly prefixes: readonly [""]; readonly nodes: readonly [string] } }>;

/** Two stubs that share the slots, and a keylane on them. */
async function pair(
  more: object = {},
): Promise<{ a: Stub; b: Stub; lanes: Lanes; [Symbol.asyncDispose](): Promise<void> }> {
  const [a, b] = (await Stub.cluster(2)) as [Stub, Stub];
  const lanes = await Keylane.open({ domains: { all: { prefixes: [""], nodes: [a.address] } }, ...more });
  const end = async (): Promise<void> => {
    await lanes.close({ timeoutMs: 1 });
    await Promise.all([a.stop(), b.stop()]);
  };
  return { a, b, lanes, [Symbol.asyncDispose]: end };
}

const values = (calls: readonly StubCall[]): string[] => calls.map(({ args }) => String(args[2]));

describe("scripted redirects", () => {
  it("R2: a server that computes another slot is obeyed", async () => {
    await using rig = await pair();
    const { a, b, lanes } = rig;
    const key = "a{'1':{'i32':1}}";
    assert.equal(lanes.route(key).slot, 5540);
    assert.equal(lanes.route(key).node, a.address);
    a.answer("GET", () => failure(`MOVED 12350 ${b.address}`));
    a.answer("SET", () => failure(`MOVED 12350 ${b.address}`));
    b.answer("GET", ({ args }) => `b has ${String(args[1])}`);
    b.answer("SET", () => OK);
    assert.equal(await lanes.get(key), `b has ${key}`);
    assert.equal(await lanes.set(key, "v"), true);
    assert.equal(await lanes.get(key), `b has ${key}`);
    assert.equal(lanes.route(key).slot, 5540, "the local sum does not change");
    assert.equal(lanes.route(key).node, a.address, "nor does the node of a slot that nobody spoke of");
    assert.equal(b.calls("GET").length, 2);
    assert.equal(b.calls("SET").length, 1);
    assert.equal(lanes.stats().domains["all"]!.failed, 0);
  });

  it("G5: hostile slots are not believed: the original error, the map unchanged, no prototype touched", async () => {
    await using rig = await pair();
    const { a, b, lanes } = rig;
    const maps = (): unknown[] => ["foo", "bar", "b", "x{1}"].map((key) => lanes.route(key).node);
    const before = maps();
    for (const kind of ["MOVED", "ASK"]) {
      for (const slot of ["__proto__", "-1", "16384", "1e3", ""]) {
        const text = `${kind} ${slot} ${b.address}`;
        a.answer("GET", () => failure(text));
        const error = await rejection(lanes.get("bar"), "KEYLANE_ERR_REDIRECTS", {
          outcome: "rejected",
          node: a.address,
        });
        assert.equal(error.message, text);
      }
    }
    for (const address of ["", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:1e3", "__proto__"]) {
      a.answer("GET", () => failure(`MOVED 5061 ${address}`));
      await rejection(lanes.get("bar"), "KEYLANE_ERR_REDIRECTS", { outcome: "rejected" });
    }
    assert.deepEqual(maps(), before);
    assert.equal(b.calls("GET").length, 0);
    assert.equal(([] as unknown[])[0], undefined);
    assert.equal(([] as unknown as Record<string, unknown>)["host"], undefined);
    assert.equal(({} as Record<string, unknown>)["host"], undefined);
    assert.equal(lanes.stats().domains["all"]!.moved, 0);
    a.answer("GET", () => "fine");
    assert.equal(await lanes.get("bar"), "fine");
  });

  it("MOVED without a host means the host that was asked", async () => {
    await using rig = await pair();
    const { a, b, lanes } = rig;
    a.answer("GET", () => failure(`MOVED ${lanes.route("bar").slot} :${b.port}`));
    b.answer("GET", () => "here");
    assert.equal(await lanes.get("bar"), "here");
    assert.equal(lanes.route("bar").node, b.address);
  });

  it("P1: in one batch only the moved operation is sent again; successes run once", async () => {
    await using rig = await pair();
    const { a, b, lanes } = rig;
    const moved = lanes.route("bar").slot;
    assert.ok(["bar", "b", "x{1}"].some((key) => lanes.route(key).node === a.address));
    a.answer("INCRBY", ({ args }) => (String(args[1]) === "bar" ? failure(`MOVED ${moved} ${b.address}`) : 1));
    b.answer("INCRBY", () => 1);
    const keys = Array.from({ length: 200 }, (_, i) => `k${i}`).filter((key) => lanes.route(key).node === a.address);
    const sums = await Promise.all(["bar", ...keys].map((key) => lanes.incrBy(key)));
    assert.deepEqual(new Set(sums), new Set([1]));
    assert.equal(a.calls("INCRBY").length, keys.length + 1);
    assert.equal(b.calls("INCRBY").length, 1);
  });

  it("P1: operations issued while refusals are still on their way stay behind those they follow", async () => {
    await using rig = await pair({ refreshMinimumMs: 60_000 });
    const { a, b, lanes } = rig;
    const { slot } = lanes.route("bar");
    let release: (() => void) | undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    a.answer("APPEND", async ({ calls }) => {
      if (calls > 1) await held;
      return failure(`MOVED ${slot} ${b.address}`);
    });
    b.answer("APPEND", ({ calls }) => calls);
    const calls = ["1", "2", "3"].map((value) => lanes.command("APPEND", "bar", value));
    await until(() => lanes.stats().domains["all"]!.moved === 1);
    for (const value of ["4", "5"]) calls.push(lanes.command("APPEND", "bar", value));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    release!();
    assert.deepEqual(await Promise.all(calls), [1, 2, 3, 4, 5]);
    assert.deepEqual(values(b.calls("APPEND")), ["1", "2", "3", "4", "5"]);
  });

  it("ASK to a node not known yet: it is dialled, every command is preceded by ASKING, the order stays", async () => {
    const [a, b] = (await Stub.cluster(1).then(async ([one]) => [one, await Stub.start()])) as [Stub, Stub];
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [a.address] } }, commandTimeoutMs: 5000 });
    const { slot } = lanes.route("bar");
    a.answer("APPEND", () => failure(`ASK ${slot} ${b.address}`));
    b.answer("APPEND", ({ calls, asking }) => (asking ? calls : failure(`MOVED ${slot} ${a.address}`)));
    const calls = Array.from({ length: 20 }, (_, i) => lanes.command("APPEND", "bar", i));
    assert.deepEqual(
      await Promise.all(calls),
      calls.map((_, i) => i + 1),
    );
    assert.deepEqual(
      values(b.calls("APPEND")),
      calls.map((_, i) => String(i)),
    );
    assert.equal(lanes.route("bar").node, a.address);
    await Promise.all([a.stop(), b.stop()]);
  });

  it("two nodes that send to each other are asked until one of them owns the slot", async () => {
    await using rig = await pair({ refreshMinimumMs: 60_000, commandTimeoutMs: 10_000 });
    const { a, b, lanes } = rig;
    const { slot } = lanes.route("bar");
    a.answer("INCRBY", () => failure(`MOVED ${slot} ${b.address}`));
    b.answer("INCRBY", ({ calls }) => (calls < 5 ? failure(`MOVED ${slot} ${a.address}`) : 7));
    assert.equal(await lanes.incrBy("bar"), 7);
    assert.equal(a.calls("INCRBY").length, 5);
  });

  it("two nodes that send to each other for ever: KEYLANE_ERR_REDIRECTS after maxRedirections", async () => {
    await using rig = await pair({ maxRedirections: 5, refreshMinimumMs: 60_000 });
    const { a, b, lanes } = rig;
    const { slot } = lanes.route("bar");
    a.answer("INCRBY", () => failure(`MOVED ${slot} ${b.address}`));
    b.answer("INCRBY", () => failure(`MOVED ${slot} ${a.address}`));
    await rejection(lanes.incrBy("bar"), "KEYLANE_ERR_REDIRECTS", { command: "INCRBY", slot, outcome: "rejected" });
    assert.equal(a.calls("INCRBY").length + b.calls("INCRBY").length, 6);
  });
});

describe("a node whose slots move while it is away", () => {
  it("what waited for it goes to the new owner, before what was issued later", async () => {
    const [a, b] = (await Stub.cluster(2)) as [Stub, Stub];
    const lanes = await Keylane.open({
      domains: { all: { prefixes: [""], nodes: [b.address] } },
      refreshMinimumMs: 20,
      commandTimeoutMs: 10_000,
    });
    b.answer("APPEND", ({ calls }) => calls);
    assert.equal(lanes.route("bar").node, a.address);
    await a.stop();
    await until(() => lanes.stats().domains["all"]!.nodes.some(({ state }) => state === "down"));
    const calls: Promise<unknown>[] = [];
    const append = (): void => void calls.push(lanes.command("APPEND", "bar", calls.length));
    for (let i = 0; i < 50; i += 1) append();
    await until(() => lanes.stats().domains["all"]!.nodes.some(({ waiting }) => waiting === 50));
    b.ranges = [{ from: 0, to: 16_383, nodes: [{ host: b.host, port: b.port, id: b.id }] }];
    while (lanes.route("bar").node === a.address) {
      append();
      await new Promise(setImmediate);
    }
    append();
    assert.deepEqual(
      await Promise.all(calls),
      calls.map((_, i) => i + 1),
    );
    assert.deepEqual(
      values(b.calls("APPEND")),
      calls.map((_, i) => String(i)),
    );
    await lanes.close();
    await b.stop();
  });
});

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
      await using rig = await pair({ commandTimeoutMs: 5000 });
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
    await using rig = await pair({ commandTimeoutMs: 5000 });
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
    await using rig = await pair();
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
    await rejection(open.value.get("k", { timeoutMs: 60 }), "KEYLANE_ERR_BUSY", { outcome: "rejected" });
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
    await rejection(open.value.get("k", { timeoutMs: 60 }), "KEYLANE_ERR_MASTERDOWN", { outcome: "rejected" });
    await config("replica-serve-stale-data", "yes");
    await rejection(open.value.set("k", "v", { timeoutMs: 60 }), "KEYLANE_ERR_READONLY", { outcome: "rejected" });
    const waiting = open.value.set("k", "x");
    await until(() => open.value.stats().domains["all"]!.retries > 10);
    await server.value.node.command("REPLICAOF", "NO", "ONE");
    assert.equal(await waiting, true);
    assert.equal(await open.value.get("k"), "x");
  });
});

describe("connections that break", () => {
  it("an unanswered write is unknown and not sent again; an unanswered read is asked again", async () => {
    await using rig = await pair({ commandTimeoutMs: 5000 });
    const { a, lanes } = rig;
    a.script("GET", undefined, "v");
    a.script("INCRBY", undefined, 1);
    const read = lanes.get("bar");
    const write = lanes.incrBy("bar");
    await until(() => a.calls("GET").length + a.calls("INCRBY").length === 2);
    a.disconnect();
    await rejection(write, "KEYLANE_ERR_CONNECTION_LOST", {
      command: "INCRBY",
      outcome: "unknown",
      retryable: true,
      node: a.address,
      domain: "all",
    });
    assert.equal(await read, "v");
    assert.equal(a.calls("INCRBY").length, 1);
    assert.equal(a.calls("GET").length, 2);
  });

  it("bytes that are no reply: the connection is dropped, its calls fail as unknown, the next ones work", async () => {
    for (const garbage of ["?what\r\n", "$5\r\nabc\r\n+OK\r\n", ":12x\r\n", "*-2\r\n"]) {
      await using rig = await pair({ commandTimeoutMs: 5000 });
      const { a, lanes } = rig;
      a.script("INCRBY", raw(garbage), 8);
      await rejection(lanes.incrBy("bar"), "KEYLANE_ERR_PROTOCOL", { outcome: "unknown", node: a.address });
      assert.equal(await lanes.incrBy("bar"), 8);
    }
  });

  it("a reply that nothing asked for", async () => {
    await using rig = await pair({ commandTimeoutMs: 5000 });
    const { a, lanes } = rig;
    a.script("INCRBY", raw(":1\r\n:2\r\n"), 8);
    assert.equal(await lanes.incrBy("bar"), 1);
    await until(() => lanes.stats().domains["all"]!.reconnects === 1);
    assert.equal(await lanes.incrBy("bar"), 8);
  });

  it("a value where none can be is KEYLANE_ERR_PROTOCOL, and the connection is no longer believed", async () => {
    await using rig = await pair();
    const { a, lanes } = rig;
    a.script("GET", 5, "v");
    await rejection(lanes.get("bar"), "KEYLANE_ERR_PROTOCOL", { command: "GET", node: a.address });
    assert.equal(await lanes.get("bar"), "v");
    assert.equal(lanes.stats().domains["all"]!.reconnects, 1);
  });

  it("a push between replies is passed over", async () => {
    await using rig = await pair();
    const { a, lanes } = rig;
    a.answer("GET", ({ calls }) => raw(`>2\r\n+message\r\n*1\r\n:1\r\n$1\r\n${calls}\r\n`));
    assert.deepEqual(await lanes.getMany(["bar", "bar"]), ["1", "2"]);
  });

  it("a silent node is dialled anew and costs only its own keys", async () => {
    await using rig = await pair({ commandTimeoutMs: 200, silenceTimeoutMs: 400 });
    const { a, b, lanes } = rig;
    const other = Array.from({ length: 50 }, (_, i) => `k${i}`).find((key) => lanes.route(key).node === b.address)!;
    a.answer("INCRBY", () => undefined);
    b.answer("INCRBY", ({ calls }) => calls);
    const expected = { outcome: "unknown", node: a.address, command: "INCRBY" } as const;
    const late = rejection(lanes.incrBy("bar"), "KEYLANE_ERR_TIMEOUT", expected);
    assert.equal(await lanes.incrBy(other), 1);
    await late;
    const more = lanes.incrBy("bar", 1, { timeoutMs: 2000 });
    await rejection(within(more, 5000), "KEYLANE_ERR_CONNECTION_LOST", { outcome: "unknown" });
    a.answer("INCRBY", () => 9);
    assert.equal(await lanes.incrBy("bar", 1, { timeoutMs: 5000 }), 9);
    assert.equal(b.connections.size, 1);
  });
});
