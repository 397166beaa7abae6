/**
 * Sessions of the shared cache through the addon: what crosses, in one thread and in many. The cache itself is tested in Rust
 * (`crates/core/tests/cache`, `crates/core/tests/loom.rs`).
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";

import {
  CLAIM_WORDS,
  CacheClaim,
  CacheKind,
  CacheStored,
  FLAG_ELECTED,
  FLAG_HIGH,
  FLAG_STALE,
  INFO_CHECK,
  INFO_EXPIRY,
  INFO_FEEDER,
  INFO_FLAGS,
  INFO_HASH_LOW,
  INFO_LENGTH,
  INFO_PROOF,
  INFO_PROOF_INDEX,
  INFO_TICKET,
  INFO_WORDS,
  STAMP_WORDS,
} from "#dist/native/cache-types.js";
import type { CacheSession } from "#dist/native/cache-types.js";
import { cacheCore, native } from "#dist/native/index.js";
import { FLAG_SAME, HEAD_FLAGS_SHIFT, HEAD_KEY_SHIFT, KEY_NONE } from "#dist/native/types.js";

assert.ok(cacheCore !== undefined, "the tests need the addon");
const core = cacheCore;

const info = new Int32Array(INFO_WORDS);
const out = Buffer.alloc(20_000);

function memoryOf(bytes: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(bytes));
}

function store(session: CacheSession, key: string | Uint8Array, value: string | null, ttlMs = 60_000): number {
  const bytes = value === null ? null : Buffer.from(value);
  return session.store(key, bytes, ttlMs, 0, 7, 0, session.beginLoad(key), info);
}

/** The value, null when absent, undefined when not cached. */
function get(session: CacheSession, key: string | Uint8Array, staleMs = 0): string | null | undefined {
  const kind = session.lookup(key, staleMs, 1000, out, info);
  if (kind === CacheKind.HIT) return out.utf8Slice(0, info[INFO_LENGTH]);
  return kind === CacheKind.ABSENT ? null : undefined;
}

test("L5: a value, an empty one, an absent key and no entry come back as what they are", () => {
  const session = core.createCache(memoryOf(4 << 20), {});
  for (const [key, value] of [
    ["value", "é1"],
    ["empty", ""],
    ["zero", "0"],
    ["nil", null],
  ] as const) {
    assert.equal(store(session, key, value), CacheStored.KEPT);
    assert.equal(get(session, key), value);
    assert.equal(info[INFO_FEEDER], 7);
  }
  assert.equal(get(session, "none"), undefined);
  get(session, "value");
  assert.equal(info[INFO_FLAGS], FLAG_HIGH);
  get(session, "zero");
  assert.equal(info[INFO_FLAGS], 0);
  session.end(true);
});

test("a lookup tells the ticket of a load that would begin now, and half of the hash, where there is room for them", () => {
  const session = core.createCache(memoryOf(4 << 20), {});
  store(session, "key", "value");
  for (const key of ["key", "none"]) {
    get(session, key);
    assert.equal(info[INFO_TICKET], session.ticket(key));
    assert.equal(info[INFO_HASH_LOW], Number(BigInt.asIntN(32, native.hash64(key))));
    const before = info[INFO_TICKET];
    session.invalidate(key);
    get(session, key);
    assert.notEqual(info[INFO_TICKET], before);
  }
  const short = new Int32Array(7);
  assert.equal(session.lookup("none", 0, 0, out, short), CacheKind.MISS);
  session.end(true);
});

test("R4, E6: keys are bytes, and long ones are distinct or not cached", () => {
  const session = core.createCache(memoryOf(4 << 20), { maxKeyBytes: 4095 });
  store(session, "\u{fffd}", "replacement");
  assert.equal(get(session, "\ud800"), "replacement");
  assert.equal(get(session, Buffer.from("\u{fffd}")), "replacement");
  store(session, Uint8Array.of(0x80), "80");
  assert.equal(get(session, Uint8Array.of(9, 0x80, 9).subarray(1, 2)), "80");
  assert.equal(get(session, Uint8Array.of(0x81)), undefined);
  for (const length of [1000, 4095, 65_535, 65_536, 70_000]) {
    const keys = ["a", "b"].map((last) => "k".repeat(length - 1) + last);
    for (const key of keys) store(session, key, key.at(-1)!);
    assert.deepEqual(
      keys.map((key) => get(session, key)),
      length > 4095 ? [undefined, undefined] : ["a", "b"],
    );
  }
  session.end(true);
});

