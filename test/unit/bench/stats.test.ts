/** The arithmetic of benchmark reports: medians, spread, ratios, goals, and what a valid report is. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkReport, flatness, median, ratio, rowNamed, spread, summarize, Verdict } from "#bench/report/stats.js";
import { report, row } from "./sample-report.js";

describe("median", () => {
  it("is the middle of an odd count, in whatever order", () => {
    assert.equal(median([9, 1, 5]), 5);
    assert.equal(median([7]), 7);
    assert.equal(median([3, 1, 1000, 2, 4]), 3);
  });

  it("is the mean of the middle two of an even count", () => {
    assert.equal(median([4, 1, 3, 2]), 2.5);
  });

  it("compares numbers, not texts, and leaves its input alone", () => {
    const values = [100, 9, 20];
    assert.equal(median(values), 20);
    assert.deepEqual(values, [100, 9, 20]);
  });

  it("refuses what has no median", () => {
    assert.throws(() => median([]), RangeError);
    assert.throws(() => median([1, Number.NaN, 2]), RangeError);
    assert.throws(() => median([1, Infinity]), RangeError);
  });
});

describe("spread", () => {
  it("is the range over the median", () => {
    assert.equal(spread([90, 100, 120]), 0.3);
    assert.equal(spread([2, 2, 2]), 0);
    assert.equal(spread([0, 0]), 0);
  });
});

describe("summarize", () => {
  it("takes the median and the spread of each figure by itself", () => {
    const samples = [
      { opsPerSec: 100, cpuMicrosPerOp: 5, p50Ms: 1, p99Ms: 9 },
      { opsPerSec: 300, cpuMicrosPerOp: 4, p50Ms: 1, p99Ms: 3 },
      { opsPerSec: 200, cpuMicrosPerOp: 8, p50Ms: 1, p99Ms: 6 },
    ];
    assert.deepEqual(summarize("a, b", "b", "peer", samples), {
      name: "a, b",
      group: "b",
      role: "peer",
      rounds: 3,
      opsPerSec: 200,
      cpuMicrosPerOp: 5,
      p50Ms: 1,
      p99Ms: 6,
      spread: { opsPerSec: 1, cpuMicrosPerOp: 0.8, p50Ms: 0, p99Ms: 1 },
    });
  });
});

describe("figures of one suite", () => {
  it("are summarized where samples have them", () => {
    const samples = [
      { opsPerSec: 1, cpuMicrosPerOp: 1, p50Ms: 1, p99Ms: 1, bytesPerEntry: 110, more: { hits: 7, misses: 1 } },
      { opsPerSec: 1, cpuMicrosPerOp: 1, p50Ms: 1, p99Ms: 1, bytesPerEntry: 100, more: { hits: 9, misses: 0 } },
      { opsPerSec: 1, cpuMicrosPerOp: 1, p50Ms: 1, p99Ms: 1, bytesPerEntry: 130, more: { hits: 8, misses: 5 } },
    ];
    const { bytesPerEntry, more } = summarize("a", "b", "peer", samples);
    assert.deepEqual([bytesPerEntry, more], [110, { hits: 8, misses: 1 }]);
    assert.throws(() => summarize("a", "b", "peer", [samples[0], { ...samples[1], more: { hits: 1 } }]), RangeError);
  });
});

describe("ratio and flatness", () => {
  it("divides, and refuses what would give no finite ratio above 0", () => {
    assert.equal(ratio(9, 2), 4.5);
    for (const [a, b] of [
      [1, 0],
      [0, 1],
      [-1, 1],
      [Number.NaN, 1],
      [1, Infinity],
    ]) {
      assert.throws(() => ratio(a, b), RangeError);
    }
  });

  it("finds the largest departure from the first value, up or down", () => {
    assert.equal(flatness([10]), 1);
    assert.equal(flatness([10, 11, 15, 12]), 1.5);
    assert.equal(flatness([10, 11, 7]), 0.7);
    assert.equal(flatness([1, 1.1, 0.5, 1.9]), 0.5);
  });
});

describe("Verdict", () => {
  it("holds ratios to their bounds, both of which are within", () => {
    const verdict = new Verdict();
    verdict.add("plain", 3);
    verdict.add("high enough", 15, { atLeast: 15 });
    verdict.add("too low", 14.9, { atLeast: 15 });
    verdict.add("low enough", 1, { atMost: 1 });
    verdict.add("too high", 1.3, { atLeast: 0.8, atMost: 1.2 });
    assert.deepEqual(verdict.ratios, {
      plain: 3,
      "high enough": 15,
      "too low": 14.9,
      "low enough": 1,
      "too high": 1.3,
    });
    assert.deepEqual(
      verdict.goals.map(({ ratio, met }) => [ratio, met]),
      [
        ["high enough", true],
        ["too low", false],
        ["low enough", true],
        ["too high", false],
      ],
    );
  });

  it("refuses a name twice and a ratio that is no number", () => {
    const verdict = new Verdict();
    verdict.add("a", 1);
    assert.throws(() => verdict.add("a", 2), RangeError);
    assert.throws(() => verdict.add("b", Number.NaN), RangeError);
  });
});

describe("checkReport and rowNamed", () => {
  it("passes a valid report through", () => {
    assert.equal(checkReport(report), report);
    assert.equal(rowNamed(report.rows, report.rows[1].name), report.rows[1]);
  });

  it("refuses doubled names, figures that are no numbers, and goals without a ratio", () => {
    const [first] = report.rows;
    assert.throws(() => checkReport({ ...report, rows: [first, first] }), /two rows/);
    assert.throws(() => checkReport({ ...report, rows: [row("x", "g", "peer", Number.NaN)] }), /opsPerSec of x is NaN/);
    assert.throws(() => checkReport({ ...report, ratios: {} }), /has no ratio/);
    assert.throws(() => rowNamed(report.rows, "nobody"), RangeError);
  });
});
