/** The goals of the suites cache and phases, on made-up rows, and that phases with different answers are refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeHits, judgeReads, judgeSharing } from "#bench/cache.js";
import { judgePhases, sameAnswers } from "#bench/phases.js";
import { Verdict } from "#bench/report/stats.js";
import type { Role, Row } from "#bench/report/types.js";

function row(name: string, role: Role, figures: Partial<Row>): Row {
  const spread = { opsPerSec: 0, cpuMicrosPerOp: 0, p50Ms: 0, p99Ms: 0 };
  return { rounds: 5, opsPerSec: 1, cpuMicrosPerOp: 1, p50Ms: 1, p99Ms: 1, spread, ...figures, name, group: "g", role };
}

const hits = (name: string, role: Role, percent: number) => row(name, role, { more: { "hits %": percent } });
const phase = (name: string, opsPerSec: number, reached: number, checksum = 7) =>
  row(name, "peer", { opsPerSec, more: { "profile reads at Redis %": reached, checksum } });

const metOf = (verdict: Verdict) => verdict.goals.map(({ met }) => met);

describe("goals of the cache suite", () => {
  it("compare peek with lru-cache, lmdb and node-redis, await get with bentocache", () => {
    const verdict = new Verdict();
    judgeReads(
      [
        row("keylane peek", "keylane", { opsPerSec: 1150 }),
        row("keylane await get", "keylane", { opsPerSec: 90 }),
        row("keylane peek, shared region", "keylane", { opsPerSec: 30 }),
        row("lru-cache get, ttl", "peer", { opsPerSec: 1000 }),
        row("lmdb get", "peer", { opsPerSec: 60 }),
        row("node-redis await get, client-side cache", "peer", { opsPerSec: 20 }),
        row("node-redis cluster await get, client-side cache", "peer", { opsPerSec: 10 }),
        row("bentocache await get, memory", "peer", { opsPerSec: 10 }),
        row("Map.get, no bound and no expiry", "bound", { opsPerSec: 2300 }),
      ],
      verdict,
    );
    assert.deepEqual(Object.values(verdict.ratios), [1.15, 1150 / 60, 115, 57.5, 9, 0.5, 0.5]);
    assert.deepEqual(metOf(verdict), [true, false, true, false]);
  });

  it("hold two threads, another thread's write and the bytes a key", () => {
    const verdict = new Verdict();
    judgeSharing(
      [
        row("keylane peek, 1 thread", "keylane", { opsPerSec: 10 }),
        row("keylane peek, 2 threads", "keylane", { opsPerSec: 18 }),
        row("keylane write, seen by another thread's peek", "keylane", { p50Ms: 0.0078125 }),
        row("keylane peek, small keys in turn", "keylane", { bytesPerEntry: 121 }),
      ],
      verdict,
    );
    assert.deepEqual(Object.values(verdict.ratios), [1.8, 7.8125, 64]);
    assert.deepEqual(metOf(verdict), [true, false, true]);
  });

  it("hold the hit ratio against the better of the two others", () => {
    const peers = [hits("LRU", "peer", 68.5), hits("S3-FIFO", "peer", 72)];
    for (const [own, behind, met] of [
      [71, 1, true],
      [70.5, 1.5, false],
      [73, -1, true],
    ] as const) {
      const verdict = new Verdict();
      judgeHits([hits("keylane", "keylane", own), ...peers], verdict);
      assert.deepEqual([Object.values(verdict.ratios), metOf(verdict)], [[behind], [met]]);
    }
    assert.throws(() => judgeHits([row("keylane", "keylane", {}), ...peers], new Verdict()), RangeError);
  });
});

describe("goals of the phases suite", () => {
  const rows = [
    phase("one cluster, ioredis", 10, 100),
    phase("three clusters, ioredis", 12, 100),
    phase("three clusters, keylane", 60, 100),
    phase("three clusters, keylane + L1", 39, 20),
  ];

  it("hold the phase with L1 against the one cluster", () => {
    const verdict = new Verdict();
    judgePhases(rows, verdict);
    assert.deepEqual(Object.values(verdict.ratios), [80, 3.9, 1.2, 6]);
    assert.deepEqual(metOf(verdict), [true, false]);
  });

  it("need the same answers of all phases, which are not shown", () => {
    assert.deepEqual(
      sameAnswers(rows).map(({ more }) => more),
      [100, 100, 100, 20].map((reached) => ({ "profile reads at Redis %": reached })),
    );
    assert.throws(() => sameAnswers([...rows, phase("another", 1, 1, 8)]), /different answers: 7, 8/);
    assert.throws(() => sameAnswers([row("none", "peer", {})]), /different answers/);
  });
});
