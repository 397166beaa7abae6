/** W5: whatever happens to connections, every call settles, close ends in time, and the process ends by itself. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";

import { Keylane } from "keylane";

import { useSingle } from "../../support/fixtures.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { runProgram } from "../../support/processes.js";
import { Relay } from "../../support/relay.js";
import { Stub } from "../../support/stub.js";
import { until, within } from "../../support/until.js";

/** Options of a domain of one server. */
const single = (address: string): { domains: { all: { prefixes: [""]; mode: "single"; nodes: [string] } } } => ({
  domains: { all: { prefixes: [""], mode: "single", nodes: [address] } },
});

describe("W5: calls that never settle, quit that never ends", () => {
  const server = useSingle();

  it("W5: a blocking read in flight, the socket cut, then close: it rejects, and close does not wait for it", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    const lanes = await openLanes(single(relay.address));
    const open = relay.open;
    const blocked = lanes.command("BLPOP", "empty", 0);
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "1");
    assert.equal(relay.open, open + 1, "on a connection of its own");
    assert.equal(await lanes.get("k"), null, "nobody waits behind it");
    const lost = rejection(blocked, "KEYLANE_ERR_CONNECTION_LOST", { command: "BLPOP", outcome: "unknown" });
    relay.cut();
    await within(lost, 1000);
    const second = lanes.command("BLPOP", "empty", 0);
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "1");
    const refused = rejection(second, "KEYLANE_ERR_CLOSED", { outcome: "unknown" });
    assert.deepEqual(await within(lanes.close({ timeoutMs: 1000 }), 2000), { lost: 0 });
    await within(refused, 1000);
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "0");
    assert.equal(relay.open, 0);
  });

  it("W5: a blocking call answers, times out by its own word, is aborted, and its line is used again", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    const lanes = await openLanes(single(relay.address));
    const popped = lanes.command("BLPOP", "list", 5);
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "1");
    await lanes.command("RPUSH", "list", "item");
    assert.deepEqual(await popped, ["list", "item"]);
    const { accepted } = relay;
    assert.equal(await lanes.command("BLPOP", "list", 0.05), null);
    assert.equal(relay.accepted, accepted, "the idle line serves the next call");
    const controller = new AbortController();
    const aborted = rejection(lanes.command("BLPOP", "list", 0, { signal: controller.signal }), "KEYLANE_ERR_ABORTED");
    const late = rejection(lanes.command("BLPOP", "list", 0, { timeoutMs: 100 }), "KEYLANE_ERR_TIMEOUT", {
      outcome: "unknown",
    });
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") !== "0");
    controller.abort();
    await Promise.all([aborted, late]);
    await until(async () => (await server.value.node.info("clients")).get("blocked_clients") === "0");
  });

  it("W5: a blocking call to a server that is down was not sent", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    const lanes = await openLanes(single(relay.address));
    await relay.refuse();
    await rejection(lanes.command("BLPOP", "list", 0), "KEYLANE_ERR_CONNECT", { outcome: "not-sent", retryable: true });
    await relay.accept();
    assert.equal(await lanes.command("BLPOP", "list", 0.05), null);
  });

  it("W5: close with the node down, reconnecting, in the middle of a handshake, twice", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    for (const how of ["down", "handshake", "ready"] as const) {
      const lanes = await Keylane.open({ ...single(relay.address), commandTimeoutMs: 60_000 });
      if (how === "down") await relay.refuse();
      if (how === "handshake") relay.down.stall = true;
      if (how !== "ready") {
        relay.cut();
        await until(() => lanes.stats().domains["all"]!.nodes[0]!.state !== "ready");
      }
      if (how === "handshake") {
        const { accepted } = relay;
        await until(() => relay.accepted > accepted || relay.open > 0);
      }
      const calls = Array.from({ length: 1000 }, (_, at) => lanes.incrBy(`n${at}`));
      const settled = Promise.allSettled(calls);
      const closing = lanes.close({ timeoutMs: 200 });
      assert.equal(lanes.close({ timeoutMs: 60_000 }), closing, "the second close is the first");
      const { lost } = await within(closing, 1500, `close, ${how}`);
      const results = await within(settled, 500, "the calls");
      const failed = results.filter(({ status }) => status === "rejected");
      assert.equal(failed.length, lost);
      assert.equal(lost, how === "ready" ? 0 : 1000);
      await rejection(lanes.get("k"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
      await relay.accept();
      relay.heal();
      await until(() => relay.open === 0, { what: `no connection stays, ${how}` });
    }
  });

  it("W5: connections that break at every moment: nothing hangs, and nothing is told twice", async (t) => {
    const relay = await Relay.start(server.value.address);
    t.after(() => relay.stop());
    const lanes = await openLanes({ ...single(relay.address), commandTimeoutMs: 1000 });
    for (let round = 0; round < 40; round += 1) {
      const calls = Array.from({ length: 50 }, (_, at) => (at % 2 === 0 ? lanes.get(`n${at}`) : lanes.incrBy("n")));
      relay.down.cutAfter(1 + round * 7);
      await within(Promise.allSettled(calls), 2500, `round ${round}`);
      await until(async () => (await lanes.get("k").catch(() => undefined)) === null);
    }
    assert.equal(lanes.stats().domains["all"]!.pending, 0);
  });
});

