/** Connections that break, speak nonsense or fall silent: what is asked again, and what is unknown. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { rejection } from "../support/lanes.js";
import { stubPair } from "../support/rigs.js";
import { raw } from "../support/stub.js";
import { until, within } from "../support/until.js";

describe("connections that break", () => {
  it("an unanswered write is unknown and not sent again; an unanswered read is asked again", async () => {
    await using rig = await stubPair({ commandTimeoutMs: 5000 });
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
      await using rig = await stubPair({ commandTimeoutMs: 5000 });
      const { a, lanes } = rig;
      a.script("INCRBY", raw(garbage), 8);
      await rejection(lanes.incrBy("bar"), "KEYLANE_ERR_PROTOCOL", { outcome: "unknown", node: a.address });
      assert.equal(await lanes.incrBy("bar"), 8);
    }
  });

  it("a reply that nothing asked for", async () => {
    await using rig = await stubPair({ commandTimeoutMs: 5000 });
    const { a, lanes } = rig;
    a.script("INCRBY", raw(":1\r\n:2\r\n"), 8);
    assert.equal(await lanes.incrBy("bar"), 1);
    await until(() => lanes.stats().domains["all"]!.reconnects === 1);
    assert.equal(await lanes.incrBy("bar"), 8);
  });

  it("a value where none can be is KEYLANE_ERR_PROTOCOL, and the connection is no longer believed", async () => {
    await using rig = await stubPair();
    const { a, lanes } = rig;
    a.script("GET", 5, "v");
    await rejection(lanes.get("bar"), "KEYLANE_ERR_PROTOCOL", { command: "GET", node: a.address });
    assert.equal(await lanes.get("bar"), "v");
    assert.equal(lanes.stats().domains["all"]!.reconnects, 1);
  });

  it("a push between replies is passed over", async () => {
    await using rig = await stubPair();
    const { a, lanes } = rig;
    a.answer("GET", ({ calls }) => raw(`>2\r\n+message\r\n*1\r\n:1\r\n$1\r\n${calls}\r\n`));
    assert.deepEqual(await lanes.getMany(["bar", "bar"]), ["1", "2"]);
  });

  it("a silent node is dialled anew and costs only its own keys", async () => {
    await using rig = await stubPair({ commandTimeoutMs: 200, silenceTimeoutMs: 400 });
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
