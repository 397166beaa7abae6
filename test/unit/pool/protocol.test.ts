/** Messages between caller and worker: what is written is what is read, whatever the bytes, and memory is used again. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { KeylaneError } from "keylane";
import { BUFFER_SHAPE, RAW_SHAPE, ReplyRows } from "#dist/lane/replies.js";
import { native } from "#dist/native/index.js";
import { AnswerReader, AnswerWriter } from "#dist/pool/answers.js";
import { workerOf } from "#dist/pool/balance.js";
import { Crates } from "#dist/pool/crates.js";
import { DOMAIN_SHIFT, KEPT_WORDS, KIND_MASK, OP_SCRIPT, OpKind, elapsedMs } from "#dist/pool/protocol.js";
import { RequestReader, RequestWriter } from "#dist/pool/requests.js";

const LIMITS = { maxBulk: 1 << 20, maxRows: 1000, maxDepth: 10, maxLine: 1000 };

/** Rows of scanned replies, as a connection has them. */
function scanned(text: string): ReplyRows {
  const buffer = Buffer.from(text);
  const rows = new ReplyRows(buffer, { feeder: 0, healthy: true });
  native.createScanner(LIMITS).scan(buffer, 0, buffer.length, rows.table);
  rows.run = 1;
  rows.runEnd = buffer.length;
  return rows;
}

const ENVELOPE = { stamp: 12_345, cancelled: [7, 9], base: 3 << 12 };

describe("requests", () => {
  const keys = ["plain", "", "ключ", "\u{1f600}", "\ud800"];

  for (const some of [["up:1", "up:22"], keys, ["x".repeat(100_000)]]) {
    const what = `${some.length} keys that begin with ${JSON.stringify(some[0]!.slice(0, 8))}`;

    it(`carry GETs of one domain, ${what}, without a word each`, () => {
      const { crate, bytes } = new RequestWriter(new Crates()).gets(some, 777, ENVELOPE);
      const reader = new RequestReader(crate);
      assert.deepEqual([reader.count, reader.stamp, reader.base], [some.length, 12_345, 3 << 12]);
      assert.deepEqual([reader.gets, reader.size], [777, bytes]);
      assert.deepEqual([...reader.cancelled()], [7, 9]);
      for (const key of some) assert.deepEqual(Buffer.from(reader.arg()), Buffer.from(key));
    });

    it(`carry FETCHes of one domain, ${what}, without a word each, and among GETs with one`, () => {
      const writer = new RequestWriter(new Crates());
      const alike = new RequestReader(writer.fetches(some, 5, ENVELOPE).crate);
      assert.deepEqual([alike.count, alike.gets, alike.fetches, alike.base], [some.length, -1, 5, 3 << 12]);
      for (const key of some) assert.deepEqual(Buffer.from(alike.arg()), Buffer.from(key));
      writer.get(1, "get");
      for (const key of some) writer.get(7, key, OpKind.FETCH);
      const mixed = new RequestReader(writer.finish(ENVELOPE).crate);
      assert.deepEqual([mixed.gets, mixed.fetches, mixed.word() & KIND_MASK], [-1, -1, OpKind.GET]);
      assert.deepEqual(Buffer.from(mixed.arg()), Buffer.from("get"));
      for (const key of some) {
        const meta = mixed.word();
        assert.deepEqual([meta & KIND_MASK, meta >> DOMAIN_SHIFT], [OpKind.FETCH, 7]);
        assert.deepEqual(Buffer.from(mixed.arg()), Buffer.from(key));
      }
    });

    it(`carry GETs of several domains, ${what}`, () => {
      const writer = new RequestWriter(new Crates());
      for (const [at, key] of some.entries()) writer.get(at + 1, key);
      const { crate, bytes } = writer.finish(ENVELOPE);
      const reader = new RequestReader(crate);
      assert.deepEqual([reader.count, reader.stamp, reader.size], [some.length, 12_345, bytes]);
      assert.deepEqual([reader.gets, [...reader.cancelled()]], [-1, [7, 9]]);
      for (const [at, key] of some.entries()) {
        const meta = reader.word();
        assert.deepEqual([meta & KIND_MASK, meta >> DOMAIN_SHIFT], [OpKind.GET, at + 1]);
        assert.deepEqual(Buffer.from(reader.arg()), Buffer.from(key));
      }
      assert.equal(writer.count, 0, "the writer is empty");
    });
  }

  it("carry operations with arguments, a script and a deadline, mixed with GETs, in order", () => {
    const bytes = Buffer.from([0, 255, 13, 10]);
    const writer = new RequestWriter(new Crates());
    writer.get(0, "a");
    writer.add(OpKind.CALL, OP_SCRIPT, 5, 77, 250, 3, "sha", ["1", Buffer.from([200])], "return 1 -- ä");
    writer.add(OpKind.LOAD, 0, 999, 78, 0, 0, bytes, null, null);
    const reader = new RequestReader(writer.finish({ stamp: 0, cancelled: [], base: 0 }).crate);
    assert.deepEqual([reader.word(), reader.arg()], [0, "a"]);
    const words = Array.from({ length: 5 }, () => reader.word());
    assert.deepEqual(words, [1 | (OP_SCRIPT << 4) | (5 << DOMAIN_SHIFT), 77, 250, 3, 4]);
    assert.equal(reader.arg(), "sha");
    assert.deepEqual(reader.args(2), ["1", Buffer.from([200])]);
    assert.equal(String(reader.arg()), "return 1 -- ä");
    assert.deepEqual(
      Array.from({ length: 5 }, () => reader.word()),
      [OpKind.LOAD | (999 << DOMAIN_SHIFT), 78, 0, 0, 1],
    );
    assert.deepEqual(reader.arg(), bytes);
    assert.equal(reader.args(0), null);
  });

  it("grow beyond their first size", () => {
    const writer = new RequestWriter(new Crates());
    for (let at = 0; at < 10_000; at += 1) writer.get(at & 1, `key:${at}`);
    const reader = new RequestReader(writer.finish({ stamp: 0, cancelled: [], base: 0 }).crate);
    for (let at = 0; at < 10_000; at += 1) {
      assert.equal(reader.word() >> DOMAIN_SHIFT, at & 1);
      assert.equal(reader.arg(), `key:${at}`);
    }
  });
});

