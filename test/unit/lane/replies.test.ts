/** Rows of a scan → JavaScript values: every RESP type, in the shape each call asks for. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { KeylaneError } from "keylane";

import { CODECS } from "#dist/lane/codec.js";
import {
  BUFFER_SHAPE,
  FLAG_SHAPE,
  INTEGER_SHAPE,
  PAIRS_SHAPE,
  RAW_SHAPE,
  ReplyRows,
  STORED_SHAPE,
  TTL_SHAPE,
  ValueShape,
  integerOf,
} from "#dist/lane/replies.js";
import type { Shape } from "#dist/lane/replies.js";
import { native } from "#dist/native/index.js";
import { ROWS_BASE, ROW_WORDS, SCAN_ROWS } from "#dist/native/types.js";

/** Reads every reply in `stream` by `shape`; afterwards overwrites the memory, which a connection would reuse. */
function readAll(stream: string | Buffer, shape: Shape = RAW_SHAPE): unknown[] {
  const memory = Buffer.from(typeof stream === "string" ? Buffer.from(stream) : stream);
  const rows = new ReplyRows(memory, { feeder: 0, healthy: true });
  const scanner = native.createScanner({ maxBulk: 1 << 20, maxRows: 1 << 16, maxDepth: 32, maxLine: 1 << 16 });
  const count = scanner.scan(memory, 0, memory.length, rows.table);
  const values: unknown[] = [];
  rows.at = ROWS_BASE;
  for (let i = 0; i < count; i += 1) values.push(shape.read(rows));
  assert.equal(rows.at, ROWS_BASE + ROW_WORDS * rows.table[SCAN_ROWS]!, "the cursor stands behind the last reply");
  memory.fill(0x2a);
  return values;
}
const read = (stream: string | Buffer, shape?: Shape): unknown => readAll(stream, shape)[0];

test("scalars of RESP2 and RESP3", () => {
  const replies: [string, unknown][] = [
    ["+OK\r\n", "OK"],
    ["$5\r\nhello\r\n", "hello"],
    ["$0\r\n\r\n", ""],
    ["$6\r\n\u00e9\u65e5x\r\n", "é日x"],
    ["$-1\r\n", null],
    ["*-1\r\n", null],
    ["_\r\n", null],
    [":0\r\n", 0],
    [":-5\r\n", -5],
    [":2147483648\r\n", 2147483648],
    ["#t\r\n", true],
    ["#f\r\n", false],
    [",1.5\r\n", 1.5],
    [",inf\r\n", Infinity],
    [",-inf\r\n", -Infinity],
    [",nan\r\n", Number.NaN],
    ["(3492890328409238509324850943850943825024385\r\n", 3492890328409238509324850943850943825024385n],
    ["(5\r\n", 5],
    ["=7\r\ntxt:abc\r\n", "abc"],
  ];
  for (const [stream, value] of replies) assert.deepEqual(read(stream), value, stream);
});

test("E2: integers past 2^53 come as bigint, exactly", () => {
  const replies: [string, number | bigint][] = [
    ["9007199254740991", 9007199254740991],
    ["-9007199254740991", -9007199254740991],
    ["9007199254740992", 9007199254740992n],
    ["9007199254740993", 9007199254740993n],
    ["9223372036854775807", 9223372036854775807n],
    ["-9223372036854775808", -9223372036854775808n],
  ];
  for (const [digits, value] of replies) {
    assert.equal(read(`:${digits}\r\n`), value);
    assert.equal(read(`:${digits}\r\n`, INTEGER_SHAPE), value);
    assert.equal(integerOf(digits), value);
  }
});

test("aggregates, nested, with errors as values", () => {
  assert.deepEqual(read("*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n_\r\n"), [1, ["a", []], null]);
  assert.deepEqual(read("~2\r\n+a\r\n+b\r\n"), ["a", "b"]);
  assert.deepEqual(read("%2\r\n+f\r\n:1\r\n$1\r\ng\r\n%1\r\n+h\r\n#t\r\n"), { f: 1, g: { h: true } });
  const [error, after] = read("*2\r\n-WRONGTYPE Operation\r\n+OK\r\n") as [KeylaneError, string];
  assert.ok(error instanceof KeylaneError);
  assert.equal(error.code, "KEYLANE_ERR_WRONGTYPE");
  assert.equal(error.message, "WRONGTYPE Operation");
  assert.equal(after, "OK");
  const [blob] = read("*1\r\n!8\r\nERR a\r\nb\r\n") as [KeylaneError];
  assert.equal(blob.message, "ERR a\r\nb");
});

test("streamed strings are whole, also where a piece ends inside a character", () => {
  const stream = Buffer.concat([
    Buffer.from("$?\r\n;1\r\n"),
    Buffer.from([0xc3]),
    Buffer.from("\r\n;2\r\n"),
    Buffer.from([0xa9, 0x78]),
    Buffer.from("\r\n;0\r\n"),
  ]);
  assert.equal(read(stream), "éx");
  assert.deepEqual(read(stream, BUFFER_SHAPE), Buffer.from("éx"));
  assert.equal(read(stream, new ValueShape(CODECS.utf8)), "éx");
});

