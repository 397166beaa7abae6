/**
 * The arithmetic of a report: medians over rounds, their spread, ratios between rows and the goals they are held to.
 * The invariant: nothing here rounds or drops a value; a figure that cannot be computed is an error, never a NaN in a report.
 */
import type { Figure, Goal, Report, Role, Row, Sample, Spread } from "./types.js";

/** The figures of a sample, in the order of the table. */
export const FIGURES = ["opsPerSec", "cpuMicrosPerOp", "p50Ms", "p99Ms"] as const satisfies Figure[];

/**
 * Median of `values`; with an even count the mean of the two in the middle. O(n log n).
 * @throws RangeError when there is none, or one is not finite.
 */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError("median of no values");
  const sorted = values.toSorted((a, b) => a - b);
  for (const value of sorted) if (!Number.isFinite(value)) throw new RangeError(`median of ${value}`);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** (largest − smallest) ÷ median; 0 when all are equal, also when all are 0. */
export function spread(values: readonly number[]): number {
  const middle = median(values);
  const range = Math.max(...values) - Math.min(...values);
  return range === 0 ? 0 : range / middle;
}

/** The row that stands for several rounds of one contestant. */
export function summarize(name: string, group: string, role: Role, samples: readonly Sample[]): Row {
  const column = (figure: Figure) => samples.map((sample) => sample[figure]);
  const over = (reduce: (values: number[]) => number): Spread => ({
    opsPerSec: reduce(column("opsPerSec")),
    cpuMicrosPerOp: reduce(column("cpuMicrosPerOp")),
    p50Ms: reduce(column("p50Ms")),
    p99Ms: reduce(column("p99Ms")),
  });
  return { name, group, role, rounds: samples.length, ...over(median), spread: over(spread), ...ownFigures(samples) };
}

/** Medians of the figures that only some suites have. */
function ownFigures(samples: readonly Sample[]): Pick<Sample, "bytesPerEntry" | "more"> {
  const bytes = samples.flatMap(({ bytesPerEntry }) => bytesPerEntry ?? []);
  const names = Object.keys(samples[0]?.more ?? {});
  const more = names.map((name) => [name, median(samples.map((sample) => sample.more?.[name] ?? Number.NaN))]);
  return {
    ...(bytes.length === 0 ? {} : { bytesPerEntry: median(bytes) }),
    ...(names.length === 0 ? {} : { more: Object.fromEntries(more) as Record<string, number> }),
  };
}

/** The row called `name`. */
export function rowNamed(rows: readonly Row[], name: string): Row {
  const found = rows.find((row) => row.name === name);
  if (found === undefined) throw new RangeError(`no row is called ${name}`);
  return found;
}

/** `a ÷ b`, both of which must be finite and above 0. */
export function ratio(a: number, b: number): number {
  if (!(a > 0 && b > 0 && Number.isFinite(a) && Number.isFinite(b))) throw new RangeError(`ratio of ${a} to ${b}`);
  return a / b;
}

/**
 * The largest departure from the first value: of 1, 1.1 and 0.7 that is 0.7, since 1 ÷ 0.7 is further from 1 than 1.1 is.
 * Used for "the cost is flat": the result must stay within a band around 1.
 */
export function flatness(values: readonly number[]): number {
  let worst = 1;
  for (const value of values) {
    const departure = ratio(value, values[0]);
    if (Math.abs(Math.log(departure)) > Math.abs(Math.log(worst))) worst = departure;
  }
  return worst;
}

/** Ratios and goals while a suite computes them; keeps the order in which they were added. */
export class Verdict {
  readonly ratios: Record<string, number> = {};
  readonly goals: Goal[] = [];

  /** Ratios without a goal. */
  get open(): string[] {
    return Object.keys(this.ratios).filter((what) => this.goals.every(({ ratio: held }) => held !== what));
  }

  /** Notes a ratio; with a bound it is also a goal. */
  add(what: string, value: number, bounds: { readonly atLeast?: number; readonly atMost?: number } = {}): void {
    if (what in this.ratios) throw new RangeError(`the ratio ${what} exists`);
    if (!Number.isFinite(value)) throw new RangeError(`the ratio ${what} is ${value}`);
    this.ratios[what] = value;
    if (bounds.atLeast === undefined && bounds.atMost === undefined) return;
    const met = value >= (bounds.atLeast ?? -Infinity) && value <= (bounds.atMost ?? Infinity);
    this.goals.push({ ratio: what, value, ...bounds, met });
  }
}

/** Checks what a reader of the JSON relies on: distinct names, finite figures, goals that name a ratio. */
export function checkReport(report: Report): Report {
  const names = new Set<string>();
  for (const row of report.rows) {
    if (names.has(row.name)) throw new RangeError(`two rows are called ${row.name}`);
    names.add(row.name);
    for (const figure of FIGURES) {
      if (!(Number.isFinite(row[figure]) && row[figure] >= 0)) {
        throw new RangeError(`${figure} of ${row.name} is ${row[figure]}`);
      }
    }
  }
  for (const goal of report.goals) {
    if (report.ratios[goal.ratio] !== goal.value) throw new RangeError(`the goal ${goal.ratio} has no ratio`);
  }
  return report;
}
