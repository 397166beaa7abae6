/**
 * A report as text: one table a group, then the ratios and which goals they meet. Each figure is a median, followed by the
 * spread of its rounds in percent. The invariant: every row and every ratio of the report appears.
 */
import type { Figure, Goal, Report, Row } from "./types.js";

/** Digits that keep three significant places without an exponent. */
export function figure(value: number): string {
  if (value === 0) return "0";
  if (value < 0) return `-${figure(-value)}`;
  if (value >= 1000) return Math.round(value).toLocaleString("en-US");
  if (value >= 100) return value.toFixed(0);
  if (value >= 10) return value.toFixed(1);
  if (value >= 1) return value.toFixed(2);
  return value.toFixed(Math.min(7, 2 - Math.floor(Math.log10(value))));
}

const HEADINGS = ["", "ops/s", "±", "CPU µs/op", "±", "p50 ms", "±", "p99 ms", "±"];

function cells(row: Row): string[] {
  const pair = (name: Figure) => [figure(row[name]), `${Math.round(row.spread[name] * 100)}%`];
  const own = Object.entries(row.more ?? {}).map(([what, value]) => `${what} ${figure(value)}`);
  if (row.bytesPerEntry !== undefined) own.unshift(`${figure(row.bytesPerEntry)} B an entry`);
  return [
    own.length === 0 ? row.name : `${row.name} (${own.join(", ")})`,
    ...pair("opsPerSec"),
    ...pair("cpuMicrosPerOp"),
    ...pair("p50Ms"),
    ...pair("p99Ms"),
  ];
}

/** Columns padded to their widest cell; the first is set left, the others right. */
function align(lines: readonly string[][]): string[] {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  return lines.map((line) =>
    line
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column])))
      .join("  ")
      .trimEnd(),
  );
}

/** What meets a goal. */
export function bound(goal: Goal): string {
  const parts = [];
  if (goal.atLeast !== undefined) parts.push(`≥ ${goal.atLeast}`);
  if (goal.atMost !== undefined) parts.push(`≤ ${goal.atMost}`);
  return parts.join(" and ");
}

/** The report as lines of text. */
export function renderTable(report: Report): string {
  const { environment } = report;
  const out = [
    `suite ${report.suite}: medians of ${report.rows[0]?.rounds ?? 0} interleaved rounds, ± is (largest − smallest) ÷ median`,
    `${environment.cpu}, ${environment.cores} cores, load ${figure(environment.load)}, Node ${environment.node}`,
    Object.entries({ ...environment.settings, ...environment.versions })
      .map(([name, value]) => `${name} ${value}`)
      .join(", "),
  ];
  for (const group of new Set(report.rows.map((row) => row.group))) {
    const rows = report.rows.filter((row) => row.group === group);
    out.push("", ...align([[group, ...HEADINGS.slice(1)], ...rows.map(cells)]));
  }
  const goals = new Map(report.goals.map((goal) => [goal.ratio, goal]));
  const ratios = Object.entries(report.ratios).map(([what, value]) => {
    const goal = goals.get(what);
    if (goal === undefined) return [what, figure(value), "", ""];
    return [what, figure(value), bound(goal), goal.met ? "met" : "NOT MET"];
  });
  if (ratios.length > 0) out.push("", ...align([["ratio", "value", "goal", ""], ...ratios]));
  const met = report.goals.filter((goal) => goal.met).length;
  if (report.goals.length > 0) out.push("", `${met} of ${report.goals.length} goals met`);
  return out.join("\n") + "\n";
}