test("the proof a store tells is the word in the region, and an invalidation by another session changes it", () => {
  const memory = memoryOf(4 << 20);
  const one = core.createCache(memory, {});
  const two = core.attachCache(memory);
  assert.equal(two.digest, one.digest);
  assert.deepEqual(two.base, one.base);
  const proofs = one.base + one.layout["proofs"]!;
  store(one, "key", "value");
  const [index, proof, expiry, check] = info;
  assert.equal(memory[proofs + index!], proof);
  assert.equal(get(two, "key"), "value");
  const told = [INFO_PROOF_INDEX, INFO_PROOF, INFO_EXPIRY, INFO_CHECK].map((word) => info[word]);
  assert.deepEqual(told, [index, proof, expiry, check]);
  const late = one.beginLoad("key");
  assert.equal(two.invalidate("key"), true);
  assert.notEqual(memory[proofs + index!], proof);
  assert.equal(get(one, "key"), undefined);
  assert.equal(one.store("key", Buffer.from("old"), 1000, 0, 0, 0, late, info), CacheStored.OVERTAKEN);
  two.end(false);
  one.end(true);
});

test("the clock runs; a value past its refresh age elects one reader, past its expiry it is stale or gone", async () => {
  const memory = memoryOf(4 << 20);
  const session = core.createCache(memory, {});
  const clock = session.base + session.layout["clock"]!;
  session.store("key", Buffer.from("value"), 30, 10, 0, 0, session.beginLoad("key"), info);
  const until = async (ms: number): Promise<void> => {
    while (((memory[clock]! - ms) | 0) < 0) await new Promise(setImmediate);
  };
  const expiry = info[INFO_EXPIRY]!;
  await until(expiry);
  assert.equal(get(session, "key"), undefined);
  assert.equal(get(session, "key", 1_000_000), "value");
  assert.equal(info[INFO_FLAGS], FLAG_ELECTED | FLAG_STALE);
  assert.equal(get(session, "key", 1_000_000), "value");
  assert.equal(info[INFO_FLAGS], FLAG_STALE);
  session.end(true);
});

test("what is stored goes by prefix, feeder or altogether", () => {
  const session = core.createCache(memoryOf(4 << 20), {});
  const fill = (): void => ["up:1", "up:2", "fc:1"].forEach((key) => store(session, key, key));
  fill();
  assert.equal(session.invalidatePrefix(0, "up:"), 2);
  assert.equal(session.invalidatePrefix(1, ""), 0);
  assert.equal(get(session, "fc:1"), "fc:1");
  fill();
  assert.equal(session.usage().entries, 3);
  assert.equal(session.invalidateFeeder(6), 0);
  assert.equal(session.invalidateFeeder(7), 3);
  fill();
  session.invalidateAll();
  assert.equal(session.usage().entries, 0);
  assert.equal(session.counters()["stores"], 9);
  session.end(true);
});

test("L2: a claim elects one, tells the others what to wait for, and ends once", () => {
  const memory = memoryOf(4 << 20);
  const [one, two] = [core.createCache(memory, {}), core.attachCache(memory)];
  const [mine, theirs] = [new Int32Array(CLAIM_WORDS), new Int32Array(CLAIM_WORDS)];
  assert.equal(one.claim("key", 1000, mine), CacheClaim.ELECTED);
  assert.equal(two.claim("key", 1000, theirs), CacheClaim.WAIT);
  assert.deepEqual(theirs.subarray(0, 2), mine.subarray(0, 2));
  assert.equal(memory[one.base + mine[0]!], mine[1]);
  assert.equal(one.ticket("key"), mine[2], "with the ticket of the load");
  assert.equal(two.claim("other", 1000, theirs), CacheClaim.ELECTED);
  assert.equal(one.release(mine[0]!, mine[1]!), true);
  assert.equal(one.release(mine[0]!, mine[1]!), false);
  assert.equal(two.claim("key", 1000, theirs), CacheClaim.ELECTED);
  two.end(false);
  assert.equal(one.claim("key", 1000, mine), CacheClaim.ELECTED, "a claim ends with its session");
  const info = new Int32Array(INFO_WORDS);
  assert.equal(one.store("key", Buffer.from("value"), 60_000, 0, 0, 0, mine[2]!, info), CacheStored.KEPT);
  assert.equal(one.release(mine[0]!, mine[1]!), true);
  assert.equal(one.claim("key", 1000, mine), CacheClaim.HELD, "a key that is cached by now is not claimed");
  one.invalidate("key");
  assert.equal(one.claim("key", 1000, mine), CacheClaim.ELECTED);
  one.end(true);
});

test("memory that is no region, too small, in use or not shared is refused", () => {
  const memory = memoryOf(4 << 20);
  assert.throws(() => core.createCache(memoryOf(1000), {}), {
    name: "RangeError",
    message: /too small.*bytes would do/,
  });
  assert.throws(() => core.createCache(new Int32Array(1 << 20), {}), {
    name: "TypeError",
    message: /SharedArrayBuffer/,
  });
  assert.throws(() => core.createCache(memory, { maxThreads: 300 }), { name: "RangeError", message: /max_threads/ });
  assert.throws(() => core.attachCache(memory), /not a region of keylane/);
  const session = core.createCache(memory, {});
  assert.throws(() => core.createCache(memory, {}), /in use already/);
  memory[session.base + 1]! += 1;
  assert.throws(() => core.attachCache(memory), /layout version 2, this is 1/);
  memory[session.base + 1]! -= 1;
  session.end(true);
  assert.throws(() => core.attachCache(memory), /closed/);
});

