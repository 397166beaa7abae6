/**
 * The addon at its own border: whatever JavaScript passes is answered or refused, and never harms the process. What the
 * functions compute is tested next to the portable core; here it only shows that an accepted call was understood.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import v8 from "node:v8";
import vm from "node:vm";
import { Worker } from "node:worker_threads";

import { Kind, ROWS_BASE, ROW_WORDS, SECTION_WORDS } from "#dist/native/types.js";
import type { EncodeTables, RouterSpec, ScanLimits } from "#dist/native/types.js";

import { rust as core } from "./native/cores.js";
import { NOT_COUNTS, words, wrong } from "./native/misuse.js";

const LIMITS: ScanLimits = { maxBulk: 1 << 20, maxRows: 1 << 16, maxDepth: 32, maxLine: 1 << 16 };

const sharedBytes = (size: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(size + 5), 5, size);
const sharedInts = (size: number): Int32Array => new Int32Array(new SharedArrayBuffer(size * 4 + 12), 12, size);

/** One GET of `foo` and everything to encode it with. `arrays` makes the arrays, over whatever memory it likes. */
function oneGet(
  bytes = (size: number): Uint8Array => new Uint8Array(size),
  ints = (size: number): Int32Array => new Int32Array(size),
) {
  const scratch = bytes(3);
  scratch.set(Buffer.from("foo"));
  const desc = ints(3);
  desc.set([1, 1, 3]);
  const tables: EncodeTables = { slots: ints(16_384), held: ints(512), alias: ints(2) };
  tables.slots.fill(1);
  return { scratch, desc, tables, out: bytes(64), place: ints(1), sections: ints(2 * SECTION_WORDS) };
}

type Call = ReturnType<typeof oneGet>;
const GET_FOO = "*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n";
const encode = ({ scratch, desc, tables, out, place, sections }: Call, count = 1): number =>
  core.encode(scratch, desc, count, tables, out, place, sections);

function assertEncoded(call: Call): void {
  assert.equal(encode(call), GET_FOO.length);
  assert.equal(Buffer.from(call.out.slice(0, GET_FOO.length)).toString(), GET_FOO);
  assert.equal(call.place[0], 1);
  assert.deepEqual([...call.sections.subarray(0, SECTION_WORDS)], [1, 0, GET_FOO.length, 1]);
}

test("arrays that are too short for their count are refused and nothing is written", () => {
  const range = { name: "RangeError", code: "ERR_OUT_OF_RANGE" };
  for (const change of [
    (call: Call) => void (call.desc = words(1, 1)),
    (call: Call) => void (call.desc = words(1, 2, 3)),
    (call: Call) => void (call.desc = words(1, 1, 4)),
    (call: Call) => void (call.desc = words(1, 1, -1)),
    (call: Call) => void (call.desc = words(1, -1, 3)),
    (call: Call) => void (call.desc = words(1 | (1 << 16), 1, 3)),
    (call: Call) => void (call.desc = words(255, 1, 3)),
    (call: Call) => void (call.desc = words()),
    (call: Call) => void (call.scratch = new Uint8Array(2)),
    (call: Call) => void (call.tables.slots = new Int32Array(16_383)),
    (call: Call) => void (call.tables.held = new Int32Array(511)),
    (call: Call) => void (call.tables.alias = new Int32Array(3)),
    (call: Call) => void (call.place = new Int32Array(0)),
    (call: Call) => void (call.sections = new Int32Array(7)),
  ]) {
    const call = oneGet();
    change(call);
    assert.throws(() => encode(call), range, change.toString());
    assert.ok(call.out.every((byte) => byte === 0) && call.place.every((word) => word === 0));
    assert.ok(call.sections.every((word) => word === 0));
  }
  const call = oneGet();
  for (const count of [2, 3, 4, ...NOT_COUNTS]) {
    assert.throws(() => encode(call, count), range);
    assert.throws(() => core.encodeTo(call.scratch, call.desc, count, call.out), range);
  }
  call.tables.slots.fill(0x7fff_ffff);
  assert.equal(encode(call), 0, "a node that alias does not know is no node");
  assert.equal(call.place[0], -1);
});

test("arrays of another type are refused", () => {
  const others = [undefined, null, [], "x", {}, new ArrayBuffer(64), new Float64Array(8), new Uint32Array(64)];
  for (const other of others) {
    for (const name of ["scratch", "desc", "out", "place", "sections"] as const) {
      const call = { ...oneGet(), [name]: wrong(other) };
      assert.throws(() => encode(call), { name: "TypeError", message: new RegExp(`^${name} must be an? `) }, name);
    }
    for (const name of ["slots", "held", "alias"] as const) {
      const call = oneGet();
      call.tables[name] = wrong(other);
      assert.throws(() => encode(call), { name: "TypeError", message: `${name} must be an Int32Array` });
    }
  }
  assert.throws(() => encode({ ...oneGet(), desc: wrong(new Uint8Array(64)) }), { name: "TypeError" });
  assert.throws(() => encode({ ...oneGet(), out: wrong(new Int32Array(64)) }), { name: "TypeError" });
});

