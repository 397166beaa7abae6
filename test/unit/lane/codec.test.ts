/** Codecs: what goes out as bytes comes back as the same value, owns its memory, and bad values are refused before that. */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as fc from "fast-check";
import { KeylaneError } from "keylane";

import { CODECS, numberText, setOwn } from "#dist/lane/codec.js";
import type { Codec } from "#dist/lane/codec.js";

/** Encodes, lays the bytes into the middle of a larger buffer, and decodes from there. */
function roundTrip(codec: Codec, value: unknown): unknown {
  const wire = codec.encode(value);
  const bytes = typeof wire === "string" ? Buffer.from(wire) : wire;
  const memory = Buffer.alloc(bytes.length + 20, 0x21);
  memory.set(bytes, 7);
  const decoded = codec.decode(
    memory,
    7,
    7 + bytes.length,
    bytes.some((byte) => byte >= 0x80),
  );
  memory.fill(0);
  return decoded;
}

const refused = (codec: Codec, value: unknown, code = "KEYLANE_ERR_ARGUMENT"): void => {
  assert.throws(
    () => codec.encode(value),
    (error) => error instanceof KeylaneError && error.code === code && error.outcome === "not-sent",
    `${codec.name} took ${String(value)}`,
  );
};

test("utf8: text of any kind", () => {
  for (const text of ["", "a", "äöü", "日本語", "👩‍🚀", "a\0b\r\n", "\x7f\x80\xff"]) {
    assert.equal(roundTrip(CODECS.utf8, text), text);
  }
  assert.equal(roundTrip(CODECS.utf8, Buffer.from("bytes")), "bytes");
  assert.equal(roundTrip(CODECS.utf8, 12), "12");
  assert.equal(roundTrip(CODECS.utf8, -0.5), "-0.5");
  assert.equal(roundTrip(CODECS.utf8, 2n ** 70n), "1180591620717411303424");
  for (const value of [undefined, null, Number.NaN, true, {}, [], Symbol("s"), () => 1]) refused(CODECS.utf8, value);
});

test("E2: numbers are written digit by digit", () => {
  const written: [number | bigint, string][] = [
    [2 ** 70, "1180591620717411303424"],
    [10 ** 21, "1000000000000000000000"],
    [-(10 ** 21), "-1000000000000000000000"],
    [2 ** 53, "9007199254740992"],
    [9007199254740991, "9007199254740991"],
    [9223372036854775807n, "9223372036854775807"],
    [-9223372036854775808n, "-9223372036854775808"],
    [0, "0"],
    [-0, "0"],
    [1.5, "1.5"],
    [1e-7, "1e-7"],
    [Infinity, "inf"],
    [-Infinity, "-inf"],
  ];
  for (const [value, text] of written) assert.equal(numberText(value), text);
  assert.throws(() => numberText(Number.NaN), { code: "KEYLANE_ERR_ARGUMENT" });
});

test("E2: every finite double is written so that reading it gives the same double", () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
      assert.equal(Number(numberText(value)), value === 0 ? 0 : value);
      if (Number.isInteger(value)) assert.match(numberText(value), /^-?\d+$/);
    }),
  );
});

test("buffer: bytes come back as a Buffer of their own", () => {
  const view = new Uint8Array([9, 9, 0x80, 0xff, 0, 9]).subarray(2, 5);
  const back = roundTrip(CODECS.buffer, view);
  assert.ok(Buffer.isBuffer(back));
  assert.deepEqual(back, Buffer.from([0x80, 0xff, 0]));
  assert.deepEqual(roundTrip(CODECS.buffer, "é"), Buffer.from("é"));
  assert.deepEqual(roundTrip(CODECS.buffer, new Uint8Array()), Buffer.alloc(0));
  for (const value of [undefined, null, 5, Number.NaN, {}, [1]]) refused(CODECS.buffer, value);
});

test("buffer: the caller may reuse its bytes as soon as encode returns", () => {
  for (const codec of [CODECS.buffer, CODECS.utf8]) {
    const bytes = Buffer.from("before");
    const wire = codec.encode(bytes);
    bytes.fill("x");
    assert.equal(Buffer.from(wire as Uint8Array).toString(), "before");
  }
});

