/** What a report becomes: JSON, a table, a chart. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { chartSpec, renderChart } from "#bench/report/chart.js";
import { describeEnvironment, versionOf } from "#bench/report/environment.js";
import { figure, renderTable } from "#bench/report/table.js";
import type { Report } from "#bench/report/types.js";
import { report } from "./sample-report.js";

describe("JSON", () => {
  const parsed = JSON.parse(JSON.stringify(report)) as Report;

  it("has suite, environment, rows and ratios at the top", () => {
    for (const name of ["suite", "environment", "rows", "ratios"]) assert.ok(name in parsed, name);
    assert.deepEqual(parsed, report);
  });

  it("gives each row its name and four figures as numbers, bytesPerEntry only where entries are stored", () => {
    for (const row of parsed.rows) {
      assert.equal(typeof row.name, "string");
      for (const name of ["opsPerSec", "cpuMicrosPerOp", "p50Ms", "p99Ms"] as const) {
        assert.equal(typeof row[name], "number", `${name} of ${row.name}`);
      }
    }
    assert.deepEqual(
      parsed.rows.map((row) => row.bytesPerEntry),
      [undefined, undefined, undefined, undefined, 120, undefined],
    );
  });

  it("maps each ratio to a number", () => {
    assert.deepEqual(parsed.ratios, {
      "ops: keylane ÷ ioredis": 10,
      "p99: keylane ÷ ioredis": 1.25,
      "for information": 42,
    });
  });
});

describe("environment", () => {
  it("names the machine, Node and the installed versions", () => {
    const environment = describeEnvironment(["ioredis", "keylane"], { rounds: 5 });
    assert.equal(environment.node, process.version);
    assert.ok(environment.cores >= 1);
    assert.ok(!Number.isNaN(Date.parse(environment.date)));
    assert.deepEqual(environment.settings, { rounds: 5 });
    assert.match(environment.versions["ioredis"], /^\d+\.\d+\.\d+/);
    assert.equal(environment.versions["keylane"], versionOf("keylane"));
  });
});

describe("table", () => {
  const text = renderTable(report);
  const lines = text.split("\n");

  it("holds every row once, with medians and spread", () => {
    for (const { name } of report.rows) {
      assert.equal(lines.filter((line) => line.startsWith(name)).length, 1, name);
    }
    const line = lines.find((line) => line.startsWith("keylane, light"));
    assert.match(line ?? "", /1,000,000\s+7%\s+0\.500\s+11%\s+0\.250\s+0%\s+1\.50\s+40%$/);
    assert.match(text, /ioredis, heavy \(120 B an entry\)/);
  });

  it("has a heading for each group and lines of one width in it", () => {
    const at = lines.findIndex((line) => line.startsWith("light "));
    assert.match(lines[at], /ops\/s\s+±\s+CPU µs\/op\s+±\s+p50 ms\s+±\s+p99 ms\s+±$/);
    const widths = lines.slice(at, at + 4).map((line) => line.length);
    assert.deepEqual(new Set(widths).size, 1);
  });

  it("says of each goal whether it is met, and of other ratios nothing", () => {
    assert.match(text, /^ops: keylane ÷ ioredis\s+10\.0\s+≥ 9\s+met$/m);
    assert.match(text, /^p99: keylane ÷ ioredis\s+1\.25\s+≤ 1\s+NOT MET$/m);
    assert.match(text, /^for information\s+42\.0$/m);
    assert.match(text, /^1 of 2 goals met$/m);
  });

  it("names the figures that only some suites have", () => {
    const [first, ...others] = report.rows;
    const own = {
      ...report,
      rows: [{ ...first, bytesPerEntry: 12, more: { "hits %": 71.25, loads: 2000 } }, ...others],
    };
    assert.match(renderTable(own), /^keylane, light \(12\.0 B an entry, hits % 71\.3, loads 2,000\) /m);
  });

  it("writes figures with three significant places and no exponent", () => {
    const written = [0, 0.0000391, 0.0946, 0.57, 1.2345, 12.345, 123.45, 999.6, 1345000].map(figure);
    assert.deepEqual([-1.5, -0.04].map(figure), ["-1.50", "-0.0400"]);
    assert.deepEqual(written, ["0", "0.0000391", "0.0946", "0.570", "1.23", "12.3", "123", "1000", "1,345,000"]);
  });
});

describe("chart", () => {
  it("has one bar a row in either panel", async () => {
    const svg = await renderChart(report);
    assert.match(svg, /^<svg [^>]*xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
    const bars = [...svg.matchAll(/aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="bar"/g)];
    assert.equal(bars.length, report.rows.length * 2);
    assert.ok(!svg.includes("NaN"));
    for (const name of ["keylane", "ioredis", "bare socket", "harness"]) assert.ok(svg.includes(`>${name}<`), name);
  });

  it("draws the bars to scale and ends the harness's own at the edge", async () => {
    const [group] = new Set(report.rows.map((row) => row.group));
    const only = { ...report, rows: report.rows.filter((row) => row.group === group) };
    const svg = await renderChart(only);
    const widths = [...svg.matchAll(/aria-roledescription="bar" d="M0,[\d.]+h([\d.]+)v/g)].map(([, width]) => +width);
    assert.deepEqual(widths, [160, 16, 320, 32, 320, 16]);
    const heavy = await renderChart({ ...report, rows: report.rows.slice(3) });
    const clipped = [...heavy.matchAll(/aria-roledescription="bar" d="M0,[\d.]+h([\d.]+)v/g)].map(
      ([, width]) => +width,
    );
    assert.equal(clipped[0], 320);
    assert.equal(clipped[2], 320);
  });

  it("keeps the order of rows and groups", () => {
    const spec = chartSpec(report) as { vconcat: { hconcat: { data: { values: { name: string }[] } }[] }[] };
    const names = spec.vconcat.map(({ hconcat }) => hconcat[0].data.values.map(({ name }) => name));
    assert.deepEqual(names, [
      ["keylane", "ioredis", "bare socket"],
      ["keylane", "ioredis", "harness"],
    ]);
  });
});