test("an array that is written may not overlap another", () => {
  const overlaps = { name: "RangeError", message: /overlaps another argument$/ };
  const memory = new ArrayBuffer(1 << 10);
  const call = oneGet();
  const shared = {
    ...call,
    scratch: new Uint8Array(memory, 0, 3),
    out: new Uint8Array(memory, 2, 64),
  };
  assert.throws(() => encode(shared), overlaps);
  assert.throws(() => encode({ ...call, place: call.desc }), overlaps);
  assert.throws(() => encode({ ...call, sections: call.tables.slots.subarray(100, 108) }), overlaps);
  assert.throws(() => encode({ ...call, place: call.sections.subarray(7) }), overlaps);
  assert.throws(() => core.encodeTo(call.out, call.desc, 1, call.out.subarray(63)), overlaps);
  const lengths = words(3);
  assert.throws(() => core.slotBatch("foo", lengths, 1, lengths), overlaps);
  const rows = new Int32Array(64);
  const scanner = core.createScanner(LIMITS);
  assert.throws(() => scanner.scan(new Uint8Array(rows.buffer), 0, 8, rows), overlaps);
  shared.out = new Uint8Array(memory, 3, 64);
  shared.scratch.set(Buffer.from("foo"));
  assertEncoded(shared);
  const same = oneGet();
  same.tables.held = same.tables.slots.fill(0);
  assert.equal(encode(same), GET_FOO.length, "arrays that are only read may be one");
});

test("views over a SharedArrayBuffer, at any offset, are taken as they are", () => {
  const call = oneGet(sharedBytes, sharedInts);
  assertEncoded(call);
  assert.equal(core.slot(sharedBytes(0)), 0);
  const key = sharedBytes(3);
  key.set(Buffer.from("foo"));
  assert.equal(core.slot(key), 12_182);
  const out = sharedInts(1);
  const lengths = sharedInts(1);
  lengths[0] = 3;
  core.slotBatch("foo", lengths, 1, out);
  assert.equal(out[0], 12_182);
  const buf = sharedBytes(9);
  buf.set(Buffer.from("$3\r\nfoo\r\n"));
  const rows = sharedInts(ROWS_BASE + ROW_WORDS);
  assert.equal(core.createScanner(LIMITS).scan(buf, 0, 9, rows), 1);
  assert.deepEqual([...rows.subarray(ROWS_BASE)], [Kind.BULK, 4, 3]);
});

test("detached, empty and shrunk arrays count as empty", () => {
  const detached = Uint8Array.from(Buffer.from("foo"));
  structuredClone(detached, { transfer: [detached.buffer] });
  assert.equal(core.slot(detached), 0);
  assert.equal(core.hash64(detached), core.hash64(""));
  const resizable = Reflect.construct(ArrayBuffer, [8, { maxByteLength: 16 }]) as ArrayBuffer & {
    resize(length: number): void;
  };
  const tail = new Uint8Array(resizable, 4, 4).fill(0x41);
  assert.equal(core.slot(tail), core.slot("AAAA"));
  resizable.resize(6);
  assert.equal(core.slot(tail), 0);
  for (const name of ["scratch", "desc", "out", "place", "sections"] as const) {
    const call = oneGet();
    const view = call[name];
    structuredClone(view, { transfer: [view.buffer as ArrayBuffer] });
    if (name === "out") assert.equal(encode(call), -GET_FOO.length);
    else assert.throws(() => encode(call), { name: "RangeError" });
  }
  const scanner = core.createScanner(LIMITS);
  const rows = new Int32Array(ROWS_BASE);
  assert.equal(scanner.scan(detached, 0, 0, rows), 0);
  assert.throws(() => scanner.scan(detached, 0, 1, rows), { name: "RangeError" });
  structuredClone(rows, { transfer: [rows.buffer] });
  assert.throws(() => scanner.scan(detached, 0, 0, rows), { name: "RangeError" });
});

test("a small Uint8Array that still lives in the engine's heap is read where it is", () => {
  for (let round = 0; round < 100; round++) {
    const key = new Uint8Array(8).fill(0x61 + (round % 26));
    assert.equal(core.slot(key), core.slot(String.fromCharCode(0x61 + (round % 26)).repeat(8)));
  }
});

test("limits are whole numbers, and what is beyond 32 bits means none", () => {
  const names = ["maxBulk", "maxRows", "maxDepth", "maxLine"] as const;
  for (const name of names) {
    for (const limit of [-1, 0.5, Number.NaN, -Infinity]) {
      assert.throws(() => core.createScanner({ ...LIMITS, [name]: limit }), { name: "RangeError" });
    }
    for (const limit of [undefined, "1", 1n, null]) {
      assert.throws(() => core.createScanner({ ...LIMITS, [name]: wrong(limit) }), { name: "TypeError" });
    }
  }
  const free = core.createScanner({ maxBulk: Infinity, maxRows: 2 ** 53, maxDepth: 2 ** 31, maxLine: 1e300 });
  const rows = new Int32Array(ROWS_BASE + 2 * ROW_WORDS);
  assert.equal(free.scan(Buffer.from("*1\r\n$1\r\nx\r\n"), 0, 11, rows), 1);
});

