/**
 * Counting of hot keys through the addon: what crosses, in one thread and in many. The counting itself is tested in Rust
 * (`crates/core/tests/hits`, `crates/core/tests/loom-hits.rs`).
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";

import {
  HOT_BYTES,
  HOT_HASH_HIGH,
  HOT_HASH_LOW,
  HOT_KEPT,
  HOT_KEPT_MAX,
  HOT_LOWER,
  HOT_MAX,
  HOT_UPPER,
  HOT_WORDS,
  MERGE_MS,
  MERGED_HITS,
  MERGED_LATE,
  MERGED_LOST,
  MERGED_UNSEEN,
  MERGED_WORDS,
} from "#dist/native/hits-types.js";
import type { HitsOptions, HitsSession } from "#dist/native/hits-types.js";
import { hitsCore } from "#dist/native/index.js";

import { rust } from "./cores.js";
import { NOT_COUNTS, words, wrong } from "./misuse.js";

assert.ok(hitsCore !== undefined, "the tests need the addon");
const core = hitsCore;

const SMALL: HitsOptions = { maxThreads: 4, sets: 64, nameBytes: 4096, cells: 8 };
const info = new Int32Array(MERGED_WORDS);
const rows = new Int32Array(HOT_MAX * HOT_WORDS);
const names = Buffer.alloc(HOT_MAX * HOT_KEPT_MAX);

function memoryFor(options: HitsOptions): Int32Array {
  return new Int32Array(new SharedArrayBuffer(core.hitsBytes(options)));
}

function record(session: HitsSession, hits: Record<string, number>): void {
  const keys = Object.keys(hits);
  const lengths = Int32Array.from(keys, (key) => key.length);
  session.record(keys.join(""), lengths, keys.length, Int32Array.from(Object.values(hits)));
}

interface Hot {
  key: Buffer;
  lower: number;
  upper: number;
  bytes: number;
  hash: bigint;
}

function top(session: HitsSession, least = 0, limit = HOT_MAX): Hot[] {
  let offset = 0;
  return Array.from({ length: session.top(limit, least, rows, names) }, (_, at) => {
    const row = rows.subarray(at * HOT_WORDS, (at + 1) * HOT_WORDS);
    const key = Buffer.from(names.subarray(offset, (offset += row[HOT_KEPT]!)));
    const hash =
      BigInt.asUintN(32, BigInt(row[HOT_HASH_LOW]!)) | (BigInt.asUintN(32, BigInt(row[HOT_HASH_HIGH]!)) << 32n);
    return { key, lower: row[HOT_LOWER]!, upper: row[HOT_UPPER]!, bytes: row[HOT_BYTES]!, hash };
  });
}

/** Key and rate of each, where both bounds are the same. */
function exact(session: HitsSession, least = 0): [string, number][] {
  return top(session, least).map(({ key, lower, upper }) => {
    assert.equal(lower, upper);
    return [key.toString(), lower];
  });
}

/** A session alone in its memory that has begun to merge at time 0. */
function alone(options: HitsOptions = SMALL): HitsSession {
  const session = core.createHits(memoryFor(options), options);
  assert.equal(session.merge(0, info), true);
  return session;
}

test("keys are ranked by their hits, with or without weights, whichever way they come", () => {
  const session = alone();
  record(session, { "up:1": 30, "up:2": 500, "up:3": 0 });
  for (let i = 0; i < 20; i += 1) session.record("up:1fc:4", words(4, 4, 99), 2, null);
  const bytes = Buffer.from("up:2bin");
  session.recordBytes(bytes, words(4, 3), 2, words(1, 40));
  session.merge(MERGE_MS, info);
  assert.equal(info[MERGED_HITS], 30 + 500 + 40 + 41);
  assert.deepEqual([info[MERGED_LATE], info[MERGED_LOST]], [0, 0]);
  assert.deepEqual(exact(session), [
    ["up:2", 501],
    ["up:1", 50],
    ["bin", 40],
    ["fc:4", 20],
  ]);
  assert.deepEqual(exact(session, 40).length, 3);
  assert.equal(top(session, 0, 1).length, 1);
  session.end();
});

