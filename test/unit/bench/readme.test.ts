/** A report as a block of the README. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { blockOf, withBlock } from "#bench/report/readme.js";
import { report, row } from "./sample-report.js";

describe("README block", () => {
  const [light, heavy] = ["| light |", "| heavy |"];

  it("has where it was measured, the compared conditions row by row, and the ratios with a goal", () => {
    const more = { ...row("counted", "light", "keylane", 1000), more: { "hits %": 71.66 } };
    const alone = row("alone", "by itself", "keylane", 1000);
    const lines = blockOf({ ...report, rows: [...report.rows, more, alone] }).split("\n");
    assert.equal(
      lines[0],
      "Medians of 5 interleaved rounds, every value compared; 2 cores, Node.js v20.19.0, 2025-01-02.",
    );
    assert.equal(lines[1], "`npm run bench -- sample --readme` makes it anew.");
    const from = lines.findIndex((line) => line.startsWith(light));
    assert.deepEqual(lines.slice(from, from + 6), [
      "| light | ops/s | CPU µs/op | p50 ms | p99 ms | hits % |",
      "| --- | ---: | ---: | ---: | ---: | ---: |",
      "| keylane, light | 1,000,000 | 0.500 | 0.250 | 1.50 |  |",
      "| ioredis, light | 100,000 | 5.00 | 0.250 | 1.50 |  |",
      "| bare socket, light | 2,000,000 | 0.250 | 0.250 | 1.50 |  |",
      "| counted | 1,000 | 500 | 0.250 | 1.50 | 71.7 |",
    ]);
    assert.ok(lines.some((line) => line.startsWith(heavy)));
    assert.ok(!lines.some((line) => line.includes("alone")));
    assert.deepEqual(lines.slice(-4), [
      "| ratio | value |",
      "| --- | ---: |",
      "| ops: keylane ÷ ioredis | 10.0 |",
      "| p99: keylane ÷ ioredis | 1.25 |",
    ]);
  });

  it("has what else the suite wants told, with the goals beside the ratios", () => {
    const alone = row("alone", "by itself", "keylane", 1000);
    const ratios = { ...report.ratios, open: 0.5, untold: 2 };
    const lines = blockOf({ ...report, ratios, rows: [...report.rows, alone], told: ["by itself", "open"] }).split(
      "\n",
    );
    assert.ok(lines.includes("| by itself | ops/s | CPU µs/op | p50 ms | p99 ms |"));
    const bounds = report.goals.map(({ atLeast, atMost }) => (atLeast === undefined ? `≤ ${atMost}` : `≥ ${atLeast}`));
    assert.deepEqual(lines.slice(-5), [
      "| ratio | value | goal |",
      "| --- | ---: | ---: |",
      `| ops: keylane ÷ ioredis | 10.0 | ${bounds[0]} |`,
      `| p99: keylane ÷ ioredis | 1.25 | ${bounds[1]} |`,
      "| open | 0.500 | — |",
    ]);
  });

  it("replaces what stands between the suite's markers and nothing else", () => {
    const text =
      "a\n<!-- bench:sample -->\n\nold\n\n<!-- /bench:sample -->\nz <!-- bench:other --> kept <!-- /bench:other -->";
    const [before, after] = withBlock(text, report).split(blockOf(report));
    assert.equal(before, "a\n<!-- bench:sample -->\n\n");
    assert.equal(after, "\n\n<!-- /bench:sample -->\nz <!-- bench:other --> kept <!-- /bench:other -->");
    assert.equal(withBlock(withBlock(text, report), report), withBlock(text, report));
  });

  it("is not written to a text without the markers", () => {
    assert.throws(() => withBlock("nothing here", report), /<!-- bench:sample -->/);
  });
});
