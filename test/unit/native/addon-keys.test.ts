/** Keys and batches of keys at the border of the addon: every form of string is read as its UTF-8, the rest is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { rust as core } from "./cores.js";
import { NOT_COUNTS, NOT_KEYS, words, wrong } from "./misuse.js";

test("keys that are neither strings nor bytes are refused", () => {
  const router = core.createRouter({ prefixes: [], fallback: { kind: "reject" } });
  const others = [...NOT_KEYS, new Uint8ClampedArray(4), new DataView(new ArrayBuffer(4)), new String("k")];
  for (const key of others) {
    for (const take of [core.slot, core.hash64, router.route, router.matched]) {
      assert.throws(() => take(wrong(key)), { name: "TypeError", code: "ERR_INVALID_ARG_TYPE" });
    }
  }
  assert.throws(() => (core.slot as unknown as () => number)(), { name: "TypeError" });
});

test("E6: strings around the room that the addon keeps ready are read to their end", () => {
  for (const unit of ["k", "é", "€", "\u{1f600}", "\ud83d"]) {
    const size = Buffer.byteLength(unit);
    for (const length of [4090, 4091, 4092, 4093, 4094, 4095, 4096, 4097, 5000, 70_000]) {
      const key = unit.repeat(Math.ceil(length / size)) + "x".repeat(length % 7);
      assert.equal(core.slot(key), core.slot(Buffer.from(key)), `${length} bytes of ${size}`);
      assert.equal(core.hash64(key), core.hash64(Buffer.from(key)));
    }
  }
});

test("R4: strings of every inner form count as their UTF-8", () => {
  const joined = `${"a".repeat(40)}${"é".repeat(40)}`;
  const sliced = `--${joined}--`.slice(2, -2);
  for (const key of [joined, sliced, "\0", "a\0b", "\udc00\ud800", "\ud83d", "a\udc00", "\uffff", "\u{10ffff}"]) {
    assert.equal(core.slot(key), core.slot(Buffer.from(key)), JSON.stringify(key));
  }
});

test("a batch whose lengths do not match its text is refused and writes nothing", () => {
  const out = new Int32Array(4).fill(-9);
  const batch = (text: unknown, lengths: unknown, count: unknown) => () =>
    core.slotBatch(wrong(text), wrong(lengths), wrong(count), out);
  const range = { name: "RangeError", code: "ERR_OUT_OF_RANGE" };
  assert.throws(batch("abc", words(1, 1), 2), range);
  assert.throws(batch("abc", words(2, 2), 2), range);
  assert.throws(batch("é", words(2), 1), range);
  assert.throws(batch("abc", words(4, -1), 2), range);
  assert.throws(batch("abc", words(0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff), 3), range);
  assert.throws(batch("abc", words(1, 2), 3), range);
  assert.throws(batch("abcde", words(1, 1, 1, 1, 1), 5), range);
  for (const count of NOT_COUNTS) assert.throws(batch("abc", words(1, 2), count), range);
  for (const text of NOT_KEYS) assert.throws(batch(text, words(1, 2), 2), { name: "TypeError" });
  for (const lengths of [[1, 2], new Uint32Array(2), new Uint8Array(2), undefined]) {
    assert.throws(batch("abc", lengths, 2), { name: "TypeError" });
  }
  assert.throws(batch("abc", words(1, 2), "2"), { name: "TypeError" });
  assert.deepEqual([...out], [-9, -9, -9, -9]);
  core.slotBatch("", words(), 0, new Int32Array(0));
  core.slotBatch("", words(0, 0), 2, out);
  assert.deepEqual([...out], [0, 0, -9, -9]);
  const keys = ["\ud83d", "\ude00", "é", "", "\u{1f600}"];
  const slots = new Int32Array(keys.length);
  core.slotBatch(
    keys.join(""),
    Int32Array.from(keys, (key) => key.length),
    keys.length,
    slots,
  );
  assert.deepEqual(
    [...slots],
    keys.map((key) => core.slot(Buffer.from(key))),
  );
});

test("a batch of a million units is answered, and a small one after it", () => {
  for (const unit of ["k", "€"]) {
    const keys = Array.from({ length: 4096 }, (_, at) => unit.repeat(at % 512));
    const out = new Int32Array(keys.length);
    core.slotBatch(
      keys.join(""),
      Int32Array.from(keys, (key) => key.length),
      keys.length,
      out,
    );
    assert.deepEqual(
      [...out],
      keys.map((key) => core.slot(key)),
    );
    core.slotBatch("foo", words(3), 1, out);
    assert.equal(out[0], 12_182);
  }
});
