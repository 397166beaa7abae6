/** What the demo says: a line a second, the closing table, and the same as JSON. */
import { writeFile } from "node:fs/promises";
import progress from "cli-progress";
import type { NativeInfo } from "../../native/index.js";
import { align, whole } from "../table.js";
import type { Audit } from "./audit.js";
import type { Second, Tally } from "./play.js";

/** A phase that was played and checked. */
export interface PhaseResult {
  readonly name: string;
  readonly tally: Tally;
  /** Profile reads that a server answered, of all, 0–1. */
  readonly reached: number;
  readonly audit: Audit;
}

/** A whole run. */
export interface Run {
  readonly traffic: {
    readonly kind: "zipf" | "trace";
    readonly title: string;
    readonly users: number;
    /** Requests in the trace; null for an endless stream. */
    readonly requests: number | null;
  };
  /** Kind and version of the servers. */
  readonly server: string;
  readonly core: NativeInfo["kind"];
  readonly phases: readonly PhaseResult[];
}

/** Where the line of each second goes. */
export interface Ticker {
  second(second: Second): void;
  stop(): void;
}

/** On a terminal one line with a bar, written over; elsewhere plain lines. */
export function openTicker(out: NodeJS.WriteStream): Ticker {
  if (!out.isTTY) {
    return { second: (second) => void out.write(`${lineOf(second)}\n`), stop: () => undefined };
  }
  const bar = new progress.SingleBar(
    { format: "{line}  {bar}", stream: out, barsize: 20, hideCursor: false, gracefulExit: false },
    progress.Presets.shades_classic,
  );
  const stop = (): void => bar.stop();
  bar.start(100, 0, { line: "" });
  // A signal ends the process with the terminal's line wrap still off.
  process.once("exit", stop);
  return {
    second: (second) => bar.update(Math.round(second.progress * 100), { line: lineOf(second) }),
    stop() {
      process.off("exit", stop);
      stop();
    },
  };
}

/** Whether every value was right, every counter exact and nothing failed. */
export function isClean({ tally, audit }: PhaseResult): boolean {
  return tally.wrong === 0 && tally.failed === 0 && audit.exact === audit.counters && audit.immortal === 0;
}

/** The closing table and, for each phase, what its values and counters were found to be. */
export function closing(run: Run): string {
  const domains = [...new Set(run.phases.flatMap(({ tally }) => [...tally.commands.keys()]))];
  const table = [
    ["phase", "requests", "requests/s", "p50 ms", "p99 ms", "profile reads at Redis", ...domains],
    ...run.phases.map(({ name, tally, reached }) => [
      name,
      whole(tally.requests),
      whole(tally.requests / tally.seconds),
      tally.p50Ms.toFixed(2),
      tally.p99Ms.toFixed(2),
      percent(reached),
      ...domains.map((domain) => percent(shareOf(tally, domain))),
    ]),
  ];
  return ["", ...align(table), "", ...run.phases.flatMap((phase) => verdict(phase, run.traffic))].join("\n");
}

/** The run for machines. Times in milliseconds, shares 0–1. */
export async function writeJson(file: string, run: Run): Promise<void> {
  const phases = run.phases.map((phase) => {
    const { tally, reached, audit } = phase;
    const shares = [...tally.commands].map(([domain, commands]) => [
      domain,
      { commands, share: shareOf(tally, domain) },
    ]);
    return {
      name: phase.name,
      ok: isClean(phase),
      requests: tally.requests,
      failed: tally.failed,
      seconds: tally.seconds,
      requestsPerSec: tally.requests / tally.seconds,
      p50Ms: tally.p50Ms,
      p99Ms: tally.p99Ms,
      domains: Object.fromEntries(shares) as object,
      reads: { right: tally.right, wrong: tally.wrong, reached },
      counters: {
        read: audit.counters,
        exact: audit.exact,
        immortal: audit.immortal,
        impressions: audit.impressions,
        spend: audit.spend,
      },
      faults: [...tally.faults, ...audit.faults],
    };
  });
  const { traffic, server, core } = run;
  const report = { ok: run.phases.every(isClean), traffic, server, core, phases };
  await writeFile(file, `${JSON.stringify(report, null, 2)}\n`);
}

function lineOf(second: Second): string {
  const shares = [...second.shares].map(([domain, share]) => `${domain} ${percent(share)}`);
  return [
    `${second.at.toFixed(1).padStart(6)} s`,
    `${whole(second.requestsPerSec).padStart(9)} requests/s`,
    `p50 ${second.p50Ms.toFixed(2).padStart(6)} ms`,
    `p99 ${second.p99Ms.toFixed(2).padStart(6)} ms`,
    ...shares,
  ].join("  ");
}

function verdict({ name, tally, audit }: PhaseResult, traffic: Run["traffic"]): string[] {
  const exact = audit.exact === audit.counters;
  const reads = tally.right + tally.wrong;
  const sums = `${whole(audit.impressions)} impressions, ${whole(audit.spend)} minor units billed`;
  const lines = [
    tally.wrong === 0
      ? `values    all ${whole(reads)} values read were the values written`
      : `values    ${whole(tally.wrong)} of ${whole(reads)} values read were WRONG`,
    exact
      ? `counters  all ${whole(audit.counters)} exact: ${sums}, as acknowledged`
      : `counters  ${whole(audit.counters - audit.exact)} of ${whole(audit.counters)} NOT EXACT: ${sums}`,
  ];
  if (traffic.requests !== null) {
    lines.unshift(`trace     ${whole(tally.requests)} of ${whole(traffic.requests)} requests played`);
  }
  if (audit.immortal > 0) lines.push(`counters  ${whole(audit.immortal)} NEVER EXPIRE`);
  if (tally.failed > 0) lines.push(`calls     ${whole(tally.failed)} ad requests FAILED`);
  for (const fault of [...tally.faults, ...audit.faults]) lines.push(`          ${fault}`);
  return [name, ...lines.map((line) => `  ${line}`)];
}

function shareOf(tally: Tally, domain: string): number {
  const total = [...tally.commands.values()].reduce((sum, n) => sum + n, 0);
  return total === 0 ? 0 : (tally.commands.get(domain) ?? 0) / total;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
