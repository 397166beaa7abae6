/** Closing and destroying, and that a process which did so ends by itself. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { Keylane } from "keylane";

import { useSingle } from "../support/fixtures.js";
import { rejection } from "../support/lanes.js";
import { singleDomain, slowServer } from "../support/rigs.js";
import { until, within } from "../support/until.js";

describe("close and destroy", () => {
  it("close waits for what was accepted, refuses what comes after, and is idempotent", async () => {
    await using rig = await slowServer();
    const lanes = await Keylane.open(singleDomain(rig.stub.address));
    const calls = Array.from({ length: 100 }, (_, i) => lanes.get(`k${i}`));
    const closing = lanes.close();
    assert.equal(lanes.close(), closing);
    await rejection(lanes.get("late"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent", command: "GET" });
    await rejection(lanes.set("late", "v"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    await rejection(lanes.command("INCR", "late"), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    rig.answer();
    assert.deepEqual(await closing, { lost: 0 });
    assert.deepEqual(
      await Promise.all(calls),
      calls.map((_, i) => `k${i}`),
    );
    assert.equal(lanes.close(), closing);
    await until(() => rig.stub.connections.size === 0);
  });

  it("close does not wait longer than it was told; what is lost is counted and each call says how it ended", async () => {
    await using rig = await slowServer();
    const lanes = await Keylane.open(singleDomain(rig.stub.address));
    const sent = [lanes.get("a"), lanes.get("b")];
    await until(() => rig.stub.calls("GET").length > 0);
    const settled = Promise.allSettled(sent);
    assert.deepEqual(await within(lanes.close({ timeoutMs: 50 }), 2000), { lost: 2 });
    for (const one of await settled) {
      assert.equal((one as PromiseRejectedResult).reason.code, "KEYLANE_ERR_CONNECTION_LOST");
      assert.equal((one as PromiseRejectedResult).reason.outcome, "unknown");
    }
  });

  it("1,000 calls queued and close at once: all are answered", async () => {
    await using rig = await slowServer();
    rig.answer();
    const lanes = await Keylane.open(singleDomain(rig.stub.address));
    const calls = Array.from({ length: 1000 }, (_, i) => lanes.get(`k${i}`));
    const [, ...values] = await Promise.all([lanes.close(), ...calls]);
    assert.equal(new Set(values).size, 1000);
  });

  it("destroy: what was not sent is not-sent, what was sent is unknown, and twice is fine", async () => {
    await using rig = await slowServer();
    const lanes = await Keylane.open(singleDomain(rig.stub.address));
    const sent = lanes.get("sent");
    await until(() => rig.stub.calls("GET").length === 1);
    const queued = lanes.get("queued");
    lanes.destroy();
    lanes.destroy();
    await rejection(queued, "KEYLANE_ERR_CLOSED", { outcome: "not-sent", domain: "all" });
    await rejection(sent, "KEYLANE_ERR_CONNECTION_LOST", { outcome: "unknown", node: rig.stub.address });
    await rejection(lanes.get("after"), "KEYLANE_ERR_CLOSED");
    assert.deepEqual(await lanes.close(), { lost: 0 });
    assert.equal(rig.stub.calls("GET").length, 1);
    await until(() => rig.stub.connections.size === 0);
  });

  it("close with the node down ends within its deadline", async () => {
    const rig = await slowServer();
    const lanes = await Keylane.open(singleDomain(rig.stub.address));
    await rig.stub.stop();
    await until(() => lanes.stats().domains["all"]!.nodes[0]!.state === "down");
    const waiting = lanes.set("k", "v");
    const refused = rejection(waiting, "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
    assert.deepEqual(await within(lanes.close({ timeoutMs: 100 }), 2000), { lost: 1 });
    await refused;
  });

  it("await using closes", async () => {
    await using rig = await slowServer();
    rig.answer();
    const outside = await (async () => {
      await using lanes = await Keylane.open(singleDomain(rig.stub.address));
      assert.equal(await lanes.get("k"), "k");
      return () => lanes.get("k");
    })();
    await rejection(outside(), "KEYLANE_ERR_CLOSED");
  });
});

describe("the process", () => {
  const server = useSingle();
  const cwd = fileURLToPath(new URL("../", import.meta.resolve("keylane")));

  /** Runs a program that uses keylane; resolves when it ends by itself. */
  async function run(body: string): Promise<{ code: number | null; output: string }> {
    const source = `
      import { Keylane } from "keylane";
      let unhandled = 0;
      process.on("unhandledRejection", () => (unhandled += 1));
      process.on("exit", () => console.log("unhandled", unhandled));
      const options = { domains: { all: { prefixes: [""], nodes: ["${server.value.address}"], mode: "single" } } };
      ${body}`;
    const env = { ...process.env };
    delete env["NODE_TEST_CONTEXT"];
    const child = spawn(process.execPath, ["--input-type=module", "--eval", source], {
      cwd,
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
    const [code] = (await once(child, "close")) as [number | null];
    clearTimeout(timer);
    return { code, output };
  }

  it("ends by itself after close", async () => {
    const { code, output } = await run(`
      const lanes = await Keylane.open(options);
      await lanes.set("k", "v");
      console.log(await lanes.get("k"));
      await lanes.redis("all").get("k");
      lanes.command("BLPOP", "never", 0).catch((error) => console.log(error.code));
      await lanes.close({ timeoutMs: 100 });`);
    assert.deepEqual(
      { code, lines: output.trim().split("\n") },
      { code: 0, lines: ["v", "KEYLANE_ERR_CLOSED", "unhandled 0"] },
    );
  });

  it("ends by itself after destroy with calls in flight, of which each is told and none unhandled", async () => {
    const { code, output } = await run(`
      const lanes = await Keylane.open(options);
      const calls = Array.from({ length: 1000 }, (_, i) => lanes.set("k" + i, "v"));
      lanes.destroy();
      const codes = new Set((await Promise.allSettled(calls)).map((one) => one.reason.code));
      console.log([...codes].join());`);
    assert.deepEqual({ code, output }, { code: 0, output: "KEYLANE_ERR_CLOSED\nunhandled 0\n" });
  });

  it("ends by itself after an open that failed", async () => {
    const { code, output } = await run(`
      options.domains.bad = { prefixes: ["bad:"], nodes: ["127.0.0.1:1"] };
      options.connectTimeoutMs = 200;
      await Keylane.open(options).catch((error) => console.log(error.code, error.domain));`);
    assert.deepEqual({ code, output }, { code: 0, output: "KEYLANE_ERR_CONNECT bad\nunhandled 0\n" });
  });

  it("forgotten rejections are the caller's, and only once each", async () => {
    const { code, output } = await run(`
      const lanes = await Keylane.open(options);
      await lanes.command("RPUSH", "list", 1);
      void lanes.get("list");
      await new Promise((resolve) => setTimeout(resolve, 50));
      await lanes.close();`);
    assert.deepEqual({ code, output }, { code: 0, output: "unhandled 1\n" });
  });
});
