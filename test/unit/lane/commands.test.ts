/** What is known of a command before it is sent. Key positions are held to a real server's COMMAND GETKEYS in integration. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { KeylaneError } from "keylane";
import type { KeylaneErrorCode } from "keylane";

import { isKnown, plan, planFromInfo, readInfo, wireArgs } from "#dist/lane/commands.js";

const words = (line: string): string[] => line.split(" ");
const planned = (line: string): ReturnType<typeof plan> => {
  const [name, ...args] = words(line) as [string, ...string[]];
  return plan(name.toLowerCase(), args);
};
const keysOf = (line: string): unknown[] => {
  const { keys, args } = planned(line);
  return keys.map((at) => args[at]);
};
const refused = (run: () => unknown, code: KeylaneErrorCode, message: RegExp): void => {
  assert.throws(run, (error) => {
    assert.ok(error instanceof KeylaneError);
    assert.equal(error.code, code);
    assert.equal(error.outcome, "not-sent");
    assert.match(error.message, message);
    return true;
  });
};

test("arguments: texts and bytes as they are, numbers digit by digit, lists flattened at any depth", () => {
  const bytes = new Uint8Array([1, 0x80, 3]).subarray(1);
  const wire = wireArgs("rpush", ["k", 1, -2.5, 3n, bytes, ["a", ["b", [4]]], []]);
  assert.deepEqual(wire, ["k", "1", "-2.5", "3", Buffer.from([0x80, 3]), "a", "b", "4"]);
});

test("E2: large numbers as arguments are written digit by digit", () => {
  assert.deepEqual(wireArgs("set", ["k", 2 ** 70]), ["k", "1180591620717411303424"]);
  assert.deepEqual(wireArgs("set", ["k", 10 ** 21]), ["k", `1${"0".repeat(21)}`]);
  assert.deepEqual(wireArgs("set", ["k", -(2 ** 63)]), ["k", "-9223372036854775808"]);
  assert.deepEqual(wireArgs("set", ["k", 18446744073709551616n]), ["k", "18446744073709551616"]);
});

test("R4: byte arguments are copied, so the caller may reuse them at once", () => {
  const bytes = Buffer.from("before");
  const [arg] = wireArgs("get", [bytes]);
  bytes.fill("x");
  assert.equal(String(arg), "before");
});

test("arguments that are nothing Redis can store are refused with their position", () => {
  for (const bad of [undefined, null, true, {}, Symbol("s"), () => 1, new Date(), new Map()]) {
    refused(() => wireArgs("hset", ["k", "f", bad]), "KEYLANE_ERR_ARGUMENT", /hset: argument 3 cannot be/);
  }
  refused(() => wireArgs("mget", [["a", undefined]]), "KEYLANE_ERR_ARGUMENT", /argument 2 cannot be undefined/);
  refused(() => wireArgs("set", ["k", Number.NaN]), "KEYLANE_ERR_ARGUMENT", /NaN/);
});

test("E5: a 200,000-element list is flattened without overflowing the stack", () => {
  const list = Array.from({ length: 200_000 }, (_, i) => i);
  const wire = wireArgs("rpush", ["k", list]);
  assert.equal(wire.length, 200_001);
  assert.deepEqual(plan("rpush", wire).keys, [0]);
  const pairs = wireArgs("mset", [list.map((i) => [`{t}${i}`, i])]);
  assert.equal(plan("mset", pairs).keys.length, 200_000);
});

test("E5: 200,000 counted keys are planned without overflowing the stack", () => {
  const keys = Array.from({ length: 200_000 }, (_, i) => `{t}${i}`);
  const planned = plan("eval", wireArgs("eval", ["return 1", keys.length, keys, "arg"]));
  assert.equal(planned.keys.length, 200_000);
  assert.deepEqual([planned.keys[0], planned.keys.at(-1)], [2, 200_001]);
  assert.equal(plan("zunionstore", wireArgs("zunionstore", ["{t}d", keys.length, keys])).keys.length, 200_001);
});

test("the number of keys must be one, and there must be as many keys", () => {
  const lines = [
    "EVAL",
    "EVAL s",
    "EVAL s x",
    "EVAL s -1 a",
    "EVAL s 2 a",
    "EVAL s 1.5 a b",
    "EVALSHA s 1",
    "FCALL f NaN a",
    "EVAL_RO s 0x1 a",
    "ZUNIONSTORE d 3 a b",
    "ZUNIONSTORE d 1000000000 k",
    "ZUNIONSTORE d 1e9 k",
    "ZINTER 2 a",
    "LMPOP x k LEFT",
    "BLMPOP 1 5 k LEFT",
    "SINTERCARD",
  ];
  for (const line of lines) refused(() => planned(line), "KEYLANE_ERR_ARGUMENT", /number of keys/);
  assert.deepEqual(keysOf("EVAL s 0 not-a-key"), []);
  assert.deepEqual(keysOf("FCALL f 2 a b not-a-key"), ["a", "b"]);
  assert.deepEqual(keysOf("ZUNIONSTORE d 2 a b WEIGHTS 1 2"), ["d", "a", "b"]);
});

test("SORT: its key and where it stores, never its patterns", () => {
  assert.deepEqual(keysOf("SORT k BY w_* LIMIT 0 5 GET o_* GET # DESC STORE d"), ["k", "d"]);
  assert.deepEqual(keysOf("SORT k GET store store d"), ["k", "d"]);
  assert.deepEqual(keysOf("SORT k STORE"), ["k"]);
  assert.deepEqual(keysOf("SORT_RO k BY w_*"), ["k"]);
  const [k, d] = [Buffer.from("k"), Buffer.from("d")];
  assert.deepEqual(plan("sort", [k, Buffer.from("store"), d]).keys, [0, 2]);
});

test("reads are known as such, so that only they may be retried or go to a replica", () => {
  for (const line of [
    "GET k",
    "HGETALL h",
    "ZRANGE z 0 1",
    "EVAL_RO s 1 k",
    "SORT_RO k",
    "XREAD STREAMS s 0",
    "PTTL k",
  ]) {
    assert.equal(planned(line).read, true, line);
  }
  for (const line of ["SET k v", "INCR k", "EVAL s 1 k", "FCALL f 1 k", "SORT k", "GETEX k", "GETDEL k", "SPOP s"]) {
    assert.equal(planned(line).read, false, line);
  }
});

test("what blocks is told from what does not", () => {
  for (const line of [
    "BLPOP a 1",
    "BLMOVE a b LEFT RIGHT 1",
    "XREAD BLOCK 5 STREAMS s 0",
    "xread count 1 block 5 streams s 0",
  ]) {
    assert.equal(planned(line).blocking, true, line);
  }
  for (const line of ["LPOP a", "XREAD STREAMS s 0", "XREAD STREAMS BLOCK 0", "XREADGROUP GROUP BLOCK c STREAMS s >"]) {
    assert.equal(planned(line).blocking, false, line);
  }
  assert.equal(plan("xread", [Buffer.from("block"), "5", "STREAMS", "s", "0"]).blocking, true);
});

test("commands that change or take over a connection are refused", () => {
  const names =
    "ASKING AUTH CLIENT DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE PSYNC PUNSUBSCRIBE QUIT READONLY READWRITE RESET SELECT " +
    "SHUTDOWN SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE SYNC UNSUBSCRIBE UNWATCH WATCH";
  for (const name of words(names)) {
    refused(
      () => plan(name.toLowerCase(), ["x"]),
      "KEYLANE_ERR_COMMAND",
      new RegExp(`^${name} .*use redis\\(domain\\)`),
    );
  }
});

test("E3: names of object properties are no commands with keys", () => {
  for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    if (isKnown(name)) assert.deepEqual(plan(name, ["k"]).keys, [], name);
  }
});

test("COMMAND INFO of a server: flags and positions, or null", () => {
  const reply = [["json.get", -2, ["readonly", "module"], 1, 1, 1, [], [], [], []]];
  const info = readInfo(reply);
  assert.deepEqual(info, { flags: new Set(["readonly", "module"]), keys: [1, 1, 1] });
  assert.equal(readInfo([null]), null);
  assert.equal(readInfo([]), null);
  assert.equal(readInfo("OK"), null);
});

const info = (flags: string[], ...keys: [number, number, number]): Parameters<typeof planFromInfo>[2] => ({
  flags: new Set(flags),
  keys,
});

test("a command of the server's own is placed by what the server says", () => {
  const args = ["a", "1", "b", "2", "c", "3"];
  const at = (about: Parameters<typeof planFromInfo>[2], movable: number[] = []): readonly number[] =>
    planFromInfo("json.mset", args, about, movable).keys;
  assert.deepEqual(at(info([], 1, 1, 1)), [0]);
  assert.deepEqual(at(info([], 1, -1, 2)), [0, 2, 4]);
  assert.deepEqual(at(info([], 2, 4, 1)), [1, 2, 3]);
  assert.deepEqual(at(info([], 1, -2, 1)), [0, 1, 2, 3, 4]);
  assert.deepEqual(at(info([], 0, 0, 0)), []);
  assert.deepEqual(at(info(["movablekeys"], 1, 1, 1), [3]), [3]);
  assert.equal(planFromInfo("json.get", args, info(["readonly"], 1, 1, 1), []).read, true);
  assert.equal(planFromInfo("mod.wait", args, info(["blocking"], 1, 1, 1), []).blocking, true);
  refused(() => planFromInfo("nosuch", args, null, []), "KEYLANE_ERR_COMMAND", /NOSUCH is not known/);
});
