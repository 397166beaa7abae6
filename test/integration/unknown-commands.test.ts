/** Commands that ioredis's table lacks: the server tells where their keys are. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Keylane } from "keylane";
import { startSingle } from "keylane/sandbox";

import { openLanes, rejection } from "../support/lanes.js";
import { failure, Stub } from "../support/stub.js";

describe("commands that only the server knows", () => {
  it("are placed by COMMAND INFO, asked once", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    stub.answer("COMMAND INFO", ({ args }) =>
      String(args[2]) === "mod.two" ? [["mod.two", -3, ["write"], 1, 2, 1, [], [], [], []]] : [null],
    );
    stub.answer("MOD.TWO", ({ args }) => args.map(String).join(" "));
    const lanes = await openLanes({ domains: { all: { prefixes: ["{a}", "{b}"], nodes: [stub.address] } } });
    assert.equal(await lanes.command("MOD.TWO", "{a}1", "{a}2", "x"), "MOD.TWO {a}1 {a}2 x");
    assert.equal(await lanes.command("mod.two", "{b}1", "{b}2"), "MOD.TWO {b}1 {b}2");
    await rejection(lanes.command("MOD.TWO", "{a}1", "{b}2"), "KEYLANE_ERR_CROSSSLOT");
    await rejection(lanes.command("MOD.NONE", "{a}1"), "KEYLANE_ERR_COMMAND");
    await rejection(lanes.command("MOD.NONE", "{a}1"), "KEYLANE_ERR_COMMAND");
    assert.deepEqual(
      stub.calls("COMMAND INFO").map(({ args }) => String(args[2])),
      ["mod.two", "mod.none"],
    );
  });

  it("are looked up beside other traffic of the same turn, and every reply finds its call", async () => {
    await using server = await startSingle();
    const lanes = await Keylane.open({ domains: { all: { prefixes: [""], nodes: [server.address], mode: "single" } } });
    const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
    await Promise.all(keys.map((key) => lanes.set(key, `v:${key}`)));
    for (let round = 0; round < 3; round += 1) {
      const before = lanes.getMany(keys);
      const unknown = rejection(lanes.command(`NOSUCH${round}`, "k"), "KEYLANE_ERR_COMMAND");
      const after = lanes.getMany(keys);
      const expected = keys.map((key) => `v:${key}`);
      assert.deepEqual(await before, expected);
      assert.deepEqual(await after, expected);
      await unknown;
    }
    await lanes.close();
  });

  it("R4: with keys that move, by COMMAND GETKEYS, compared byte by byte", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    const key = Buffer.from([0x7b, 0x80, 0x7d]);
    stub.answer("COMMAND INFO", () => [["mod.move", -3, ["write", "movablekeys"], 0, 0, 0, [], [], [], []]]);
    stub.answer("COMMAND GETKEYS", ({ args }) => [args.at(-1)!]);
    stub.answer("MOD.MOVE", ({ args }) => args.at(-1)!);
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [stub.address] } } });
    assert.deepEqual(await lanes.command("MOD.MOVE", "opt", key, { buffers: true }), key);
  });

  it("a failed look-up is told and asked again next time", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    stub.script("COMMAND INFO", failure("ERR not now"), [["mod.one", 2, ["readonly"], 1, 1, 1, [], [], [], []]]);
    stub.answer("MOD.ONE", () => 7);
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: [stub.address] } } });
    await rejection(lanes.command("MOD.ONE", "k"), "KEYLANE_ERR_REPLY", { message: /not now/ });
    assert.equal(await lanes.command("MOD.ONE", "k"), 7);
  });
});