describe("answers", () => {
  const WIRE =
    "$5\r\nhello\r\n:42\r\n*3\r\n$1\r\na\r\n$-1\r\n:9223372036854775807\r\n_\r\n%1\r\n+f\r\n,1.5\r\n$2\r\né\r\n";

  for (const alone of [true, false]) {
    it(`carry replies as they came, ${alone ? "a run at once" : "each by itself"}, among integers, values and errors`, () => {
      const writer = new AnswerWriter(new Crates());
      writer.alone = alone;
      const rows = scanned(WIRE);
      const starts: [number, number][] = [];
      for (let i = 0; i < 6; i += 1) {
        const from = rows.at;
        rows.skip();
        starts.push([from, rows.at]);
      }
      for (const [at, [from, to]] of starts.entries()) writer.reply(100 + at, rows, from, to);
      writer.error(
        7,
        new KeylaneError("KEYLANE_ERR_BUSY", "BUSY ü", { node: "a:1", slot: 3, cause: new Error("why") }),
      );
      writer.loaded(8, { index: 5, proof: -6, check: 7 }, rows, ...starts[0]!);
      writer.value(9, [1, 2 ** 40, 1n << 60n, true, null, "é", Buffer.from([255]), { f: ["x"] }]);
      const reader = new AnswerReader();
      reader.open(writer.finish(4321));
      assert.deepEqual([reader.left, reader.taken], [9, 4321]);
      const values = Array.from({ length: 6 }, (_, at) => {
        assert.equal(reader.next(), 100 + at);
        assert.equal(reader.failed, false);
        return RAW_SHAPE.read(reader.rows);
      });
      assert.deepEqual(values, ["hello", 42, ["a", null, 9223372036854775807n], null, { f: 1.5 }, "é"]);
      assert.equal(reader.next(), 7);
      assert.equal(reader.failed, true);
      const error = reader.error();
      assert.deepEqual(
        [error.code, error.message, error.node, error.slot, error.outcome, (error.cause as Error).message],
        ["KEYLANE_ERR_BUSY", "BUSY ü", "a:1", 3, "rejected", "why"],
      );
      assert.equal(reader.next(), 8);
      const kept = reader.rows.at;
      assert.deepEqual([...reader.rows.table.subarray(kept, kept + KEPT_WORDS)], [5, -6, 7]);
      reader.rows.at = kept + KEPT_WORDS;
      assert.equal(RAW_SHAPE.read(reader.rows), "hello");
      assert.equal(reader.next(), 9);
      const value = BUFFER_SHAPE.read(reader.rows) as unknown[];
      assert.deepEqual(value.slice(0, 5), [1, 2 ** 40, 1n << 60n, true, null]);
      assert.deepEqual(value[6], Buffer.from([255]));
      assert.equal(writer.count, 0);
    });
  }

  it("grow: many replies, and one longer than a message begins with", () => {
    const writer = new AnswerWriter(new Crates());
    const long = scanned(`$300000\r\n${"z".repeat(300_000)}\r\n`);
    writer.reply(0, long, 8, 11);
    const short = scanned("$1\r\nv\r\n");
    for (let id = 1; id < 20_000; id += 1) writer.reply(id, short, 8, 11);
    const reader = new AnswerReader();
    reader.open(writer.finish(0));
    assert.equal(reader.next(), 0);
    assert.equal((RAW_SHAPE.read(reader.rows) as string).length, 300_000);
    for (let id = 1; id < 20_000; id += 1) {
      assert.equal(reader.next(), id);
      assert.equal(RAW_SHAPE.read(reader.rows), "v");
    }
  });
});

describe("balance, crates and the clock", () => {
  it("every slot has one worker, and workers have equal shares", () => {
    for (const workers of [1, 2, 3, 7, 64]) {
      const table = Array.from({ length: 16_384 }, (_, slot) => workerOf(slot, workers));
      const shares = Array.from({ length: workers }, (_, worker) => table.filter((one) => one === worker).length);
      assert.equal(
        shares.reduce((sum, share) => sum + share, 0),
        16_384,
      );
      assert.ok(Math.max(...shares) - Math.min(...shares) <= 1, String(shares));
    }
  });

  it("memory that was given back is taken again, when it is large enough", () => {
    const crates = new Crates();
    const first = crates.take(20_000);
    assert.ok(first.byteLength >= 20_000);
    crates.give(first);
    assert.notEqual(crates.take(first.byteLength + 1), first);
    assert.equal(crates.take(first.byteLength), first);
  });

  it("stamps wrap", () => {
    assert.equal(elapsedMs(0x7fff_fffe, 3), 5);
    assert.equal(elapsedMs(10, 25), 15);
  });
});
