/** Frames, places and sections, for both cores. */
import assert from "node:assert/strict";
import { test } from "node:test";

import {
  FLAG_ASKING,
  FLAG_READ,
  HEAD_KEY_SHIFT,
  KEY_NONE,
  Opcode,
  PLACE_HELD,
  PLACE_KEYLESS,
  PLACE_UNASSIGNED,
  SECTION_WORDS,
} from "#dist/native/types.js";
import type { EncodeTables } from "#dist/native/types.js";

import { encode, evenTables, frameOf, op, pack } from "../../property/operations.js";
import { cores } from "./cores.js";

const key = (index: number): number => index << HEAD_KEY_SHIFT;

const ASKING = "*1\r\n$6\r\nASKING\r\n";

for (const core of cores) {
  test(`every opcode writes its name (${core.kind})`, () => {
    const frames: [number, string[], string][] = [
      [Opcode.GENERIC, ["HGETALL", "k"], "*2\r\n$7\r\nHGETALL\r\n$1\r\nk\r\n"],
      [Opcode.GENERIC, ["PING"], "*1\r\n$4\r\nPING\r\n"],
      [Opcode.GET, ["k"], "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"],
      [Opcode.SET, ["k", ""], "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n"],
      [Opcode.SET, ["k", "é", "PX", "10"], "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\né\r\n$2\r\nPX\r\n$2\r\n10\r\n"],
      [Opcode.DEL, ["k"], "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"],
      [Opcode.INCRBY, ["k", "1"], "*3\r\n$6\r\nINCRBY\r\n$1\r\nk\r\n$1\r\n1\r\n"],
      [Opcode.EXPIRE, ["k", "1"], "*3\r\n$6\r\nEXPIRE\r\n$1\r\nk\r\n$1\r\n1\r\n"],
      [Opcode.HGET, ["k", "f"], "*3\r\n$4\r\nHGET\r\n$1\r\nk\r\n$1\r\nf\r\n"],
      [Opcode.HINCRBY, ["k", "f", "1"], "*4\r\n$7\r\nHINCRBY\r\n$1\r\nk\r\n$1\r\nf\r\n$1\r\n1\r\n"],
      [Opcode.EVALSHA, ["ab", "1", "k"], "*4\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n1\r\n$1\r\nk\r\n"],
      [Opcode.PEXPIRE, ["k", "1"], "*3\r\n$7\r\nPEXPIRE\r\n$1\r\nk\r\n$1\r\n1\r\n"],
      [Opcode.PTTL, ["k"], "*2\r\n$4\r\nPTTL\r\n$1\r\nk\r\n"],
      [Opcode.EXISTS, ["k"], "*2\r\n$6\r\nEXISTS\r\n$1\r\nk\r\n"],
      [Opcode.RAW, ["k", "*1\r\n$4\r\nEXEC\r\n"], "*1\r\n$4\r\nEXEC\r\n"],
    ];
    assert.equal(new Set(frames.map(([opcode]) => opcode)).size, Object.keys(Opcode).length);
    for (const [opcode, args, frame] of frames) {
      const { scratch, desc } = pack([op(opcode, args)]);
      const out = Buffer.alloc(100);
      const written = core.encodeTo(scratch, desc, 1, out);
      assert.equal(out.subarray(0, written).toString(), frame);
    }
  });

  test(`operations are grouped by node, in their order, each with its place (${core.kind})`, () => {
    const tables = evenTables(3);
    const nodes = ["foo", "bar", "k0", "k1", "k2", "k3", "k4", "k5"].map((key) => core.slot(key) % 3);
    assert.equal(new Set(nodes).size, 3);
    const operations = ["foo", "bar", "k0", "k1", "k2", "k3", "k4", "k5"].map((key) => op(Opcode.GET, [key]));
    const { written, out, place, sections } = encode(core, operations, tables, 1000);
    assert.deepEqual(place, nodes);
    assert.deepEqual(new Set(sections.map(({ node }) => node)), new Set(nodes));
    let end = 0;
    for (const { node, offset, bytes, ops } of sections) {
      const own = operations.filter((_, i) => nodes[i] === node);
      assert.equal(offset, end);
      assert.equal(ops, own.length);
      assert.equal(out.toString("latin1", offset, offset + bytes), Buffer.concat(own.map(frameOf)).toString("latin1"));
      end += bytes;
    }
    assert.equal(end, written);
    assert.ok(out.subarray(written).every((byte) => byte === 0xee));
  });

  test(`place says why an operation has no node (${core.kind})`, () => {
    const tables = evenTables(2);
    const [free, held, unassigned, both] = ["free", "held", "gone", "both"].map((key) => core.slot(key));
    assert.equal(new Set([free, held, unassigned, both]).size, 4);
    for (const slot of [held, both]) tables.held[slot >> 5] |= 1 << (slot & 31);
    for (const slot of [unassigned, both]) tables.slots[slot] = -7;
    const operations = [
      op(Opcode.GET, ["held"]),
      op(Opcode.GET, ["gone"]),
      op(Opcode.GENERIC, ["PING"], KEY_NONE),
      op(Opcode.GET, ["free"]),
      op(Opcode.GET, ["both"]),
    ];
    const { written, place, sections } = encode(core, operations, tables, 500);
    assert.deepEqual(place, [PLACE_HELD, PLACE_UNASSIGNED, PLACE_KEYLESS, free % 2, PLACE_HELD]);
    assert.equal(written, frameOf(operations[3]).length);
    assert.deepEqual(sections, [{ node: free % 2, offset: 0, bytes: written, ops: 1 }]);
    assert.deepEqual(encode(core, operations.slice(0, 3), tables, 500).written, 0);
    assert.deepEqual(encode(core, [], tables, 0).written, 0);
  });

  test(`a frame made by the caller goes to its key's node as it is (${core.kind})`, () => {
    const tables = evenTables(7);
    const frames = "*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n";
    const operations = [op(Opcode.RAW, ["{tag}", frames]), op(Opcode.RAW, ["{tag}", frames], 0, FLAG_ASKING)];
    const { written, out, place, sections } = encode(core, operations, tables, 500);
    const node = core.slot("tag") % 7;
    assert.deepEqual(place, [node, node]);
    assert.equal(out.toString("latin1", 0, written), `${frames}${ASKING}${frames}`);
    assert.deepEqual(sections, [{ node, offset: 0, bytes: written, ops: 2 }]);
  });

  test(`only reads follow the alias (${core.kind})`, () => {
    const tables = evenTables(1);
    tables.alias = Int32Array.of(5, 0, 0, 0, 0, 0);
    const operations = [op(Opcode.GET, ["k"], 0, FLAG_READ), op(Opcode.SET, ["k", "v"])];
    const { place, sections } = encode(core, operations, tables, 500);
    assert.deepEqual(place, [5, 0]);
    assert.deepEqual(
      new Map(sections.map(({ node, ops }) => [node, ops])),
      new Map([
        [5, 1],
        [0, 1],
      ]),
    );
  });

  test(`the key may be any argument (${core.kind})`, () => {
    const tables = evenTables(7);
    const tagged = "k{tag}";
    const node = core.slot("tag") % 7;
    for (const operation of [
      op(Opcode.EVALSHA, ["sha", "1", tagged, "x"], 2),
      op(Opcode.GENERIC, ["HGETALL", tagged], 1),
      op(Opcode.GENERIC, ["XREAD", "COUNT", "1", "STREAMS", tagged, "0"], 4),
    ]) {
      assert.deepEqual(encode(core, [operation], tables, 500).place, [node]);
    }
  });

  test(`ASKING goes before the frame it is for (${core.kind})`, () => {
    const operations = [
      op(Opcode.GET, ["k"]),
      op(Opcode.GET, ["k"], 0, FLAG_ASKING),
      op(Opcode.SET, ["k", "v"], 0, FLAG_ASKING | FLAG_READ),
    ];
    const frames = [
      "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
      `${ASKING}*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`,
      `${ASKING}*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n`,
    ].join("");
    const { written, out, sections } = encode(core, operations, evenTables(1), 500);
    assert.equal(out.toString("latin1", 0, written), frames);
    assert.deepEqual(sections, [{ node: 0, offset: 0, bytes: frames.length, ops: 3 }]);
    const { scratch, desc } = pack(operations);
    const run = Buffer.alloc(500);
    assert.equal(run.toString("latin1", 0, core.encodeTo(scratch, desc, 3, run)), frames);
  });

  test(`an output that is too small is told its size and left alone (${core.kind})`, () => {
    const operations = [op(Opcode.SET, ["k", "v".repeat(1000)]), op(Opcode.GET, ["foo"], 0, FLAG_ASKING)];
    const needed = operations.reduce((sum, operation) => sum + frameOf(operation).length, 0);
    for (const room of [0, 1, needed - 1]) {
      const { written, out, place } = encode(core, operations, evenTables(3), room);
      assert.equal(written, -needed);
      assert.deepEqual(place, [-99, -99]);
      assert.ok(out.every((byte) => byte === 0xee));
      const { scratch, desc } = pack(operations);
      const run = Buffer.alloc(room, 0xee);
      assert.equal(core.encodeTo(scratch, desc, 2, run), -needed);
      assert.ok(run.every((byte) => byte === 0xee));
    }
    assert.equal(encode(core, operations, evenTables(3), needed).written, needed);
  });

  test(`encodeTo needs no key and keeps the order (${core.kind})`, () => {
    const operations = [op(Opcode.GENERIC, ["PING"], KEY_NONE), op(Opcode.GET, ["a"]), op(Opcode.GET, ["{é}"])];
    const { scratch, desc } = pack(operations);
    const out = Buffer.alloc(200, 0xee);
    const written = core.encodeTo(scratch, desc, 3, out);
    assert.deepEqual(out.subarray(0, written), Buffer.concat(operations.map(frameOf)));
    assert.ok(out.subarray(written).every((byte) => byte === 0xee));
    assert.equal(core.encodeTo(scratch, desc, 0, out), 0);
  });

  test(`descriptions that do not fit their bytes are refused (${core.kind})`, () => {
    const scratch = Buffer.from("key");
    const broken: [string, number[], number][] = [
      ["an unknown opcode", [Math.max(...Object.values(Opcode)) + 1, 1, 3], 1],
      ["a raw frame without a frame", [Opcode.RAW, 1, 3], 1],
      ["a raw frame with a third argument", [Opcode.RAW, 3, 1, 1, 1], 1],
      ["a length past the bytes", [Opcode.GET, 1, 4], 1],
      ["a negative length", [Opcode.GET, 1, -1], 1],
      ["a negative count", [Opcode.GET, -1, 3], 1],
      ["a key past the arguments", [Opcode.GET | key(1), 1, 3], 1],
      ["a group that is cut off", [Opcode.GET, 2, 3], 1],
      ["more operations than groups", [Opcode.GET, 1, 3], 2],
      ["a name that is missing", [Opcode.GENERIC | key(KEY_NONE), 0], 1],
    ];
    for (const [what, words, count] of broken) {
      const desc = Int32Array.from(words);
      const out = Buffer.alloc(100, 0xee);
      const place = new Int32Array(4);
      const sections = new Int32Array(SECTION_WORDS);
      assert.throws(() => core.encodeTo(scratch, desc, count, out), what);
      assert.throws(() => core.encode(scratch, desc, count, evenTables(1), out, place, sections), what);
      assert.ok(out.every((byte) => byte === 0xee));
      assert.ok(place.every((word) => word === 0) && sections.every((word) => word === 0));
    }
  });

  test(`a node that alias does not hold counts as unassigned (${core.kind})`, () => {
    const tables = evenTables(1);
    const place = (flags: number): number[] => encode(core, [op(Opcode.GET, ["k"], 0, flags)], tables, 100).place;
    const slot = core.slot("k");
    for (const alias of [-1, -3, 2, 1 << 20]) {
      tables.slots[slot] = 0;
      tables.alias = Int32Array.of(alias, 1);
      assert.deepEqual([place(0), place(FLAG_READ)], [[0], [PLACE_UNASSIGNED]]);
    }
    tables.slots[slot] = 2;
    assert.deepEqual([place(0), place(FLAG_READ)], [[PLACE_UNASSIGNED], [PLACE_UNASSIGNED]]);
  });

  test(`arrays that are too short are refused (${core.kind})`, () => {
    const { scratch, desc } = pack([op(Opcode.GET, ["k"]), op(Opcode.GET, ["l"])]);
    const out = Buffer.alloc(100, 0xee);
    const good = evenTables(2);
    const calls: [string, EncodeTables, Int32Array, Int32Array][] = [
      ["place", good, new Int32Array(1), new Int32Array(8)],
      ["sections", good, new Int32Array(2), new Int32Array(7)],
      ["slots", { ...good, slots: new Int32Array(16_383) }, new Int32Array(2), new Int32Array(8)],
      ["held", { ...good, held: new Int32Array(511) }, new Int32Array(2), new Int32Array(8)],
    ];
    for (const [what, tables, place, sections] of calls) {
      assert.throws(() => core.encode(scratch, desc, 2, tables, out, place, sections), what);
    }
    for (const count of [-1, 0.5, Number.NaN, desc.length + 1]) {
      const place = new Int32Array(20);
      assert.throws(() => core.encode(scratch, desc, count, good, out, place, new Int32Array(8)), `${count}`);
      assert.throws(() => core.encodeTo(scratch, desc, count, out), `${count}`);
    }
    assert.ok(out.every((byte) => byte === 0xee));
    assert.ok(core.encode(scratch, desc, 2, good, out, new Int32Array(2), new Int32Array(8)) > 0);
  });
}
