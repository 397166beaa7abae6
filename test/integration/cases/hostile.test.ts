/**
 * Servers that are broken or mean harm, in their replies: the connection is dropped with one clear error, memory stays
 * bounded, other nodes are unharmed, and calls go on when the server does.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { KeylaneError } from "keylane";

import { Random } from "../../support/chaos/random.js";
import { flood, illAndWell, memory, MIB, type Pair } from "../../support/ill.js";
import { rejection } from "../../support/lanes.js";
import { raw } from "../../support/stub.js";
import { until } from "../../support/until.js";

/** The server answers again as it should, and is answered through again. */
async function recovered({ ill, lanes, illKey }: Pair): Promise<void> {
  ill.answer("INCRBY", ({ calls }) => calls);
  await until(() => lanes.incrBy(illKey));
}

describe("bad input: replies", () => {
  it("random bytes: every call settles, the other node is unharmed, the lane recovers each time", async () => {
    await using rig = await illAndWell();
    const { ill, well, lanes, illKey, wellKey } = rig;
    const random = new Random(42);
    const outcomes = new Set<string>();
    for (let round = 0; round < 40; round += 1) {
      const bytes = Buffer.from(Array.from({ length: random.between(1, 4000) }, () => random.between(0, 255)));
      ill.script("INCRBY", raw(bytes));
      const calls = [lanes.incrBy(illKey), lanes.incrBy(illKey)];
      const [settled] = await Promise.all([Promise.allSettled(calls), lanes.get(wellKey)]);
      for (const result of settled) {
        if (result.status === "fulfilled") continue;
        assert.ok(result.reason instanceof KeylaneError);
        outcomes.add(`${result.reason.code} ${result.reason.outcome}`);
      }
      await recovered(rig);
    }
    assert.ok(outcomes.has("KEYLANE_ERR_PROTOCOL unknown"), [...outcomes].join(", "));
    assert.equal(well.connections.size, 1);
  });

  it("bytes that are no reply: one clear error, at once", async () => {
    await using rig = await illAndWell();
    const { ill, lanes, illKey, wellKey } = rig;
    for (const bytes of [
      "?\r\n",
      "HTTP/1.1 400 Bad Request\r\n\r\n",
      ":12a\r\n",
      "$-2\r\n",
      "*-7\r\n",
      "$3\r\nabcde\r\n",
      "\r\n",
    ]) {
      ill.script("INCRBY", raw(bytes));
      const error = await rejection(lanes.incrBy(illKey), "KEYLANE_ERR_PROTOCOL", {
        outcome: "unknown",
        node: ill.address,
      });
      assert.match(error.message, /not a reply/);
      assert.equal(await lanes.get(wellKey), "well");
      await recovered(rig);
    }
  });

  it("a server that breaks every connection is dialled with growing pauses", async () => {
    await using rig = await illAndWell();
    const { ill, lanes, illKey } = rig;
    ill.answer("INCRBY", () => raw("?\r\n"));
    const began = performance.now();
    while (performance.now() - began < 2000) await lanes.incrBy(illKey).catch(() => undefined);
    const dials = ill.calls("HELLO").length;
    assert.ok(dials >= 3 && dials <= 9, `${dials} dials in 2 s`);
    await recovered(rig);
    const told = { down: 0 };
    lanes.on("node:down", () => (told.down += 1));
    await ill.stop();
    await until(() => told.down === 1);
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(told.down, 1, "that it is down is told once");
  });

  it("replies without end are cut off, whether they were asked for or not", async () => {
    await using rig = await illAndWell();
    const { ill, lanes, illKey, wellKey } = rig;
    ill.answer("GET", flood("", Buffer.from("$2\r\nOK\r\n".repeat(10_000))));
    const before = memory();
    for (let round = 0; round < 5; round += 1) {
      assert.equal(await lanes.get(illKey), "OK", "the first one was asked for");
      await until(
        () => lanes.stats().domains["all"]!.nodes.find(({ node }) => node === ill.address)?.state !== "ready",
      );
      await until(() => lanes.stats().domains["all"]!.nodes.every(({ state }) => state === "ready"));
    }
    assert.ok(lanes.stats().domains["all"]!.bytesReceived < 64 * MIB);
    assert.ok(memory() - before < 64 * MIB);
    assert.equal(await lanes.get(wellKey), "well");
  });

  it("one line, one bulk, one nesting without end", async () => {
    const endless: [string, string][] = [
      ["+", "x".repeat(65_536)],
      ["-ERR ", "x".repeat(65_536)],
      [":", "1".repeat(65_536)],
      ["", "*1\r\n".repeat(10_000)],
      [`$${(512 << 20) + 1}\r\n`, "x".repeat(65_536)],
      ["*99999999\r\n", ":1\r\n".repeat(10_000)],
    ];
    await using rig = await illAndWell();
    const { ill, lanes, illKey, wellKey } = rig;
    for (const [head, body] of endless) {
      ill.answer("INCRBY", flood(head, body));
      await rejection(lanes.incrBy(illKey), "KEYLANE_ERR_PROTOCOL", { outcome: "unknown" });
      assert.equal(await lanes.get(wellKey), "well");
      await recovered(rig);
    }
  });

  it("512 MB announced and no body: nothing is set aside, the silent node is dialled anew", async () => {
    await using rig = await illAndWell({ silenceTimeoutMs: 700 });
    const { ill, lanes, illKey, wellKey } = rig;
    for (const announced of ["$536870912\r\n", "*8000000\r\n", "%4000000\r\n", "~8000000\r\n:1\r\n"]) {
      const before = memory();
      const connections = ill.connections.size === 0 ? 0 : Math.max(...[...ill.connections].map(({ id }) => id));
      ill.script("INCRBY", raw(announced));
      await rejection(lanes.incrBy(illKey), "KEYLANE_ERR_TIMEOUT", { outcome: "unknown" });
      assert.ok(memory() - before < 16 * MIB, `${announced.trim()} took ${(memory() - before) / MIB} MiB`);
      assert.equal(await lanes.get(wellKey), "well");
      ill.answer("INCRBY", ({ calls }) => calls);
      await until(() => [...ill.connections].some(({ id }) => id > connections), { what: "a new connection" });
      await until(() => lanes.incrBy(illKey));
    }
  });

  it("a large reply that breaks off gives its memory back", async () => {
    await using rig = await illAndWell();
    const { ill, lanes, illKey } = rig;
    const before = memory();
    const piece = Buffer.alloc(MIB, "x");
    ill.answer("INCRBY", ({ connection: { socket } }) => {
      socket.write("$400000000\r\n");
      for (let at = 0; at < 100; at += 1) socket.write(piece);
      socket.end();
      return undefined;
    });
    await rejection(lanes.incrBy(illKey, 1, { timeoutMs: 5000 }), "KEYLANE_ERR_CONNECTION_LOST", {
      outcome: "unknown",
    });
    await recovered(rig);
    await until(() => memory() - before < 48 * MIB, { what: "memory given back", everyMs: 100 });
  });

  it("a reply too many, while nothing is asked and while something is", async () => {
    await using rig = await illAndWell();
    const { ill, lanes, illKey, wellKey } = rig;
    ill.script("GET", raw("$1\r\na\r\n$1\r\nb\r\n"));
    assert.equal(await lanes.get(illKey), "a");
    await until(() => lanes.stats().domains["all"]!.reconnects === 1);
    ill.script("GET", "again");
    await until(async () => (await lanes.get(illKey)) === "again");
    // One more than asked for, of a kind that the next operation cannot have: it and what follows is not believed.
    ill.script("GET", raw("$1\r\na\r\n$1\r\nb\r\n"));
    ill.answer("INCRBY", ({ calls }) => calls);
    const [read, count] = await Promise.allSettled([lanes.get(illKey), lanes.incrBy(illKey)]);
    assert.deepEqual(read, { status: "fulfilled", value: "a" });
    assert.equal(count.status === "rejected" && (count.reason as KeylaneError).code, "KEYLANE_ERR_PROTOCOL");
    assert.equal(await lanes.get(wellKey), "well");
  });

  it("a reply too few: the call that got none is unknown, and no other call gets what is not its own", async () => {
    await using rig = await illAndWell({ silenceTimeoutMs: 700 });
    const { ill, lanes, illKey, wellKey } = rig;
    ill.answer("INCRBY", ({ calls }) => (calls === 1 ? undefined : calls));
    await rejection(lanes.incrBy(illKey), "KEYLANE_ERR_TIMEOUT", { outcome: "unknown" });
    await until(() => lanes.stats().domains["all"]!.reconnects === 1, { what: "the silent node dialled anew" });
    assert.equal(await until(() => lanes.incrBy(illKey)), 2);
    // In a batch the gap shows by the kind of reply.
    ill.script("GET", undefined, "value");
    ill.answer("INCRBY", ({ calls }) => calls);
    const batch = await Promise.allSettled([
      lanes.incrBy(illKey),
      lanes.get(illKey),
      lanes.incrBy(illKey),
      lanes.incrBy(illKey),
    ]);
    const [first, read, ...counts] = batch as [
      PromiseSettledResult<unknown>,
      PromiseSettledResult<unknown>,
      ...PromiseRejectedResult[],
    ];
    assert.deepEqual(first, { status: "fulfilled", value: 3 });
    assert.equal(read.status === "rejected" && (read.reason as KeylaneError).code, "KEYLANE_ERR_PROTOCOL");
    for (const { reason } of counts) {
      assert.equal((reason as KeylaneError).outcome, "unknown");
      assert.equal((reason as KeylaneError).code, "KEYLANE_ERR_PROTOCOL");
    }
    assert.equal(await lanes.get(wellKey), "well");
  });
});
