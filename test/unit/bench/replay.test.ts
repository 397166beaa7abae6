/** What the hit ratios are taken with: S3-FIFO by its rules, and that all caches are held to the same number of objects. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { S3Fifo } from "#bench/baselines/s3-fifo.js";
import { REPLAYED, replay } from "#bench/harness/replay.js";
import { Random } from "#dist/cli/demo/random.js";
import { Zipf } from "#dist/cli/demo/zipf.js";

/** Requests by a Zipf law, mixed with objects that are asked for once. */
function requests(count: number): Uint32Array {
  const zipf = new Zipf(new Random(5), 5000, 0.9);
  return Uint32Array.from({ length: count }, (_, i) => (i % 4 === 0 ? 1_000_000 + i : zipf.next()));
}

describe("S3-FIFO", () => {
  it("keeps what was asked for again, drops what was not, and lets ghosts into the main queue", () => {
    const cache = new S3Fifo(10);
    for (const object of [1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) cache.ask(object);
    assert.equal(cache.size, 10);
    // 1 was hit twice: it moves on. 2 makes room.
    assert.equal(cache.ask(11), false);
    assert.equal(cache.size, 10);
    assert.equal(cache.ask(1), true);
    // A ghost: 2 goes to the main queue, 3 makes room, and a stream of others leaves 1 and 2 alone.
    assert.equal(cache.ask(2), false);
    for (let object = 100; object < 140; object += 1) assert.equal(cache.ask(object), false);
    assert.deepEqual(
      [1, 2, 3].map((object) => cache.ask(object)),
      [true, true, false],
    );
  });

  it("never holds more than its capacity", () => {
    for (const capacity of [1, 2, 10, 500]) {
      const cache = new S3Fifo(capacity);
      let most = 0;
      for (const object of requests(20_000)) {
        cache.ask(object);
        most = Math.max(most, cache.size);
      }
      assert.equal(most, capacity);
    }
  });
});

describe("replaying a trace", () => {
  const CAPACITY = 600;

  for (const [name, open] of Object.entries(REPLAYED)) {
    it(`${name} answers all that fits, and holds no more than its capacity`, () => {
      const small = open(CAPACITY);
      const few = Uint32Array.from({ length: 5000 }, (_, i) => i % (CAPACITY / 2));
      assert.equal(replay(few, small.ask), few.length - CAPACITY / 2);
      small.end();

      // A loop over twice as many objects, read backwards the second time: what is still there is answered.
      const full = open(CAPACITY);
      const loop = Uint32Array.from({ length: CAPACITY * 2 }, (_, i) => i);
      assert.equal(replay(loop, full.ask), 0);
      const held = replay(loop.toReversed(), full.ask);
      assert.ok(held > CAPACITY * 0.8 && held <= CAPACITY, `${held} of ${CAPACITY}`);
      full.end();
    });
  }

  it("gives S3-FIFO and keylane a better ratio than LRU where many objects come once", () => {
    const trace = requests(60_000);
    const hits = Object.fromEntries(
      Object.entries(REPLAYED).map(([name, open]) => {
        const { ask, end } = open(CAPACITY);
        const found = replay(trace, ask) / trace.length;
        end();
        return [name, found];
      }),
    );
    assert.ok(hits["S3-FIFO"] > hits["LRU (lru-cache)"] + 0.02, JSON.stringify(hits));
    assert.ok(hits["keylane"] > hits["S3-FIFO"] - 0.02, JSON.stringify(hits));
  });
});