test("a range outside the buffer is refused and leaves the scanner as it was", () => {
  const scanner = core.createScanner(LIMITS);
  const rows = new Int32Array(ROWS_BASE + ROW_WORDS).fill(7);
  const buf = Buffer.from("$3\r\nfoo\r\n");
  for (const [from, to] of [
    [0, 10],
    [5, 4],
    [-1, 4],
    [0.5, 4],
    [0, Number.NaN],
    [0, 2 ** 32 + 4],
    [0, Infinity],
  ]) {
    assert.throws(() => scanner.scan(buf, from, to, rows), { name: "RangeError", code: "ERR_OUT_OF_RANGE" });
  }
  assert.throws(() => scanner.scan(buf, 0, wrong("9"), rows), { name: "TypeError" });
  assert.throws(() => scanner.scan(wrong("$3"), 0, 2, rows), { name: "TypeError" });
  assert.throws(() => scanner.scan(buf, 0, 9, new Int32Array(ROWS_BASE - 1)), { name: "RangeError" });
  assert.ok(rows.every((word) => word === 7));
  assert.equal(scanner.scan(buf, 0, 9, rows), 1);
});

/** Makes a router of a spec of which one part is replaced. */
const router = (change: Partial<RouterSpec>) => (): unknown =>
  core.createRouter({ prefixes: [{ prefix: "up:", domain: 0 }], fallback: { kind: "reject" }, ...change });

test("router specs that make no sense are refused", () => {
  const range = { name: "RangeError" };
  for (const domain of [-1, 1023, 0.5, Number.NaN, 2 ** 32]) {
    assert.throws(router({ prefixes: [{ prefix: "a", domain }] }), range);
    assert.throws(router({ fallback: { kind: "domain", domain } }), range);
    assert.throws(router({ fallback: { kind: "hash", domains: [domain], names: ["a"] } }), range);
    assert.throws(router({ fallback: { kind: "md5-modulo", domains: [domain] } }), range);
  }
  const twice = [
    { prefix: "é", domain: 0 },
    { prefix: "é", domain: 1 },
  ];
  assert.throws(router({ prefixes: twice }), { name: "RangeError", message: "prefix 1 is a duplicate" });
  const lone = [
    { prefix: "\ud83d", domain: 0 },
    { prefix: "\ufffd", domain: 1 },
  ];
  assert.throws(router({ prefixes: lone }), range, "two prefixes of the same bytes");
  assert.throws(router({ fallback: { kind: "hash", domains: [], names: [] } }), range);
  assert.throws(router({ fallback: { kind: "hash", domains: [0, 1], names: ["a"] } }), range);
  assert.throws(router({ fallback: { kind: "md5-modulo", domains: [] } }), range);
});

test("functions work apart from their object and keep what they need alive", async () => {
  v8.setFlagsFromString("--expose-gc");
  const collect = vm.runInNewContext("gc") as () => void;
  const { scan } = core.createScanner(LIMITS);
  const { route } = core.createRouter({ prefixes: [{ prefix: "up:", domain: 3 }], fallback: { kind: "reject" } });
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 2000; i++) core.createScanner(LIMITS);
    collect();
    await turn();
  }
  const rows = new Int32Array(ROWS_BASE + ROW_WORDS);
  assert.equal(scan(Buffer.from(":12\r\n"), 0, 5, rows), 1);
  assert.deepEqual([...rows.subarray(ROWS_BASE)], [Kind.INT32, 1, 12]);
  assert.equal(route("up:1"), core.slot("up:1") | (3 << 14));
  assert.equal(route.call(wrong(core.createScanner(LIMITS)), "up:1"), core.slot("up:1") | (3 << 14));
});

test("a slot table that another thread writes meanwhile is read word by word", async () => {
  const call = oneGet(undefined, (size) => new Int32Array(new SharedArrayBuffer(size * 4)));
  const writer = new Worker(
    `const { workerData, parentPort } = require("node:worker_threads");
     const { slots, stop } = workerData;
     parentPort.postMessage("writing");
     for (let turn = 0; Atomics.load(stop, 0) === 0; turn++) slots.fill(turn & 1);`,
    { eval: true, workerData: { slots: call.tables.slots, stop: call.tables.held.subarray(511) } },
  );
  await once(writer, "message");
  const nodes = new Set<number>();
  for (let i = 0; i < 2_000_000 && nodes.size < 2; i++) {
    assert.equal(encode(call), GET_FOO.length);
    nodes.add(call.place[0]);
  }
  Atomics.store(call.tables.held, 511, 1);
  await once(writer, "exit");
  assert.deepEqual(
    [...nodes].toSorted((a, b) => a - b),
    [0, 1],
  );
});
