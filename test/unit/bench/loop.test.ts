/** The closed loop and the order of play: how many are in flight, when a round ends, and that a wrong value ends the run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { makeKeys } from "#bench/harness/keys.js";
import { runBatches, runCounter, runLoop } from "#bench/harness/loop.js";
import { interleave, playOrder, WARMUP_ROUNDS } from "#bench/harness/rounds.js";

const set = makeKeys({ count: 100, prefixes: ["up:"] });
const right = new Map(set.keys.map((key, i) => [key, set.values[i]]));
const HOUR = 3_600_000;

const absent = () => Promise.resolve(null);
const broken = () => Promise.reject(new Error("no route"));

/** A client that answers a turn of the event loop later and keeps count. */
function client() {
  const seen = { asked: [] as string[], open: 0, most: 0 };
  const get = (key: string) => {
    seen.asked.push(key);
    seen.open += 1;
    seen.most = Math.max(seen.most, seen.open);
    return new Promise<string | null>((resolve) => {
      setImmediate(() => {
        seen.open -= 1;
        resolve(right.get(key) ?? null);
      });
    });
  };
  return { seen, get };
}

describe("runLoop", () => {
  for (const inFlight of [1, 8, 256]) {
    it(`keeps exactly ${inFlight} in flight and stops at the operation bound`, async () => {
      const { seen, get } = client();
      const sample = await runLoop(get, set, { at: 0 }, { inFlight, maxOps: 1000, maxMs: HOUR });
      assert.equal(seen.asked.length, 1000);
      assert.equal(seen.most, inFlight);
      assert.equal(seen.open, 0);
      assert.ok(sample.opsPerSec > 0 && sample.p99Ms >= sample.p50Ms && sample.p50Ms > 0);
    });
  }

  it("asks for the keys in turn and goes on where the last round ended", async () => {
    const { seen, get } = client();
    const cursor = { at: 0 };
    await runLoop(get, set, cursor, { inFlight: 4, maxOps: 130, maxMs: HOUR });
    assert.equal(cursor.at, 30);
    await runLoop(get, set, cursor, { inFlight: 4, maxOps: 70, maxMs: HOUR });
    assert.equal(cursor.at, 0);
    assert.deepEqual(seen.asked, [...set.keys, ...set.keys]);
  });

  it("ends at the time bound", async () => {
    const { seen, get } = client();
    await runLoop(get, set, { at: 0 }, { inFlight: 2, maxOps: 1_000_000, maxMs: 1 });
    assert.ok(seen.asked.length < 1_000_000);
    assert.equal(seen.open, 0);
  });

  it("rejects on a wrong value, an absent one and an error", async () => {
    const round = { inFlight: 4, maxOps: 1000, maxMs: HOUR };
    const wrong = (key: string) => Promise.resolve(key === set.keys[57] ? "something else" : (right.get(key) ?? null));
    await assert.rejects(runLoop(wrong, set, { at: 0 }, round), { name: "WrongValue", message: /user_0000000057/ });
    await assert.rejects(runLoop(absent, set, { at: 0 }, round), { name: "WrongValue", message: /null was read/ });
    await assert.rejects(runLoop(broken, set, { at: 0 }, round), { message: "no route" });
  });
});

const countOf = (answer: unknown, rejected: boolean) => (rejected ? Number.NaN : (answer as number));

/** Counts by key, a turn of the event loop later; a call of `wrong` goes wrong. */
function counting(wrong: (count: number) => unknown = () => undefined) {
  const counts = new Map<string, number>();
  const ask = async (key: string) => {
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    await new Promise(setImmediate);
    const odd = wrong(count);
    if (odd instanceof Error) throw odd;
    return odd ?? count;
  };
  return { keys: set.keys, calls: 0, ask, countOf, expected: (nth: number) => nth };
}

describe("runCounter", () => {
  it("takes the keys in turn, over rounds too, and expects of each call one more than of the one before", async () => {
    const counter = counting();
    for (const maxOps of [150, 25, 325]) {
      const sample = await runCounter(counter, { inFlight: 7, maxOps, maxMs: HOUR });
      assert.ok(sample.opsPerSec > 0 && sample.p99Ms >= sample.p50Ms && sample.p50Ms > 0);
    }
    assert.equal(counter.calls, 500);
    assert.equal(await counter.ask(set.keys[99]), 6);
  });

  it("a wrong count and an error end the run; a rejection may be a count", async () => {
    const round = { inFlight: 16, maxOps: 1000, maxMs: HOUR };
    await assert.rejects(
      runCounter(
        counting((count) => (count === 3 ? 2 : undefined)),
        round,
      ),
      { name: "WrongValue" },
    );
    const broken = counting((count) => (count === 2 ? new Error("no route") : undefined));
    await assert.rejects(runCounter(broken, round), { message: "no route" });
    const denied = counting(() => new Error("denied"));
    const sample = await runCounter(
      { ...denied, countOf: (_, rejected) => (rejected ? 0 : 1), expected: () => 0 },
      round,
    );
    assert.ok(sample.opsPerSec > 0);
  });
});

describe("runBatches", () => {
  it("runs one batch at a time, over and over, and counts their operations", async () => {
    const ran: number[] = [];
    let open = 0;
    const batches = {
      count: 3,
      async run(i: number) {
        assert.equal(open, 0);
        open += 1;
        await new Promise(setImmediate);
        open -= 1;
        ran.push(i);
      },
    };
    await runBatches(batches, { inFlight: 10, maxOps: 75, maxMs: HOUR });
    assert.deepEqual(ran, [0, 1, 2, 0, 1, 2, 0]);
  });

  it("rejects when a batch does", async () => {
    const batches = { count: 1, run: () => Promise.reject(new Error("wrong")) };
    await assert.rejects(runBatches(batches, { inFlight: 1, maxOps: 1, maxMs: HOUR }), { message: "wrong" });
  });
});

describe("interleave", () => {
  it("rotates who begins", () => {
    assert.deepEqual(
      [0, 1, 2, 3].map((round) => playOrder(3, round)),
      [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
        [0, 1, 2],
      ],
    );
  });

  it("gives each contestant its counted rounds and drops the warm-up", async () => {
    const played: string[] = [];
    const samples = await interleave(2, 2, (i) => {
      played.push("AB"[i]);
      return `${"AB"[i]}${played.length}`;
    });
    assert.equal(WARMUP_ROUNDS, 1);
    assert.equal(played.join(""), "ABBAAB");
    assert.deepEqual(samples, [
      ["A4", "A5"],
      ["B3", "B6"],
    ]);
  });
});
