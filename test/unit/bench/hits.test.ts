/** The counters of the suite `hotkeys`: HeavyKeeper against what its paper promises, and the figures that judge all of them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HeavyKeeper } from "#bench/baselines/heavy-keeper.js";
import {
  accuracy,
  COUNTERS,
  errorAt,
  PackedTurn,
  precisionAt,
  recallAt,
  second,
  streamOf,
  thresholds,
} from "#bench/harness/hits.js";
import type { Stream } from "#bench/harness/hits.js";
import { ADDED, COUNTED } from "#bench/harness/hotkeys-figures.js";
import { HEAD_GET } from "#dist/lane/op.js";
import { judgeDriven, judgeHits, judgePeeks } from "#bench/hotkeys.js";
import { Verdict } from "#bench/report/stats.js";
import type { Row } from "#bench/report/types.js";
import { row } from "./sample-report.js";

const sampleRow = (name: string, figures: Partial<Row>): Row => ({ ...row(name, "hits", "keylane", 1), ...figures });

const figures = (...three: number[]): object =>
  Object.fromEntries([recallAt(100), precisionAt(100), errorAt(100)].map((name, i) => [name, three[i]]));

const SPEC = { keys: 5000, batches: 100, exponent: 1 };

describe("HeavyKeeper", () => {
  it("counts exactly while keys do not meet, and keeps the k largest", () => {
    const keeper = new HeavyKeeper(3, 2, 4096);
    for (let n = 1; n <= 6; n += 1) for (let hit = 0; hit < n * 10; hit += 1) keeper.add(`key:${n}`);
    const top = keeper.top().toSorted((a, b) => b[1] - a[1]);
    assert.deepEqual(top, [
      ["key:6", 60],
      ["key:5", 50],
      ["key:4", 40],
    ]);
    keeper.clear();
    assert.deepEqual(keeper.top(), []);
  });

  it("keeps a hot key among many that meet it in few buckets, and tells too much of it only by the few whose fingerprint is the same", () => {
    const keeper = new HeavyKeeper(4, 2, 64);
    for (let i = 0; i < 20_000; i += 1) {
      keeper.add(`cold:${i}`);
      keeper.add("hot");
    }
    const told = new Map(keeper.top()).get("hot")!;
    assert.ok(told > 18_000 && told <= 20_005, String(told));
  });
});

describe("counters of hits", () => {
  const stream = streamOf(SPEC);

  it("get the same hits, as strings and packed as by a lane", () => {
    assert.equal(stream.hits.length, SPEC.batches * 10 * 256);
    const packed = new PackedTurn(stream);
    packed.take(7);
    const keys = stream.hits.slice(7 * 256, 8 * 256);
    const text = keys.join("");
    assert.equal(packed.scratch.toString("utf8", 0, text.length), text);
    const described = keys.flatMap((key) => [HEAD_GET, 1, key.length]);
    assert.deepEqual([...packed.desc.subarray(0, described.length)], described);
    assert.deepEqual(streamOf(SPEC).hits, stream.hits);
    const sum = [...stream.counts.values()].reduce((one, other) => one + other, 0);
    assert.equal(sum, stream.hits.length);
  });

  it("tell the hottest keys, each time anew", () => {
    const [warn] = thresholds(SPEC);
    for (const [name, make] of Object.entries(COUNTERS)) {
      const counter = make(stream);
      for (let round = 0; round < 2; round += 1) {
        assert.ok(second(stream, counter) > 0);
        const judged = accuracy(stream, counter, warn);
        assert.deepEqual([judged[recallAt(warn)], judged[precisionAt(warn)]], [100, 100], name);
        assert.ok(judged[errorAt(warn)]! < 1, name);
      }
    }
  });

  it("are judged by what they miss, what they make up, and how far off they are", () => {
    const small: Stream = {
      hits: [],
      counts: new Map([
        ["a", 200],
        ["b", 100],
        ["c", 95],
        ["d", 10],
      ]),
    };
    const idle = { begin: () => {}, ready: () => {}, count: () => {} };
    const told = (...keys: [string, number][]) => accuracy(small, { ...idle, told: () => keys }, 100);
    assert.deepEqual(told(["a", 200], ["b", 100], ["c", 95]), figures(100, 100, 0));
    assert.deepEqual(told(["a", 100]), figures(50, 100, 50));
    assert.deepEqual(told(["d", 10], ["b", 100]), figures(50, 50, 0));
    assert.deepEqual(told(), figures(0, 100, 0));
  });
});

function met(judge: (verdict: Verdict) => void): boolean[] {
  const verdict = new Verdict();
  judge(verdict);
  return verdict.goals.map((goal) => goal.met);
}

const driven = (found: number, over: number, after: number): Row[] => [
  sampleRow("keylane, copies on other nodes", {
    more: { "detected ms": found, "its node ÷ mean of others": over, "on its node after %": 33 },
  }),
  sampleRow("keylane, shared cache", {
    more: { "detected ms": found, "its node ÷ mean of others": 0, "on its node after %": after },
  }),
];

const peeks = (added: number): Row[] => [sampleRow(COUNTED, { more: { [ADDED]: added } })];

describe("goals of hotkeys", () => {
  it("are met at their bounds and missed past them", () => {
    const own = { [recallAt(5000)]: 100, [precisionAt(5000)]: 100 };
    const rows = (ns: number, more = own) => [
      sampleRow("keylane, keys of a turn", { cpuMicrosPerOp: ns / 1000, more }),
      sampleRow("keylane, keys one by one", { cpuMicrosPerOp: 0.05 }),
      sampleRow("HeavyKeeper", { cpuMicrosPerOp: 0.1 }),
      sampleRow("Map, no bound", { cpuMicrosPerOp: 0.2 }),
    ];
    assert.deepEqual(
      met((verdict) => judgeHits(rows(10), 5000, verdict)),
      [true, true, true],
    );
    const missed = { ...own, [precisionAt(5000)]: 99 };
    assert.deepEqual(
      met((verdict) => judgeHits(rows(10.5, missed), 5000, verdict)),
      [false, true, false],
    );
    assert.deepEqual(
      met((verdict) => judgeDriven(driven(1100, 1.3, 1), verdict)),
      [true, true, true, true],
    );
    assert.deepEqual(
      met((verdict) => judgeDriven(driven(1200, 1.4, 2), verdict)),
      [false, false, false, false],
    );
    assert.deepEqual(
      met((verdict) => judgePeeks(peeks(3), verdict)),
      [true],
    );
    assert.deepEqual(
      met((verdict) => judgePeeks(peeks(3.1), verdict)),
      [false],
    );
  });
});
