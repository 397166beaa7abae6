/** Size limits of one operation: exact in UTF-8 bytes, and cheap for everything that is clearly small. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { oversize } from "#dist/lane/limits.js";
import { Op, headOf } from "#dist/lane/op.js";
import type { WireArg } from "#dist/lane/op.js";
import { RAW_SHAPE } from "#dist/lane/replies.js";
import { KEY_NONE, Opcode } from "#dist/native/types.js";

const MIB = 1 << 20;
const op = (head: number, first: WireArg, rest: readonly WireArg[] | null): Op =>
  new Op(head, first, rest, () => {}, RAW_SHAPE, 0, 0);
const get = (key: WireArg): Op => op(headOf(Opcode.GET, 0, true), key, null);
const set = (key: WireArg, value: WireArg): Op => op(headOf(Opcode.SET, 0, false), key, [value]);

const push = (count: number): Op =>
  op(
    headOf(Opcode.GENERIC, 1, false),
    "RPUSH",
    Array.from({ length: count }, () => "v"),
  );

test("E5: keys are measured in UTF-8 bytes", () => {
  assert.equal(oversize(get("k".repeat(MIB)), MIB, 512 * MIB), null);
  assert.match(oversize(get("k".repeat(MIB + 1)), MIB, 512 * MIB)!, /key is longer than 1048576 bytes/);
  assert.equal(oversize(get("é".repeat(MIB / 2)), MIB, 512 * MIB), null);
  assert.match(oversize(get("é".repeat(MIB / 2 + 1)), MIB, 512 * MIB)!, /key/);
  assert.match(oversize(get(Buffer.alloc(MIB + 1)), MIB, 512 * MIB)!, /key/);
});

test("E5: a key is an argument too, so the server's bulk limit holds for it", () => {
  assert.match(oversize(get("k".repeat(2 * MIB)), 4 * MIB, MIB)!, /longer than/);
  assert.equal(oversize(get("k".repeat(MIB)), 4 * MIB, MIB), null);
});

test("E5: values are measured against the server's bulk limit, in UTF-8 bytes", () => {
  assert.equal(oversize(set("k", "v".repeat(MIB)), MIB, MIB), null);
  assert.match(oversize(set("k", "v".repeat(MIB + 1)), MIB, MIB)!, /longer than the 1048576 bytes/);
  assert.match(oversize(set("k", "日".repeat(MIB / 3 + 1)), MIB, MIB)!, /longer than/);
  assert.equal(oversize(set("k", "日".repeat(MIB / 4)), MIB, MIB), null);
  assert.match(oversize(set("k", Buffer.alloc(2 * MIB)), MIB, MIB)!, /longer than/);
});

test("E5: many small arguments are fine, too many are not", () => {
  assert.equal(oversize(push(200_000), MIB, MIB), null);
  assert.equal(oversize(push(1_048_574), MIB, 512 * MIB), null);
  assert.match(oversize(push(1_048_577), MIB, 512 * MIB)!, /1048578 arguments/);
});

test("a command without a key has no key limit", () => {
  assert.equal(oversize(op(headOf(Opcode.GENERIC, KEY_NONE, true), "COMMAND", ["INFO", "x"]), 1, MIB), null);
});
