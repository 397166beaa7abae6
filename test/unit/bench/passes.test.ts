/** Rounds made of passes, and the passes of the cache suite: a wrong value ends the round. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { awaitedPass, profilePass, profiles, smallKey, smallValue } from "#bench/harness/cache-keys.js";
import { playPasses, ranks } from "#bench/harness/passes.js";
import { type Profile, profileOf } from "#dist/cli/demo/ads.js";

const set = profiles(100);
const right = new Map<string, Profile | null>(set.keys.map((key, user) => [key, profileOf(user)]));

describe("rounds of passes", () => {
  it("count the passes until the time is up, at least one", async () => {
    let passes = 0;
    const sample = await playPasses("counting", () => ((passes += 1), 0), 100, Number.MIN_VALUE);
    assert.equal(passes, 1);
    assert.ok(sample.opsPerSec > 0 && sample.p50Ms > 0 && sample.p99Ms === sample.p50Ms);
  });

  it("end with the first pass that found something wrong", async () => {
    await assert.rejects(
      playPasses("a cache", () => 3, 100, 1000),
      { message: "a cache: 3 of 100 results are wrong" },
    );
    await assert.rejects(
      playPasses("a cache", async () => 1, 100, 1000),
      /1 of 100/,
    );
  });

  it("give the ranks of what was measured", () => {
    assert.deepEqual(ranks([3, 1, 2]), { p50Ms: 2, p99Ms: 3 });
    assert.deepEqual(ranks(Array.from({ length: 200 }, (_, i) => 200 - i)), { p50Ms: 100, p99Ms: 198 });
    assert.throws(() => ranks([]), /no operation/);
  });
});

describe("keys of the cache suite", () => {
  it("have the profiles that servers hold as JSON", () => {
    assert.equal(new Set(set.keys).size, 100);
    for (const [user, text] of set.texts.entries()) assert.deepEqual(JSON.parse(text), profileOf(user));
  });

  it("are of 25 bytes with values of 32 where memory is measured", () => {
    const numbers = [0, 1, 2, 999_999];
    assert.deepEqual(new Set(numbers.map((i) => smallKey(i).length)), new Set([25]));
    assert.deepEqual(new Set(numbers.map((i) => smallValue(i).length)), new Set([32]));
    assert.equal(new Set(numbers.map(smallValue)).size, 4);
  });

  it("are all compared, by passes that wait and those that do not", async () => {
    const counts = async (values: Map<string, Profile | null>) => [
      await profilePass(set, (key) => values.get(key))(),
      await awaitedPass(set, (key) => Promise.resolve(values.get(key)))(),
    ];
    assert.deepEqual(await counts(right), [0, 0]);
    const [first, second, third] = set.keys;
    const wrong = new Map(right)
      .set(first, profileOf(1))
      .set(second, { ...profileOf(1), price: -1 })
      .set(third, null);
    wrong.delete(set.keys[99]);
    assert.deepEqual(await counts(wrong), [4, 4]);
  });
});