test("arguments that are wrong, or lie in the region, are refused; an ended session refuses all", () => {
  const memory = memoryOf(4 << 20);
  const session = core.createCache(memory, {});
  const inside = new Uint8Array(memory.buffer, 4096, 100);
  assert.throws(() => session.lookup("key", 0, 0, inside, info), /out lies in the session's own memory/);
  assert.throws(() => session.lookup("key", 0, 0, out, memory.subarray(0, 8)), /info lies in/);
  assert.throws(() => session.lookup("key", -1, 0, out, info), RangeError);
  assert.throws(() => session.lookup("key", 0, 0, out, new Int32Array(6)), /fewer than 7 words/);
  assert.throws(() => session.invalidate(undefined as never), TypeError);
  assert.throws(() => session.store("key", inside, 1, 0, 0, 0, 0, info), /value lies in/);
  assert.throws(() => session.store("key", null, 1, 0, 65_536, 0, 0, info), RangeError);
  assert.throws(() => session.count(99, 1), RangeError);
  session.end(true);
  session.end(true);
  assert.throws(() => session.lookup("key", 0, 0, out, info), /has ended/);
});

const keyAt = (index: number): number => index << HEAD_KEY_SHIFT;

test("stamp: ticket, slot and hash of each operation's key, wherever it stands; an operation without one is passed over", () => {
  const session = core.createCache(memoryOf(4 << 20), {});
  // The key first; second, after an argument; none (an index past the arguments); alone because the rest is a template's.
  const scratch = Buffer.from("aaaxx{b}byyc{d}", "latin1");
  const desc = Int32Array.of(
    keyAt(0),
    1,
    3,
    keyAt(1),
    2,
    2,
    4,
    keyAt(KEY_NONE),
    1,
    2,
    FLAG_SAME << HEAD_FLAGS_SHIFT,
    1,
    4,
  );
  const stamps = new Int32Array(4 * STAMP_WORDS).fill(-9);
  session.invalidate("{b}b");
  session.stamp(scratch, desc, 4, stamps);
  const expected = ["aaa", "{b}b", null, "c{d}"].flatMap((key) => {
    if (key === null) return [-9, -9, -9, -9];
    const hash = native.hash64(key);
    return [
      session.ticket(key),
      native.slot(key),
      Number(BigInt.asIntN(32, hash)),
      Number(BigInt.asIntN(32, hash >> 32n)),
    ];
  });
  assert.deepEqual([...stamps], expected);
  assert.notEqual(session.ticket("{b}b"), session.ticket("aaa"), "the ticket tells of the invalidation");

  const cut = new Int32Array(4 * STAMP_WORDS).fill(-9);
  session.stamp(scratch.subarray(0, 8), desc, 4, cut);
  assert.deepEqual(
    [...cut],
    [...expected.slice(0, STAMP_WORDS), ...Array.from({ length: 12 }, () => -9)],
    "what is cut off",
  );
  assert.throws(() => session.stamp(scratch, desc, desc.length + 1, stamps), RangeError);
  session.end(true);
  assert.throws(() => session.stamp(scratch, desc, 4, stamps), /has ended/);
});

/**
 * A store may be refused: another thread left meanwhile, which overtakes all loads, or the arena is held by one that is not
 * running just then. It loads again.
 */
const WORKER = `
  import { workerData } from "node:worker_threads";
  const { CacheStored } = await import(${JSON.stringify(import.meta.resolve("#dist/native/cache-types.js"))});
  const { cacheCore } = await import(${JSON.stringify(import.meta.resolve("#dist/native/index.js"))});
  const { memory, id } = workerData;
  const session = cacheCore.attachCache(memory);
  const info = new Int32Array(8);
  const value = Buffer.from("of " + id);
  const store = () => session.store("worker " + id, value, 600_000, 0, 0, 0, session.beginLoad("worker " + id), info);
  let stored = store();
  while (stored === CacheStored.OVERTAKEN || stored === CacheStored.BUSY) stored = store();
  if (stored !== 0) throw new Error("worker " + id + " stored: " + stored);
  if (id % 3 === 0) session.end(false);
  if (id % 3 === 1) process.exit(0);
`;

test("fifty short-lived workers, ten at a time, store what all see, and give their seats back", async () => {
  const memory = memoryOf(4 << 20);
  const session = core.createCache(memory, { maxThreads: 12 });
  const source = new URL(`data:text/javascript,${encodeURIComponent(WORKER)}`);
  for (let first = 0; first < 50; first += 10) {
    const workers = Array.from(
      { length: 10 },
      (_, at) => new Worker(source, { workerData: { memory, id: first + at } }),
    );
    const codes = await Promise.all(workers.map((worker) => once(worker, "exit")));
    assert.deepEqual(
      codes.flat(),
      Array.from({ length: 10 }, () => 0),
    );
  }
  for (let id = 0; id < 50; id += 1) assert.equal(get(session, `worker ${id}`), `of ${id}`);
  session.end(true);
});
