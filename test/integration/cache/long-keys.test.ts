/** E6: keys past what the cache, a 16-bit length or a page holds are distinct entries, or not cached; never taken for another. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { useLanes } from "../../support/lanes.js";
import { rawCommand } from "../../support/raw.js";
import { singleDomain } from "../../support/rigs.js";

/** Longest key that is cached. */
const LONGEST = 1024;

describe("E6: long keys", () => {
  const single = useSingle();
  const lanes = useLanes(() => {
    const { domains } = singleDomain(single.value.address);
    return { domains: { all: { ...domains["all"]!, cache: { mode: "all" } } }, commandTimeoutMs: 5000 } as const;
  });
  const gets = () => callsOf(single.value.node, "get");

  /** Two keys of `length` bytes that differ in the last one. */
  const pairs: [string, (length: number, last: string) => string][] = [
    ["bytes of ASCII", (length, last) => "k".repeat(length - 1) + last],
    ["bytes past ASCII", (length, last) => (length % 2 === 0 ? "k" : "") + "é".repeat((length - 1) >> 1) + last],
  ];
  for (const [what, keyOf] of pairs) {
    for (const length of [LONGEST - 1, LONGEST, LONGEST + 1, 4096, 4097, 65_535, 65_536, 70_000]) {
      it(`E6: two keys of ${length} ${what} that differ in the last one, read twice`, async () => {
        const keys = ["a", "b"].map((last) => keyOf(length, last));
        const values = ["a", "b"].map((last) => `${last} of ${length}`);
        for (const key of keys) assert.equal(Buffer.byteLength(key), length);
        for (const [at, key] of keys.entries()) await rawCommand(single.value.address, "SET", key, values[at]!);
        const before = await gets();
        for (let round = 0; round < 2; round += 1) {
          for (const [at, key] of keys.entries()) {
            assert.equal(await lanes.value.get(key), values[at]);
            assert.equal(await lanes.value.get(Buffer.from(key)), values[at]);
            assert.equal(lanes.value.peek(key), length <= LONGEST ? values[at] : undefined);
          }
        }
        assert.equal((await gets()) - before, length <= LONGEST ? 2 : 8);
        const mixed = [...keys, ...keys.toReversed(), ...keys];
        const wanted = [...values, ...values.toReversed(), ...values];
        assert.deepEqual(await lanes.value.getMany(mixed), wanted);
      });
    }
  }

  it("E6: a long key that is written or absent is that key and no other", async () => {
    for (const length of [65_535, 65_536, 70_000]) {
      const [one, other] = ["x", "y"].map((last) => "w".repeat(length - 1) + last) as [string, string];
      assert.equal(await lanes.value.get(one), null);
      await lanes.value.set(other, "other");
      assert.equal(await lanes.value.get(one), null);
      assert.equal(await lanes.value.get(other), "other");
      lanes.value.invalidate(other);
      assert.equal(await lanes.value.del(other), true);
      assert.equal(await lanes.value.get(other), null);
      assert.equal(await lanes.value.warm([one, other]), 0);
    }
  });

  it("E6: keys whose lengths agree in their low 16 bits are distinct", async () => {
    const keys = [1, 2, 65_537, 65_538, 131_073].map((length) => "z".repeat(length));
    for (const key of keys) await lanes.value.set(key, String(key.length));
    for (let round = 0; round < 2; round += 1) {
      for (const key of keys) assert.equal(await lanes.value.get(key), String(key.length));
    }
  });

  it("E6: slots of keys past 16 bits of length", () => {
    assert.equal(lanes.value.route("k".repeat(65_536)).slot, 2589);
    assert.equal(lanes.value.route("k".repeat(70_000)).slot, 6928);
    assert.equal(lanes.value.route(Buffer.from("k".repeat(65_536))).slot, 2589);
    assert.equal(lanes.value.route(Buffer.from("k".repeat(70_000))).slot, 6928);
  });
});
