/** MULTI … EXEC is one operation: it follows its slot whole, or did not run at all. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { KeylaneError } from "keylane";

import { useC6 } from "../../support/fixtures.js";
import { Gate } from "../../support/gate.js";
import { callsOf, keysOn } from "../../support/keys.js";
import { openLanes, rejection, thrown } from "../../support/lanes.js";
import { failure, OK, simple, Stub, type StubReply } from "../../support/stub.js";
import { until } from "../../support/until.js";

describe("P5: transactions on a cluster", () => {
  const c6 = useC6();

  it('P5: nothing but MULTI is sent; after the role swap the first call gives [1, "1"], and so do all others', async () => {
    const cluster = c6.value;
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds } },
      // No refresh helps: the reply alone must tell.
      refreshIntervalMs: 3_600_000,
      refreshMinimumMs: 3_600_000,
    });
    const primary = cluster.primaries[0]!;
    const heir = cluster.replicasOf(primary)[0]!;
    const [key, other] = (await keysOn(cluster, primary, 2)) as [string, string];
    const both = (name: string): Promise<unknown[]> => lanes.multi(name).incrBy(name).get(name).exec();
    await lanes.set(key, "0" as never);
    await until(async () => (await heir.command("DBSIZE")) === (await primary.command("DBSIZE")));
    await cluster.failover(heir);
    await until(() => primary.running);
    await heir.command("CONFIG", "RESETSTAT");
    assert.deepEqual(await both(key), [1, "1"]);
    assert.equal(await callsOf(heir, "incrby"), 1);
    const batch = await Promise.all(Array.from({ length: 30 }, () => both(other)));
    assert.deepEqual(
      batch,
      batch.map((_, at) => [at + 1, String(at + 1)]),
    );
    assert.equal(await heir.command("GET", other), "30");
    assert.equal(await heir.command("GET", key), "1");
  });

  it("P5: transactions and plain commands while their slot moves to and fro: all or nothing, in order", async () => {
    const cluster = c6.value;
    await cluster.waitHealthy();
    const [from, to] = cluster.primaries as [(typeof cluster.primaries)[0], (typeof cluster.primaries)[0]];
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], nodes: cluster.seeds } },
      commandTimeoutMs: 10_000,
    });
    const [tag] = (await keysOn(cluster, from, 1)) as [string];
    const [a, b] = [`{${tag}}a`, `{${tag}}b`];
    const { slot } = lanes.route(a);
    const phase = { moving: true };
    const moves = (async () => {
      for (let round = 0; round < 4; round += 1) {
        await cluster.moveSlots([slot], from, to);
        await cluster.moveSlots([slot], to, from);
      }
      phase.moving = false;
    })();
    const results: Promise<unknown>[] = [];
    const expected: unknown[] = [];
    for (let sum = 0; phase.moving;) {
      results.push(lanes.multi(a).incrBy(a).incrBy(b).get(a).exec(), lanes.incrBy(a), lanes.incrBy(b));
      expected.push([sum + 1, sum + 1, String(sum + 1)], sum + 2, sum + 2);
      sum += 2;
      if (results.length % 30 === 0) await Promise.all(results.slice(-3));
      else await new Promise(setImmediate);
    }
    await moves;
    assert.deepEqual(await Promise.all(results), expected);
    assert.ok(lanes.stats().domains["all"]!.moved > 0);
  });

  it("a command that fails while running is a result; a refused one means that nothing ran", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: c6.value.seeds } } });
    await lanes.command("RPUSH", "{t}list", "x");
    const results = await lanes.multi("{t}n").incrBy("{t}n").command("INCRBY", "{t}list", 1).get("{t}n").exec();
    assert.deepEqual([results[0], results[2]], [1, "1"]);
    assert.ok(results[1] instanceof KeylaneError);
    assert.equal(results[1].code, "KEYLANE_ERR_WRONGTYPE");
    const refused = lanes.multi("{t}n").incrBy("{t}n").command("SET", "{t}n").exec();
    const error = await rejection(refused, "KEYLANE_ERR_REPLY", { outcome: "rejected" });
    assert.match(error.message, /wrong number of arguments/);
    assert.equal(await lanes.get("{t}n"), "1");
    thrown(() => lanes.multi("{t}n").get("{other}"), "KEYLANE_ERR_CROSSSLOT");
    thrown(() => lanes.multi("{t}n").command("BLPOP", "{t}list", 0), "KEYLANE_ERR_COMMAND");
    thrown(() => lanes.multi("{t}n").command("WATCH", "{t}n"), "KEYLANE_ERR_COMMAND");
    assert.deepEqual(await lanes.multi("{t}n").exec(), []);
  });
});

describe("transactions on scripted servers", () => {
  it("a connection that breaks in the middle: unknown, not sent again, and the next one works", async (t) => {
    const server = await Stub.start();
    t.after(() => server.stop());
    server.script("MULTI", OK).script("INCRBY", simple("QUEUED"));
    server.answer("EXEC", ({ calls, connection }) => {
      if (calls > 1) return [7];
      connection.socket.resetAndDestroy();
      return undefined;
    });
    const opened = await openLanes({ domains: { all: { prefixes: [""], nodes: [server.address] } } });
    await rejection(opened.multi("n").incrBy("n").exec(), "KEYLANE_ERR_CONNECTION_LOST", {
      outcome: "unknown",
      command: "MULTI",
    });
    assert.deepEqual(await opened.multi("n").incrBy("n").exec(), [7]);
    assert.equal(server.calls("EXEC").length, 2);
  });

  it("MULTI itself refused: what the commands did is unknown, and is said so", async (t) => {
    const server = await Stub.start();
    t.after(() => server.stop());
    server.script("MULTI", failure("NOPERM this user has no permissions to run the 'multi' command"));
    server.script("INCRBY", 1).script("EXEC", failure("ERR EXEC without MULTI"));
    const opened = await openLanes({ domains: { all: { prefixes: [""], nodes: [server.address] } } });
    await rejection(opened.multi("n").incrBy("n").exec(), "KEYLANE_ERR_NOPERM", { outcome: "unknown" });
    server.script("GET", "still in step");
    assert.equal(await opened.get("k"), "still in step");
  });

  it("EXEC null, CLUSTERDOWN, TRYAGAIN and LOADING inside: waited for and sent again whole", async (t) => {
    const server = await Stub.start();
    t.after(() => server.stop());
    const opened = await openLanes({ domains: { all: { prefixes: [""], nodes: [server.address] } } });
    for (const refusal of ["CLUSTERDOWN Hash slot not served", "TRYAGAIN Multiple keys", "LOADING Redis is loading"]) {
      const begun = server.calls("MULTI").length;
      let tries = 0;
      server.script("MULTI", OK);
      server.answer("INCRBY", () => ((tries += 1) === 1 ? failure(refusal) : simple("QUEUED")));
      server.answer("EXEC", () =>
        tries === 1 ? failure("EXECABORT Transaction discarded because of previous errors.") : [5],
      );
      assert.deepEqual(await opened.multi("n").incrBy("n").exec(), [5], refusal);
      assert.equal(server.calls("MULTI").length, begun + 2);
    }
    server.script("INCRBY", simple("QUEUED")).script("EXEC", null);
    assert.equal(await opened.multi("n").incrBy("n").exec(), null);
  });

  it("a deadline in the middle: unknown, and later replies belong to later calls", async (t) => {
    const server = await Stub.start();
    t.after(() => server.stop());
    const answer = new Gate<StubReply>();
    server.script("MULTI", OK).script("INCRBY", simple("QUEUED")).script("GET", "mine");
    server.answer("EXEC", () => answer.opened);
    const opened = await openLanes({ domains: { all: { prefixes: [""], nodes: [server.address] } } });
    await rejection(opened.multi("n").incrBy("n").exec({ timeoutMs: 100 }), "KEYLANE_ERR_TIMEOUT", {
      outcome: "unknown",
    });
    const read = opened.get("k");
    answer.open([1]);
    assert.equal(await read, "mine");
  });
});