test("attributes before a reply or inside one are passed over", () => {
  const attribute = "|1\r\n+ttl\r\n*2\r\n:1\r\n:2\r\n";
  assert.deepEqual(readAll(`${attribute}+OK\r\n:5\r\n`), ["OK", 5]);
  assert.deepEqual(read(`*2\r\n${attribute}:1\r\n:2\r\n`), [1, 2]);
  assert.equal(read(`${attribute}$1\r\nv\r\n`, new ValueShape(CODECS.utf8)), "v");
  assert.equal(read(`${attribute}_\r\n`, new ValueShape(CODECS.utf8)), null);
});

test("E3: __proto__ and constructor as fields are own properties, from a map and from a flat list", () => {
  const fields = "$9\r\n__proto__\r\n$3\r\nbad\r\n$11\r\nconstructor\r\n$1\r\nc\r\n$1\r\na\r\n$1\r\n1\r\n";
  for (const stream of [`%3\r\n${fields}`, `*6\r\n${fields}`]) {
    const made = read(stream, PAIRS_SHAPE) as Record<string, unknown>;
    assert.deepEqual(Object.keys(made), ["__proto__", "constructor", "a"]);
    assert.equal(Object.getOwnPropertyDescriptor(made, "__proto__")?.value, "bad");
    assert.equal(made["constructor"], "c");
    assert.equal(Object.getPrototypeOf(made), Object.prototype);
  }
  assert.equal(({} as { admin?: unknown }).admin, undefined);
});

test("buffers: texts as bytes of their own, fields of a map still as names", () => {
  const stream = Buffer.concat([
    Buffer.from("%1\r\n$1\r\nf\r\n*2\r\n$3\r\n"),
    Buffer.from([0, 0x80, 0xff]),
    Buffer.from("\r\n:7\r\n"),
  ]);
  assert.deepEqual(read(stream, BUFFER_SHAPE), { f: [Buffer.from([0, 0x80, 0xff]), 7] });
  assert.deepEqual(readAll("$1\r\na\r\n$1\r\nb\r\n", BUFFER_SHAPE), [Buffer.from("a"), Buffer.from("b")]);
});

test("values by codec; a value that is no text is a protocol error", () => {
  assert.deepEqual(readAll('$7\r\n{"a":1}\r\n$-1\r\n', new ValueShape(CODECS.json)), [{ a: 1 }, null]);
  assert.throws(() => read(":5\r\n", new ValueShape(CODECS.utf8)), { code: "KEYLANE_ERR_PROTOCOL" });
  assert.throws(() => read("*0\r\n", new ValueShape(CODECS.utf8)), { code: "KEYLANE_ERR_PROTOCOL" });
  assert.throws(() => read("$1\r\nx\r\n", INTEGER_SHAPE), { code: "KEYLANE_ERR_PROTOCOL" });
});

test("flags, stored and remaining life", () => {
  assert.deepEqual(readAll(":1\r\n:0\r\n:2\r\n", FLAG_SHAPE), [true, false, true]);
  assert.deepEqual(readAll("+OK\r\n$-1\r\n_\r\n", STORED_SHAPE), [true, false, false]);
  assert.deepEqual(readAll(":1500\r\n:-1\r\n:-2\r\n:0\r\n", TTL_SHAPE), [1500, Infinity, null, 0]);
});

test("a reply of a kind that the command cannot have is no result", () => {
  for (const [bytes, shape] of [
    ["+OK\r\n", FLAG_SHAPE],
    ["$1\r\n1\r\n", FLAG_SHAPE],
    ["_\r\n", FLAG_SHAPE],
    [":1\r\n", STORED_SHAPE],
    ["+QUEUED\r\n", STORED_SHAPE],
    ["$2\r\nno\r\n", STORED_SHAPE],
    ["+OK\r\n", TTL_SHAPE],
    ["*0\r\n", INTEGER_SHAPE],
  ] as const) {
    assert.throws(() => readAll(bytes, shape), { code: "KEYLANE_ERR_PROTOCOL", outcome: "unknown" }, bytes);
  }
});

test("skip passes over whole replies", () => {
  const memory = Buffer.from("*2\r\n%1\r\n+a\r\n*1\r\n:1\r\n$?\r\n;1\r\nx\r\n;0\r\n:9\r\n");
  const rows = new ReplyRows(memory, { feeder: 0, healthy: true });
  const scanner = native.createScanner({ maxBulk: 1 << 20, maxRows: 1 << 16, maxDepth: 32, maxLine: 1 << 16 });
  assert.equal(scanner.scan(memory, 0, memory.length, rows.table), 2);
  rows.at = ROWS_BASE;
  rows.skip();
  assert.equal(rows.value(), 9);
});