/** Counts of keys and their hashes, as a thread that counts by itself keeps them. */
function countsOf(hits: Record<string, number>): { keys: string[]; counts: Int32Array; hashes: Int32Array } {
  const keys = Object.keys(hits);
  const halves = keys.map((key) => rust.hash64(key)).flatMap((hash) => [hash, hash >> 32n]);
  const hashes = Int32Array.from(halves, (half) => Number(BigInt.asIntN(32, half)));
  return { keys, counts: Int32Array.from(Object.values(hits)), hashes };
}

test("what a thread has counted by itself is recorded by hashes; only the names that are wanted cross", () => {
  const [one, other] = [alone(), alone()];
  const told = { "up:1": 40, "up:é": 90, "up:3": 32 };
  const { keys, counts, hashes } = countsOf({ ...told, "up:4": 31, "up:5": 0 });
  const wanted = new Int32Array(8);
  assert.equal(other.recordCounts(counts, hashes, keys.length, 32, wanted), 3);
  assert.deepEqual([...wanted.subarray(0, 3)], [1, 0, 2], "the hottest first");
  assert.deepEqual([...counts], [0, 0, 0, 31, 0]);
  for (const at of wanted.subarray(0, 3)) assert.equal(other.name(keys[at]!), true);
  counts[1] = 50;
  assert.equal(other.recordCounts(counts, hashes, keys.length, 32, wanted), 0, "its name is known");
  record(one, { ...told, "up:3": 32 });
  const lengths = words(4);
  one.record("up:é", lengths, 1, words(50));
  for (const session of [one, other]) {
    session.merge(MERGE_MS, info);
    assert.equal(info[MERGED_HITS], 40 + 90 + 32 + 50);
  }
  assert.deepEqual(exact(other), exact(one));
  assert.deepEqual(exact(other)[0], ["up:é", 140]);
  one.end();
  other.end();
});

test("a name that comes after the merge of its hits, or of bytes, is learned by the next one", () => {
  const session = alone();
  const { keys, counts, hashes } = countsOf({ "up:1": 40, "up:2": 20 });
  const wanted = new Int32Array(1);
  assert.equal(session.recordCounts(counts, hashes, 2, 8, wanted), 1, "wanted has room for one");
  assert.equal(wanted[0], 0);
  session.merge(MERGE_MS, info);
  assert.equal(info[MERGED_LOST], 1);
  assert.deepEqual(exact(session), []);
  assert.equal(session.name(Buffer.from(keys[0]!)), true);
  session.merge(2 * MERGE_MS, info);
  assert.deepEqual(exact(session), [["up:1", 40]]);
  session.end();
});

test("a key's bytes and hash are those of its UTF-8, and of a long one the first bytes are kept", () => {
  const session = alone();
  const long = "é".repeat(HOT_KEPT_MAX);
  const keys = ["up:é", "\ud83d", "\ude00", long, ""];
  record(session, Object.fromEntries(keys.map((key, at) => [key, 100 - at])));
  session.merge(MERGE_MS, info);
  const found = top(session);
  assert.deepEqual(
    found.map(({ key }) => key.toString()),
    ["\ufffd", "up:é", "é".repeat(HOT_KEPT_MAX / 2), ""],
  );
  assert.equal(found[0]!.lower, 99 + 98, "both halves are the same bytes");
  assert.deepEqual(
    found.map(({ bytes }) => bytes),
    [3, 5, 2 * HOT_KEPT_MAX, 0],
  );
  assert.deepEqual(
    found.map(({ hash }) => hash),
    ["\ufffd", "up:é", long, ""].map((key) => rust.hash64(key)),
  );
  session.end();
});

