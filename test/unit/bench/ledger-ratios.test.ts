/** The ratios of the ledger suite, on made-up rows: which rows are compared, and which way round. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeLedger } from "#bench/ledger.js";
import { Verdict } from "#bench/report/stats.js";
import type { Role, Row } from "#bench/report/types.js";

const PLAIN = "INCRBY, ioredis Cluster";
const PIPELINED = "INCRBY, ioredis Cluster, autopipelining";

function row(contestant: string, role: Role, group: string, opsPerSec: number, p99Ms: number): Row {
  const spread = { opsPerSec: 0, cpuMicrosPerOp: 0, p50Ms: 0, p99Ms: 0 };
  const name = `${contestant}, ${group}`;
  return { name, group, role, rounds: 5, opsPerSec, cpuMicrosPerOp: 1, p50Ms: 1, p99Ms, spread };
}

const rowsAt = (group: string, scale: number): Row[] => [
  row("keylane, durable", "keylane", group, 80 * scale, 8),
  row("keylane, fast", "keylane", group, 400 * scale, 1),
  row(PLAIN, "peer", group, 20 * scale, 4),
  row(PIPELINED, "peer", group, 40 * scale, 2),
];

/** What is expected of these rows. */
const ratiosAt = (group: string): Record<string, number> => ({
  [`entries/s: keylane, durable, ${group} ÷ ${PLAIN}`]: 4,
  [`p99: keylane, durable, ${group} ÷ ${PLAIN}`]: 2,
  [`entries/s: keylane, durable, ${group} ÷ ${PIPELINED}`]: 2,
  [`p99: keylane, durable, ${group} ÷ ${PIPELINED}`]: 4,
  [`entries/s: keylane, fast, ${group} ÷ ${PLAIN}`]: 20,
  [`p99: keylane, fast, ${group} ÷ ${PLAIN}`]: 0.25,
  [`entries/s: keylane, fast, ${group} ÷ ${PIPELINED}`]: 10,
  [`p99: keylane, fast, ${group} ÷ ${PIPELINED}`]: 0.5,
});

describe("ratios of the ledger suite", () => {
  const rows = [...rowsAt("64 entries in flight", 1), ...rowsAt("1,024 entries in flight", 10)];

  it("compare entries/s and p99 of each mode with each kind of INCRBY, at 64 and 1,024 in flight", () => {
    const verdict = new Verdict();
    judgeLedger(rows, verdict);
    assert.deepEqual(verdict.ratios, { ...ratiosAt("64 entries in flight"), ...ratiosAt("1,024 entries in flight") });
    assert.deepEqual(verdict.goals, [], "the peers do less: there is no goal");
  });

  it("compare rows of the same number in flight only", () => {
    const verdict = new Verdict();
    assert.throws(() => judgeLedger(rows.slice(0, 4), verdict), /1,024 entries in flight/);
  });
});
