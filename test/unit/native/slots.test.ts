/** Slots of single keys against figures taken from a server, and hashes against the published ones, for both cores. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { cores } from "./cores.js";

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

for (const core of cores) {
  test(`R2: nested and unbalanced braces (${core.kind})`, () => {
    const slots: [string, number][] = [
      ["foo{{bar}}zap", 4015],
      ["foo{bar}{zap}", 5061],
      ["A}B{C", 7939],
      ["a}b{c}d", 7365],
      ["abc{}", 16_021],
      ["{", 4092],
      ["", 0],
      ["a{'1':{'i32':1}}", 5540],
      ["foo{}{bar}", 8363],
      ["{user1000}.following", 3443],
      ["{user1000}.followers", 3443],
      ["123456789", 12_739],
    ];
    for (const [key, slot] of slots) {
      assert.equal(core.slot(key), slot, key);
      assert.equal(core.slot(Buffer.from(key)), slot, `${key} as bytes`);
    }
  });

  test(`R2: the tag alone decides (${core.kind})`, () => {
    const tags: [string, string][] = [
      ["foo{{bar}}zap", "{bar"],
      ["foo{bar}{zap}", "bar"],
      ["a}b{c}d", "c"],
      ["{é}x", "é"],
      ["{ }", " "],
    ];
    for (const [key, tag] of tags) assert.equal(core.slot(key), core.slot(Buffer.from(tag)), key);
  });

  test(`R4: binary keys are hashed as they are (${core.kind})`, () => {
    assert.equal(core.slot(bytes(0x80)), 4488);
    assert.equal(core.slot("\ufffd"), 13_381);
    assert.equal(core.slot(bytes(0xef, 0xbf, 0xbd)), 13_381);
    assert.equal(core.slot(bytes(0xff, 0xfe, 0x00)), 16_301);
    assert.notEqual(core.slot(bytes(0x80)), core.slot(bytes(0x81)));
    assert.notEqual(core.hash64(bytes(0x80)), core.hash64(bytes(0x81)));
  });

  test(`R4: a view hashes only its own bytes (${core.kind})`, () => {
    const around = Buffer.from("xx{\u0000\u00ff\u00fe\u0000}yy", "latin1");
    const view = around.subarray(4, 7);
    assert.equal(view.byteOffset - around.byteOffset, 4);
    assert.equal(core.slot(view), 16_301);
    assert.equal(core.slot(new Uint8Array(view.buffer, view.byteOffset, view.length)), 16_301);
    assert.equal(core.hash64(view), core.hash64(bytes(0xff, 0xfe, 0x00)));
    const router = core.createRouter({
      prefixes: [{ prefix: "xx", domain: 1 }],
      fallback: { kind: "domain", domain: 2 },
    });
    assert.equal(router.route(view), 16_301 | (2 << 14));
  });

  test(`R4: lone surrogates count as U+FFFD (${core.kind})`, () => {
    for (const lone of ["\ud800", "\udfff", "a\udc00b", "{\ud83d}x", "\ud83d\ud83d\ude00"]) {
      assert.equal(core.slot(lone), core.slot(Buffer.from(lone)), JSON.stringify(lone));
      assert.equal(core.hash64(lone), core.hash64(Buffer.from(lone)), JSON.stringify(lone));
    }
    assert.equal(core.slot("\ud800"), 13_381);
    assert.equal(core.slot("\udfff"), 13_381);
  });

  test(`R4: halves of a pair that meet in a batch stay two keys (${core.kind})`, () => {
    const text = "a\ud83d\ude00b😀";
    const lengths = Int32Array.of(2, 2, 0, 2);
    const out = new Int32Array(4);
    core.slotBatch(text, lengths, 4, out);
    assert.deepEqual([...out], [core.slot("a\ufffd"), core.slot("\ufffdb"), 0, core.slot(Buffer.from("😀"))]);
  });

  test(`E6: long keys are hashed to their last byte (${core.kind})`, () => {
    assert.equal(core.slot("k".repeat(65_536)), 2589);
    assert.equal(core.slot("k".repeat(70_000)), 6928);
    assert.equal(core.slot(Buffer.alloc(70_000, "k")), 6928);
    for (const length of [65_535, 65_536, 70_000]) {
      const [one, other] = ["a", "b"].map((last) => "k".repeat(length - 1) + last);
      assert.notEqual(core.slot(one), core.slot(other), `${length}`);
      assert.notEqual(core.hash64(one), core.hash64(other), `${length}`);
    }
  });

  test(`E6: text of every length around a page is hashed whole (${core.kind})`, () => {
    for (const unit of ["k", "é", "日", "😀", "\ud800", "ké日😀"]) {
      const width = Buffer.byteLength(unit);
      for (let count = Math.floor(4080 / width); count * width < 4112; count++) {
        for (const text of [unit.repeat(count), `{${unit.repeat(count)}}x`, `a${unit.repeat(count)}`]) {
          const bytes = Buffer.from(text);
          assert.equal(core.slot(text), core.slot(bytes), `${bytes.length} bytes of ${unit}`);
          assert.equal(core.hash64(text), core.hash64(bytes), `${bytes.length} bytes of ${unit}`);
        }
      }
    }
  });

  test(`R4: a view over shared memory is a key too (${core.kind})`, () => {
    const shared = new Uint8Array(new SharedArrayBuffer(16), 5, 3);
    shared.set([0xff, 0xfe, 0x00]);
    assert.equal(core.slot(shared), 16_301);
    assert.equal(core.hash64(shared), core.hash64(bytes(0xff, 0xfe, 0x00)));
  });

  test(`what is no key is refused (${core.kind})`, () => {
    const router = core.createRouter({ prefixes: [], fallback: { kind: "domain", domain: 0 } });
    for (const key of [
      undefined,
      null,
      7,
      {},
      [1],
      new Uint16Array(2),
      new ArrayBuffer(2),
      new DataView(new ArrayBuffer(2)),
    ]) {
      for (const call of [core.slot, core.hash64, router.route.bind(router), router.matched.bind(router)]) {
        assert.throws(() => call(key as unknown as string), TypeError);
      }
    }
  });

  test(`a batch whose lengths do not fit is refused, and nothing written (${core.kind})`, () => {
    const router = core.createRouter({ prefixes: [], fallback: { kind: "domain", domain: 0 } });
    const calls: [string, string, number[], number, number][] = [
      ["lengths short of the text", "abc", [1, 1], 2, 2],
      ["lengths past the text", "abc", [2, 2], 2, 2],
      ["a negative length", "abc", [4, -1], 2, 2],
      ["more keys than lengths", "abc", [1, 2], 3, 3],
      ["no room in out", "abc", [1, 2], 2, 1],
      ["a negative count", "", [0], -1, 1],
      ["half a key", "a", [1, 0], 1.5, 2],
      ["no number", "", [], Number.NaN, 2],
    ];
    for (const [what, text, lengths, count, room] of calls) {
      const slots = new Int32Array(room).fill(-9);
      const words = new Int32Array(room * 2).fill(-9);
      assert.throws(() => core.slotBatch(text, Int32Array.from(lengths), count, slots), RangeError, what);
      assert.throws(() => router.routeBatch(text, Int32Array.from(lengths), count, words), RangeError, what);
      assert.ok(
        [...slots, ...words].every((word) => word === -9),
        what,
      );
    }
  });

  test(`hash64 is xxh3-64 with seed 0 (${core.kind})`, () => {
    assert.equal(core.hash64(""), 0x2d06_8005_38d3_94c2n);
    assert.equal(core.hash64(new Uint8Array(0)), 0x2d06_8005_38d3_94c2n);
    assert.equal(core.hash64("a"), 0xe6c6_32b6_1e96_4e1fn);
    assert.equal(core.hash64("abc"), 0x78af_5f94_892f_3950n);
  });
}