test("H2: a key hit 5,000 times stands out of 100,000 that are hit once", () => {
  const session = alone({ maxThreads: 1 });
  const hot = "hot".repeat(50);
  for (let batch = 0; batch < 100; batch += 1) {
    const cold = Array.from({ length: 1000 }, (_, at) => `k${100_000 + batch * 1000 + at}`).join("");
    const lengths = new Int32Array(1050).fill(7, 0, 1000).fill(3, 1000);
    session.record(cold + hot, lengths, lengths.length, null);
  }
  session.merge(MERGE_MS, info);
  assert.equal(info[MERGED_HITS], 105_000);
  const found = top(session, 1000);
  assert.equal(found.length, 1);
  assert.equal(found[0]!.key.toString(), "hot");
  assert.ok(found[0]!.lower > 4900 && found[0]!.lower <= 5000 && found[0]!.upper >= 5000, String(found[0]!.lower));
  assert.ok(info[MERGED_UNSEEN]! < 100, String(info[MERGED_UNSEEN]));
  session.end();
});

test("H3: a key that is silent for ten merges is gone", () => {
  const session = alone();
  for (let window = 1; window <= 10; window += 1) {
    record(session, { "up:1": 2000 });
    session.merge(window * MERGE_MS, info);
  }
  assert.deepEqual(exact(session), [["up:1", 20_000]]);
  for (let window = 11; window < 20; window += 1) session.merge(window * MERGE_MS, info);
  assert.deepEqual(exact(session), [["up:1", 2000]]);
  session.merge(20 * MERGE_MS, info);
  assert.deepEqual(exact(session), []);
  assert.equal(info[MERGED_UNSEEN], 0);
  session.end();
});

test("plain counters are summed over threads; a thread may add to its own words by itself", () => {
  const memory = memoryFor(SMALL);
  const [one, two] = [core.createHits(memory, SMALL), core.attachHits(memory)];
  one.count(0, 5);
  one.count(7, 2 ** 32 - 1);
  one.count(7, 2);
  memory[two.ownCells + 2 * 7]! += 10;
  two.end();
  const totals = one.totals();
  assert.equal(totals.length, one.cells);
  assert.deepEqual([totals[0], totals[1], totals[7]], [5, 0, 2 ** 32 + 11]);
  one.end();
});

test("one session merges at a time, and another takes over when it ends", () => {
  const memory = memoryFor(SMALL);
  const [one, two] = [core.createHits(memory, SMALL), core.attachHits(memory)];
  assert.equal(one.merge(0, info), true);
  assert.equal(two.merge(0, info), false);
  record(two, { "up:1": 50 });
  one.merge(MERGE_MS, info);
  assert.deepEqual(exact(one), [["up:1", 50]]);
  assert.deepEqual(exact(two), [], "it does not merge");
  one.end();
  assert.equal(two.merge(0, info), true);
  record(two, { "up:2": 60 });
  two.merge(MERGE_MS, info);
  assert.deepEqual(exact(two), [["up:2", 60]]);
  two.end();
});

test("top writes as much as its arrays have room for", () => {
  const session = alone();
  record(session, { "up:1": 30, "up:2": 20, "up:3": 10 });
  session.merge(MERGE_MS, info);
  assert.equal(session.top(10, 0, new Int32Array(2 * HOT_WORDS + 5), names), 2);
  assert.equal(session.top(10, 0, rows, new Uint8Array(7)), 1);
  assert.equal(session.top(10, 0, rows, new Uint8Array(0)), 0);
  assert.equal(session.top(1e9, 0, rows, names), 3);
  assert.equal(session.top(10, 1e12, rows, names), 0);
  session.end();
});