test("json: values as JSON.stringify sees them", () => {
  for (const value of [null, true, 0, -1.5, "", "é\ud83d\ude80", [], {}, [1, [2, { a: null }]], { a: { b: ["c"] } }]) {
    assert.deepEqual(roundTrip(CODECS.json, value), value);
  }
  assert.equal(CODECS.json.encode("\ud800"), '"\\ud800"');
  assert.deepEqual(roundTrip(CODECS.json, { at: new Date(0) }), { at: "1970-01-01T00:00:00.000Z" });
});

test("json: what JSON cannot say is refused", () => {
  for (const value of [undefined, Number.NaN, () => 1, Symbol("s")]) refused(CODECS.json, value);
  refused(CODECS.json, 5n, "KEYLANE_ERR_CODEC");
  const circle: { self?: unknown } = {};
  circle.self = circle;
  refused(CODECS.json, circle, "KEYLANE_ERR_CODEC");
  const failing = {
    toJSON(): never {
      throw new Error("not today");
    },
  };
  refused(CODECS.json, failing, "KEYLANE_ERR_CODEC");
});

test("msgpack: values with their types", () => {
  const value = {
    text: "é",
    int: -5,
    big: 2n ** 60n,
    float: 1.25,
    nothing: null,
    yes: true,
    list: [1, "2", [3]],
    nested: { a: { b: 1 } },
    bytes: Buffer.from([0, 0x80, 0xff]),
    at: new Date(1_700_000_000_000),
  };
  assert.deepEqual(roundTrip(CODECS.msgpack, value), value);
  for (const bad of [undefined, Number.NaN]) refused(CODECS.msgpack, bad);
});

/** A map of two pairs by the MessagePack specification: map 16, fixstr 8, fixint, fixstr 4, fixint. No record ids. */
const packed = (campaign: number, cost: number): Buffer =>
  Buffer.from([0xde, 0, 2, 0xa8, ...Buffer.from("campaign"), campaign, 0xa4, ...Buffer.from("cost"), cost]);

test("msgpack: each payload stands alone, so that another process can read it", () => {
  assert.deepEqual(Buffer.from(CODECS.msgpack.encode({ campaign: 1, cost: 5 }) as Uint8Array), packed(1, 5));
  assert.deepEqual(Buffer.from(CODECS.msgpack.encode({ campaign: 2, cost: 6 }) as Uint8Array), packed(2, 6));
});

test("E3: __proto__ and constructor stay own properties, in JSON and msgpack, at every depth", () => {
  const text = '{"__proto__":{"admin":1},"a":2,"constructor":3,"deep":[{"__proto__":{"admin":1}}]}';
  for (const codec of [CODECS.json, CODECS.msgpack]) {
    const back = roundTrip(codec, JSON.parse(text)) as Record<string, unknown>;
    assert.equal(JSON.stringify(back), text, codec.name);
    assert.ok(Object.hasOwn(back, "__proto__"), codec.name);
    assert.equal(Object.getPrototypeOf(back), Object.prototype, codec.name);
    assert.equal((back as { admin?: unknown }).admin, undefined);
  }
  assert.equal(({} as { admin?: unknown }).admin, undefined);
});

test("E3: a msgpack value that merely mentions __proto__ in a text is decoded as any other", () => {
  const value = { note: "the word __proto__", at: new Date(5), bytes: Buffer.from([1, 2]), list: [{ a: 1 }] };
  assert.deepEqual(roundTrip(CODECS.msgpack, value), value);
});

test("E3: setOwn never reaches the prototype", () => {
  const target: Record<string, unknown> = {};
  setOwn(target, "__proto__", { admin: 1 });
  setOwn(target, "constructor", 5);
  assert.deepEqual(Object.keys(target), ["__proto__", "constructor"]);
  assert.equal(Object.getPrototypeOf(target), Object.prototype);
  assert.equal(({} as { admin?: unknown }).admin, undefined);
});

test("decoding bytes that the codec cannot read throws", () => {
  const bytes = Buffer.from("{oops");
  assert.throws(() => CODECS.json.decode(bytes, 0, bytes.length, false), SyntaxError);
  const cut = Buffer.from([0x82, 0xa1]);
  assert.throws(() => CODECS.msgpack.decode(cut, 0, cut.length, true));
});
