/** The detector over real counters, on a clock of the test's own: what it reports, and what it must not. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { Detector } from "#dist/hotkeys/detector.js";
import { Governor } from "#dist/hotkeys/governor.js";
import { HitCounts } from "#dist/shared/hit-counts.js";

const RULES = { warn: 5000, critical: 20_000, nodeLimit: 50_000, replicas: true };
const WINDOW_MS = 100;

/** A thread that counts and a governor that hears of it. Windows are called by hand. */
class Bench {
  readonly counts = HitCounts.open()!;
  readonly detector = new Detector(this.counts.session, (key) => (key.startsWith("up:") ? 0 : -1));
  readonly reported: string[] = [];
  readonly recovered: string[] = [];
  readonly governor = new Governor([RULES], () => true, {
    isDecided: () => true,
    hot: ({ key }) => void this.reported.push(key),
    recovered: ({ key }) => void this.recovered.push(key),
    entered: () => {},
    left: () => {},
  });
  now = 0;

  constructor() {
    this.detector.merge(this.now);
  }

  hit(key: string, weight = 1): void {
    this.counts.session.record(key, Int32Array.of(key.length), 1, Int32Array.of(weight));
  }

  window(): void {
    this.now += WINDOW_MS;
    assert.ok(this.detector.merge(this.now));
    this.governor.observe(this.now, this.detector.top(1000, this.governor.least), true);
  }

  rate(key: string): number {
    return this.detector.top(1000, 0).find((row) => row.key === key)?.lower ?? 0;
  }
}

test("H2: among 100,000 keys hit once, one hit 5,000 times is reported and no other; the estimate never drops", () => {
  const bench = new Bench();
  const cold = Array.from({ length: 100_000 }, (_, at) => `up:cold:${at}`);
  let last = 0;
  for (let part = 0; part < 10; part += 1) {
    for (let at = part * 10_000; at < (part + 1) * 10_000; at += 1) {
      bench.hit(cold[at]!);
      if (at % 20 === 0) bench.hit("up:hot");
    }
    bench.window();
    const rate = bench.rate("up:hot");
    assert.ok(rate >= last, `${rate} after ${last}`);
    last = rate;
  }
  assert.deepEqual(bench.reported, ["up:hot"]);
  const [hot] = bench.detector.top(10, 4000);
  assert.ok(hot!.lower >= 4750 && hot!.lower <= 5000 && hot!.upper >= 5000, JSON.stringify(hot));
  assert.equal(bench.detector.hits, 105_000);
});

test("H2: 70,000 hits of one key are 70,000, and a counter that is full stays full", () => {
  const bench = new Bench();
  let last = 0;
  for (let part = 0; part < 10; part += 1) {
    for (let hit = 0; hit < 7000; hit += 1) bench.hit("up:hot");
    bench.window();
    assert.ok(bench.rate("up:hot") >= last);
    last = bench.rate("up:hot");
  }
  assert.equal(last, 70_000);
  for (let part = 0; part < 8; part += 1) bench.hit("up:hot", 0x7fff_ffff);
  bench.window();
  assert.equal(bench.rate("up:hot"), 0x7fff_ffff);
  bench.window();
  assert.equal(bench.rate("up:hot"), 0x7fff_ffff);
});

test("H3: a key that was hot is gone from all lists 7 s after its last hit, though nobody asks for it", () => {
  const bench = new Bench();
  for (let part = 0; part < 20; part += 1) {
    bench.hit("up:hot", 6000);
    bench.window();
  }
  assert.deepEqual(bench.reported, ["up:hot", "up:hot"], "warn, and critical");
  assert.equal(bench.governor.size, 1);
  for (let silent = 0; silent < 3; silent += 1) bench.window();
  assert.ok(bench.rate("up:hot") <= 42_000, "three windows of ten are empty");
  let silent = 3;
  for (; bench.governor.size > 0; silent += 1) bench.window();
  assert.ok(silent >= 50 && silent <= 70, `${silent} windows`);
  assert.deepEqual(bench.recovered, ["up:hot"]);
  assert.deepEqual(bench.detector.top(1000, 0), []);
});

test("what no domain has is counted and not governed; long keys and bytes are told apart, and not acted on", () => {
  const bench = new Bench();
  const long = `up:${"x".repeat(300)}`;
  const bytes = Buffer.from([0x75, 0x70, 0x3a, 0xff]);
  bench.hit("fc:1", 50_000);
  bench.hit(`${long}1`, 9000);
  bench.hit(`${long}2`, 8000);
  bench.hit("up:ü".normalize(), 7000);
  bench.counts.add(bytes, 6000);
  for (let part = 0; part < 10; part += 1) bench.window();
  const rows = bench.detector.top(10, 0).map(({ key, whole, domain, lower }) => ({ key, whole, domain, lower }));
  const cut = long.slice(0, 256);
  assert.deepEqual(rows, [
    { key: "fc:1", whole: true, domain: -1, lower: 50_000 },
    { key: cut, whole: false, domain: 0, lower: 9000 },
    { key: cut, whole: false, domain: 0, lower: 8000 },
    { key: "up:ü", whole: true, domain: 0, lower: 7000 },
    { key: "up:\ufffd", whole: false, domain: 0, lower: 6000 },
  ]);
  assert.deepEqual(
    [...bench.governor.keys()].map(({ key, actable }) => [key, actable]),
    [
      [cut, false],
      [cut, false],
      ["up:ü", true],
      ["up:\ufffd", false],
    ],
  );
});

test("hits of caches are gathered and told together, also those of a seat that is left", async () => {
  const counts = HitCounts.open()!;
  const detector = new Detector(counts.session, () => 0);
  detector.merge(0);
  const other = HitCounts.open(counts.buffer)!;
  for (let at = 0; at < 1000; at += 1) other.add(`up:${at % 3}`, 2);
  let gathered = 0;
  other.gather = () => {
    gathered += 1;
    other.add("up:l0", 50);
  };
  other.end();
  other.end();
  other.add("up:late", 5000);
  assert.equal(gathered, 1);
  detector.merge(100);
  assert.deepEqual(
    detector
      .top(10, 0)
      .map(({ key, lower }) => [key, lower])
      .toSorted(),
    [
      ["up:0", 668],
      ["up:1", 666],
      ["up:2", 666],
      ["up:l0", 50],
    ],
  );
  const third = HitCounts.open(counts.buffer)!;
  third.add("up:soon", 99);
  await new Promise((resolve) => setTimeout(resolve, 100));
  detector.merge(200);
  assert.equal(detector.top(10, 0).find(({ key }) => key === "up:soon")?.lower, 99);
  third.end();
  counts.end();
});