test("memory has the size that hitsBytes tells; other memory is refused", () => {
  const one = alone({ maxThreads: 1 });
  assert.equal(core.hitsBytes({}), 64 * one.seatBytes + 128);
  one.end();
  const none: HitsOptions = { maxThreads: 1, sets: 1, nameBytes: 0, cells: 0 };
  assert.equal(alone(none).cells, 0);
  const memory = memoryFor(SMALL);
  assert.throws(() => core.createHits(memory.subarray(0, 1000), SMALL), {
    name: "RangeError",
    message: /bytes would do/,
  });
  assert.throws(() => core.createHits(new Int32Array(1 << 20), SMALL), {
    name: "TypeError",
    message: /SharedArrayBuffer/,
  });
  assert.throws(() => core.attachHits(memory), /not a region of keylane/);
  const session = core.createHits(memory, SMALL);
  assert.throws(() => core.createHits(memory, SMALL), /in use already/);
  const others = [1, 2, 3].map(() => core.attachHits(memory));
  assert.throws(() => core.attachHits(memory), /as many threads/);
  for (const bad of [{ maxThreads: 255 }, { sets: 65_537 }, { nameBytes: -2 }, { cells: 1 << 17 }, { maxThreads: 0 }]) {
    assert.throws(() => core.hitsBytes(bad), RangeError);
  }
  assert.throws(() => core.hitsBytes({ maxThreads: 254, sets: 65_536 }), RangeError);
  for (const each of [session, ...others]) each.end();
});

test("arguments that are wrong, or lie in the memory, are refused and record nothing; an ended session refuses all", () => {
  const memory = memoryFor(SMALL);
  const session = core.createHits(memory, SMALL);
  session.merge(0, info);
  assert.throws(() => session.record("abc", words(2), 1, null), /lengths add up to 2/);
  assert.throws(() => session.record("abc", words(4, -1), 2, null), /a length is -1/);
  assert.throws(() => session.record("abc", words(3), 2, null), RangeError);
  assert.throws(() => session.record("abc", words(3), 1, words()), /0 weights for 1 keys/);
  assert.throws(() => session.record("abcd", words(3, 1), 2, words(1, -5)), /a weight is -5/);
  assert.throws(() => session.record(wrong(undefined), words(3), 1, null), TypeError);
  assert.throws(() => session.record("abc", wrong([3]), 1, null), TypeError);
  assert.throws(() => session.record("abc", words(3), 1, wrong(undefined)), TypeError);
  assert.throws(() => session.record("abc", memory.subarray(0, 1), 1, null), /lengths lies in/);
  assert.throws(() => session.record("abc", words(3), 1, memory.subarray(0, 1)), /weights lies in/);
  assert.throws(() => session.recordBytes(Buffer.from("abc"), words(2), 1, null), /lengths do not add up/);
  assert.throws(() => session.recordBytes(Buffer.from("abc"), words(4, -1), 2, null), /a length is -1/);
  assert.throws(() => session.recordBytes(wrong("abc"), words(3), 1, null), TypeError);
  assert.throws(() => session.recordBytes(new Uint8Array(memory.buffer, 64, 3), words(3), 1, null), /keys lies in/);
  const [counts, hashes, wanted] = [words(40, 50), words(1, 2, 3, 4), words(0, 0)];
  assert.throws(() => session.recordCounts(counts, hashes, 3, 32, wanted), /size is 3/);
  assert.throws(() => session.recordCounts(counts, words(1, 2, 3), 2, 32, wanted), /size is 2/);
  assert.throws(() => session.recordCounts(counts, hashes, 2, -1, wanted), RangeError);
  assert.throws(() => session.recordCounts(wrong([1]), hashes, 1, 32, wanted), TypeError);
  assert.throws(() => session.recordCounts(counts, hashes, 2, 32, wrong(null)), TypeError);
  assert.throws(() => session.recordCounts(counts, hashes, 2, 32, counts), /overlaps/);
  assert.throws(() => session.recordCounts(memory.subarray(0, 2), hashes, 1, 32, wanted), /counts lies in/);
  assert.throws(() => session.recordCounts(counts, memory.subarray(0, 4), 2, 32, wanted), /hashes lies in/);
  assert.throws(() => session.recordCounts(counts, hashes, 2, 32, memory.subarray(0, 4)), /wanted lies in/);
  assert.deepEqual([...counts], [40, 50]);
  assert.throws(() => session.name(wrong(1)), TypeError);
  assert.throws(() => session.name(new Uint8Array(memory.buffer, 64, 3)), /key lies in/);
  for (const value of NOT_COUNTS) {
    assert.throws(() => session.count(value, 1), RangeError);
    assert.throws(() => session.count(0, value), RangeError);
  }
  assert.throws(() => session.count(8, 1), RangeError);
  assert.throws(() => session.merge(-1, info), RangeError);
  assert.throws(() => session.merge(Number.NaN, info), RangeError);
  assert.throws(() => session.merge(1, words(0, 0, 0)), /fewer than 4 words/);
  assert.throws(() => session.merge(1, memory.subarray(0, 4)), /info lies in/);
  assert.throws(() => session.top(10, 0, memory.subarray(0, 60), names), /rows lies in/);
  assert.throws(() => session.top(10, 0, rows, new Uint8Array(memory.buffer)), /names lies in/);
  assert.throws(() => session.top(10, 0, rows, new Uint8Array(rows.buffer)), /overlaps/);
  session.merge(MERGE_MS, info);
  assert.equal(info[MERGED_HITS], 0);
  assert.deepEqual([...session.totals()], [0, 0, 0, 0, 0, 0, 0, 0]);
  session.end();
  session.end();
  assert.throws(() => session.record("abc", words(3), 1, null), /has ended/);
  assert.throws(() => session.recordCounts(counts, hashes, 2, 32, wanted), /has ended/);
  assert.throws(() => session.name("abc"), /has ended/);
  assert.throws(() => session.merge(1, info), /has ended/);
});

