/** The two cores agree on slots, hashes and routes of any key, in either form, alone or in a batch. */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as fc from "fast-check";

import type { FallbackSpec, RouterSpec } from "#dist/native/types.js";

import { cores, portable, rust } from "../unit/native/cores.js";
import { anyKey, keyText } from "./keys.js";

const RUNS = 2000;

const fallback: fc.Arbitrary<FallbackSpec> = fc.oneof(
  fc.constant({ kind: "reject" as const }),
  fc.record({ kind: fc.constant("domain" as const), domain: fc.integer({ min: 0, max: 0x3fe }) }),
  fc.record({
    kind: fc.constant("md5-modulo" as const),
    domains: fc.array(fc.integer({ min: 0, max: 0x3fe }), { minLength: 1, maxLength: 9 }),
  }),
);

const spec: fc.Arbitrary<RouterSpec> = fc.record({
  prefixes: fc
    .uniqueArray(fc.oneof(keyText, fc.constantFrom("", "u", "up", "up:", "{", "é")), {
      maxLength: 12,
      selector: (prefix) => Buffer.from(prefix).toString("latin1"),
    })
    .map((prefixes) => prefixes.map((prefix, i) => ({ prefix, domain: (i * 7) % 0x3ff }))),
  fallback,
});

test("any key has one slot and one hash", () => {
  fc.assert(
    fc.property(anyKey, (key) => {
      const bytes = Buffer.from(key as string);
      assert.equal(portable.slot(key), rust.slot(key));
      assert.equal(portable.hash64(key), rust.hash64(key));
      for (const core of cores) {
        assert.equal(core.slot(bytes), core.slot(key), core.kind);
        assert.equal(core.hash64(bytes), core.hash64(key), core.kind);
      }
    }),
    { numRuns: RUNS },
  );
});

test("any key takes one route, under any prefixes and fallback", () => {
  fc.assert(
    fc.property(spec, fc.array(anyKey, { maxLength: 5 }), (given, keys) => {
      const [one, other] = cores.map((core) => core.createRouter(given));
      const longer = given.prefixes.flatMap(({ prefix }) => [prefix, `${prefix}x`, prefix.slice(0, -1)]);
      for (const key of [...keys, ...longer]) {
        assert.equal(other.route(key), one.route(key));
        assert.equal(other.matched(key), one.matched(key));
        const bytes = Buffer.from(key as string);
        assert.equal(one.route(bytes), one.route(key));
        assert.equal(one.matched(bytes), one.matched(key));
        assert.equal(other.route(bytes), one.route(key));
      }
    }),
    { numRuns: RUNS },
  );
});

test("any router finds the longest prefix that a search over all of them finds", () => {
  fc.assert(
    fc.property(spec, fc.array(keyText, { maxLength: 5 }), (given, keys) => {
      const prefixes = given.prefixes.map(({ prefix }) => Buffer.from(prefix));
      const routers = cores.map((core) => core.createRouter(given));
      for (const key of [...keys, ...given.prefixes.map(({ prefix }) => `${prefix}1`)]) {
        const bytes = Buffer.from(key);
        let longest = -1;
        for (const [i, prefix] of prefixes.entries()) {
          const matches = bytes.subarray(0, prefix.length).equals(prefix);
          if (matches && (longest < 0 || prefix.length > prefixes[longest].length)) longest = i;
        }
        for (const router of routers) assert.equal(router.matched(key), longest);
      }
    }),
    { numRuns: RUNS },
  );
});

test("any batch gives what its keys give alone, halves of pairs that meet included", () => {
  const half = fc.constantFrom("\ud83d", "\ude00", "a\ud83d", "\ude00{b}", "😀");
  const keys = fc.array(fc.oneof(keyText, half), { maxLength: 20 });
  fc.assert(
    fc.property(spec, keys, (given, keys) => {
      const text = keys.join("");
      const lengths = Int32Array.from(keys, (key) => key.length);
      for (const core of cores) {
        const slots = new Int32Array(keys.length + 1).fill(-9);
        core.slotBatch(text, lengths, keys.length, slots);
        assert.deepEqual([...slots], [...keys.map((key) => rust.slot(Buffer.from(key))), -9], core.kind);
        const router = core.createRouter(given);
        const words = new Int32Array(keys.length * 2 + 1).fill(-9);
        router.routeBatch(text, lengths, keys.length, words);
        const alone = keys.flatMap((key) => [router.route(Buffer.from(key)), router.matched(key)]);
        assert.deepEqual([...words], [...alone, -9], core.kind);
      }
    }),
    { numRuns: RUNS },
  );
});
