/** The goals of the pool suite, on made-up rows: missed GETs are held to them, domains without a cache are told beside. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgePool } from "#bench/pool.js";
import { Verdict } from "#bench/report/stats.js";
import type { Row } from "#bench/report/types.js";

function row(contestant: string, group: string, opsPerSec: number, micros: number, delayMs: number): Row {
  const spread = { opsPerSec: 0, cpuMicrosPerOp: 0, p50Ms: 0, p99Ms: 0 };
  const more = { callerMicrosPerOp: micros, loopDelayP99Ms: delayMs, timerDelayP99Ms: delayMs / 2 };
  const name = `${contestant}, ${group}`;
  return { name, group, role: "keylane", rounds: 5, opsPerSec, cpuMicrosPerOp: 1, p50Ms: 1, p99Ms: 1, spread, more };
}

const SHORT = "short values";
const LONG = "1 KB over TLS";
const rows = [
  row("keylane, inline", `${SHORT}, cache misses`, 1000, 2, 4),
  row("keylane, 1 worker", `${SHORT}, cache misses`, 700, 1, 2),
  row("keylane, inline", SHORT, 4000, 0.5, 1),
  row("keylane, 1 worker", SHORT, 1000, 1, 2),
  row("ioredis Cluster, autopipelining", SHORT, 10, 5, 50),
  row("keylane, inline", `${LONG}, cache misses`, 1000, 2, 4),
  row("keylane, 1 worker", `${LONG}, cache misses`, 500, 1, 3),
  row("keylane, inline", LONG, 1000, 4, 1),
  row("keylane, 1 worker", LONG, 1000, 1, 1),
];

describe("goals of the pool suite", () => {
  const verdict = new Verdict();
  judgePool(rows, verdict);

  it("hold missed GETs to CPU, throughput and delay, and both modes to ioredis", () => {
    assert.deepEqual(
      verdict.goals.map(({ ratio, value, atLeast, atMost, met }) => [ratio, value, atLeast ?? atMost, met]),
      [
        [`CPU of the caller per op, ${SHORT}, cache misses: pool ÷ inline`, 0.5, 0.7, true],
        [`ops/s, ${SHORT}, cache misses: pool ÷ inline`, 0.7, 0.7, true],
        [`event-loop delay p99, ${SHORT}, cache misses: pool ÷ inline`, 0.5, 0.5, true],
        [`event-loop delay p99 by timers, ${SHORT}, cache misses: pool ÷ inline`, 0.5, 0.5, true],
        [`CPU of the caller per op, ${LONG}, cache misses: pool ÷ inline`, 0.5, 0.4, false],
        [`ops/s, ${LONG}, cache misses: pool ÷ inline`, 0.5, 0.7, false],
        [`event-loop delay p99, ${LONG}, cache misses: pool ÷ inline`, 0.75, 0.5, false],
        [`event-loop delay p99 by timers, ${LONG}, cache misses: pool ÷ inline`, 0.75, 0.5, false],
        [`CPU of the caller per op, ${SHORT}: ioredis ÷ inline`, 10, 8, true],
        [`CPU of the caller per op, ${SHORT}: ioredis ÷ pool`, 5, 8, false],
      ],
    );
  });

  it("leave what is not cached without one, and tell it", () => {
    assert.deepEqual(
      verdict.open.map((what) => [what, verdict.ratios[what]]),
      [
        [`CPU of the caller per op, ${SHORT}: pool ÷ inline`, 2],
        [`ops/s, ${SHORT}: pool ÷ inline`, 0.25],
        [`event-loop delay p99, ${SHORT}: pool ÷ inline`, 2],
        [`event-loop delay p99 by timers, ${SHORT}: pool ÷ inline`, 2],
        [`CPU of the caller per op, ${LONG}: pool ÷ inline`, 0.25],
        [`ops/s, ${LONG}: pool ÷ inline`, 1],
        [`event-loop delay p99, ${LONG}: pool ÷ inline`, 1],
        [`event-loop delay p99 by timers, ${LONG}: pool ÷ inline`, 1],
      ],
    );
  });

  it("need every part", () => {
    for (const missing of rows) {
      assert.throws(() => judgePool(rows.toSpliced(rows.indexOf(missing), 1), new Verdict()), RangeError);
    }
  });
});