const WORKER = `
  import { workerData } from "node:worker_threads";
  const { hitsCore } = await import(${JSON.stringify(import.meta.resolve("#dist/native/index.js"))});
  const { memory, id } = workerData;
  const session = hitsCore.attachHits(memory);
  const lengths = Int32Array.of(6, 8);
  for (let i = 0; i < 2000; i += 1) session.record("common" + "worker " + id, lengths, 2, null);
  session.count(0, 4000);
  if (id % 2 === 0) session.end();
`;

test("what workers record arrives once, while they record and after they are gone", async () => {
  const options = { ...SMALL, maxThreads: 5 };
  const memory = memoryFor(options);
  const session = core.createHits(memory, options);
  session.merge(0, info);
  // Keys that are followed already are counted to the last hit, however the windows cut what the workers record.
  const seed = 100;
  record(
    session,
    Object.fromEntries(["common", ...[0, 1, 2, 3].map((id) => `worker ${id}`)].map((key) => [key, seed])),
  );
  session.merge(0, info);
  session.merge(0, info);
  const source = new URL(`data:text/javascript,${encodeURIComponent(WORKER)}`);
  let arrived = 0;
  const merge = (): void => {
    // Time stands still, so that nothing ages.
    session.merge(0, info);
    arrived += info[MERGED_HITS]!;
  };
  for (let round = 0; round < 2; round += 1) {
    const workers = Array.from({ length: 4 }, (_, id) => new Worker(source, { workerData: { memory, id } }));
    const running = new Set(workers);
    const ends = workers.map((worker) => once(worker, "exit").finally(() => running.delete(worker)));
    while (running.size > 0) {
      merge();
      await new Promise(setImmediate);
    }
    assert.deepEqual((await Promise.all(ends)).flat(), [0, 0, 0, 0]);
  }
  merge();
  merge();
  assert.equal(arrived, 32_000);
  assert.equal(session.totals()[0], 32_000);
  const common = exact(session)[0];
  assert.deepEqual(common, ["common", 16_000 + seed]);
  assert.deepEqual(
    exact(session)
      .slice(1)
      .toSorted(([one], [two]) => one.localeCompare(two)),
    [0, 1, 2, 3].map((id) => [`worker ${id}`, 4000 + seed]),
  );
  session.end();
});