const program = (address: string, body: string): string => `
  import { Keylane } from "keylane";
  process.on("unhandledRejection", (error) => { console.error("unhandled", error); process.exit(9); });
  const lanes = await Keylane.open({ domains: { all: { prefixes: [""], mode: "single", nodes: ["${address}"] } } });
  ${body}
  console.log("done");`;

/** Runs a program until it ends by itself. */
async function run(address: string, body: string): Promise<{ ended: unknown; errors: string }> {
  const folder = mkdtempSync(join(tmpdir(), "keylane-test-"));
  const script = join(import.meta.dirname ?? ".", `w5-${process.pid}.mjs`);
  writeFileSync(script, program(address, body));
  try {
    const running = runProgram(script, [], folder);
    const ended = await within(running.ended, 10_000, "the program");
    return { ended, errors: running.errors() };
  } finally {
    rmSync(script, { force: true });
    rmSync(folder, { recursive: true, force: true });
  }
}

describe("W5: the process", () => {
  it("W5: ends by itself after close with a blocking call, a silent server and 1,000 calls queued, none unhandled", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub
      .answer("GET", () => undefined)
      .answer("BLPOP", () => undefined)
      .answer("INCRBY", () => undefined);
    const { ended, errors } = await run(
      stub.address,
      `const calls = [lanes.command("BLPOP", "list", 0), lanes.get("k"), ...Array.from({ length: 1000 }, () => lanes.incrBy("n"))];
       const results = Promise.allSettled(calls);
       const { lost } = await lanes.close({ timeoutMs: 100 });
       if (lost !== 1001) throw new Error("lost " + lost);
       if ((await results).some(({ status }) => status !== "rejected")) throw new Error("answered");
       await lanes.close();`,
    );
    assert.deepEqual([ended, errors], [0, ""]);
  });

  it("W5: ends by itself when the server dies and the program closes, and when it only forgets the calls", async (t) => {
    const stub = await Stub.start({ cluster: false });
    t.after(() => stub.stop());
    stub.answer("GET", ({ connection }) => void connection.socket.destroy());
    const { ended, errors } = await run(
      stub.address,
      `await lanes.get("k", { timeoutMs: 200 }).catch(() => {});
       lanes.incrBy("n", 1, { timeoutMs: 100 }).catch(() => {});
       await lanes.close({ timeoutMs: 300 });`,
    );
    assert.deepEqual([ended, errors], [0, ""]);
  });
});
