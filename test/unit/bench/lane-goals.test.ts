/** The goals of the lane suite, on made-up rows: which rows are compared, and which way round. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeFlat, judgeHeavy, judgeLatency } from "#bench/lane.js";
import { Verdict } from "#bench/report/stats.js";
import type { Role, Row } from "#bench/report/types.js";

function row(contestant: string, role: Role, group: string, figures: Partial<Row>): Row {
  const spread = { opsPerSec: 0, cpuMicrosPerOp: 0, p50Ms: 0, p99Ms: 0 };
  const base = { rounds: 5, opsPerSec: 1, cpuMicrosPerOp: 1, p50Ms: 1, p99Ms: 1, spread };
  return { ...base, ...figures, name: `${contestant}, ${group}`, group, role };
}

describe("goals of the lane suite", () => {
  it("compare CPU and operations with the better of the two ioredis clusters at 1,024 in flight", () => {
    const group = "1,024 in flight";
    const verdict = new Verdict();
    judgeHeavy(
      [
        row("keylane", "keylane", group, { opsPerSec: 1000, cpuMicrosPerOp: 0.5 }),
        row("ioredis Cluster", "peer", group, { opsPerSec: 125, cpuMicrosPerOp: 16 }),
        row("ioredis Cluster, autopipelining", "peer", group, { opsPerSec: 100, cpuMicrosPerOp: 12 }),
        row("node-redis cluster", "peer", group, { cpuMicrosPerOp: 9 }),
        row("GLIDE cluster", "peer", group, { cpuMicrosPerOp: 10 }),
        row("bare socket", "bound", group, { cpuMicrosPerOp: 0.25 }),
      ],
      verdict,
    );
    assert.deepEqual(verdict.ratios, {
      "CPU per op: best ioredis Cluster ÷ keylane": 24,
      "ops/s: keylane ÷ best ioredis Cluster": 8,
      "CPU per op: node-redis cluster ÷ keylane": 18,
      "CPU per op: GLIDE cluster ÷ keylane": 20,
      "CPU per op: keylane ÷ bare socket, 1,024 in flight": 2,
    });
    assert.deepEqual(
      verdict.goals.map(({ met }) => met),
      [true, false, false, true],
    );
  });

  it("compare p50 and p99 with each peer, not with the bound, at 1, 8 and 64 in flight", () => {
    const rows = [1, 8, 64].flatMap((n) => [
      row("keylane", "keylane", `${n} in flight`, { p50Ms: 0.5, p99Ms: 2 }),
      row("ioredis Cluster", "peer", `${n} in flight`, { p50Ms: 1, p99Ms: 1 }),
      row("bare socket", "bound", `${n} in flight`, { p50Ms: 0.1, p99Ms: 0.1 }),
    ]);
    const verdict = new Verdict();
    judgeLatency(rows, verdict);
    assert.deepEqual(
      verdict.goals.map(({ ratio, value, met }) => [ratio, value, met]),
      [1, 8, 64].flatMap((n) => [
        [`p50: keylane ÷ ioredis Cluster, ${n} in flight`, 0.5, true],
        [`p99: keylane ÷ ioredis Cluster, ${n} in flight`, 2, false],
      ]),
    );
  });

  it("hold the cost of every size within 20 % of the smallest", () => {
    const rows = [0.5, 0.55, 0.65, 0.6].map((cpu, i) =>
      row(`keylane ${i}`, "keylane", "keys", { cpuMicrosPerOp: cpu }),
    );
    const verdict = new Verdict();
    judgeFlat([...rows, row("harness", "overhead", "keys", { cpuMicrosPerOp: 0.01 })], "keys", verdict);
    assert.deepEqual(verdict.goals, [{ ratio: "CPU per op: keys", value: 1.3, atLeast: 0.8, atMost: 1.2, met: false }]);
  });
});
