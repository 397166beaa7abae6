/** A small report with every kind of row and goal, for the tests of what is drawn from one. */
import { Verdict } from "#bench/report/stats.js";
import type { Report, Role, Row } from "#bench/report/types.js";

/** A row whose other figures follow from its operations per second. */
export function row(name: string, group: string, role: Role, opsPerSec: number): Row {
  return {
    name,
    group,
    role,
    rounds: 5,
    opsPerSec,
    cpuMicrosPerOp: 500_000 / opsPerSec,
    p50Ms: 0.25,
    p99Ms: 1.5,
    spread: { opsPerSec: 0.07, cpuMicrosPerOp: 0.11, p50Ms: 0, p99Ms: 0.4 },
  };
}

const verdict = new Verdict();
verdict.add("ops: keylane ÷ ioredis", 10, { atLeast: 9 });
verdict.add("p99: keylane ÷ ioredis", 1.25, { atMost: 1 });
verdict.add("for information", 42);

export const report: Report = {
  suite: "sample",
  environment: {
    date: "2025-01-02T03:04:05.000Z",
    node: "v20.19.0",
    platform: "linux-x64",
    cpu: "a processor",
    cores: 2,
    memoryGiB: 8,
    load: 0.1,
    settings: { rounds: 5, quick: false },
    versions: { ioredis: "6.0.0" },
  },
  rows: [
    row("keylane, light", "light", "keylane", 1_000_000),
    row("ioredis, light", "light", "peer", 100_000),
    row("bare socket, light", "light", "bound", 2_000_000),
    row("keylane, heavy", "heavy", "keylane", 1_300_000),
    { ...row("ioredis, heavy", "heavy", "peer", 90_000), bytesPerEntry: 120 },
    row("harness, heavy", "heavy", "overhead", 11_000_000),
  ],
  ratios: verdict.ratios,
  goals: verdict.goals,
};
