/** A storm's figures as text. */
import type { FaultFigures, StormFigures } from "./storm.js";

/** Aligned columns: the first to the left, the others to the right. */
export function table(rows: readonly (readonly (string | number)[])[]): string {
  const texts = rows.map((row) => row.map(String));
  const widths = texts[0]!.map((_, column) => Math.max(...texts.map((row) => row[column]!.length)));
  const line = (row: readonly string[]): string =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))).join("  ");
  return texts.map(line).join("\n");
}

const sum = (values: Iterable<number>): number => [...values].reduce((total, value) => total + value, 0);

/** How often each thing occurs, most frequent first. */
export function tally(names: Iterable<string>): [string, number][] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].toSorted((a, b) => b[1] - a[1]);
}

const mega = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(0)} MiB`;

/** The worst recovery of a storm, in milliseconds. */
export function worstRecovery(figures: StormFigures): number {
  return Math.max(0, ...figures.faults.map(({ recoveryMs }) => recoveryMs));
}

/** One line of a comparison; `HEADINGS` names its columns. */
export function summary(figures: StormFigures): (string | number)[] {
  const { load, counters, faults } = figures;
  return [
    figures.client,
    sum(Object.values(load.succeeded)),
    load.failures.length,
    sum(faults.map(({ strangers }) => strangers.length)),
    load.hung.length,
    figures.open,
    counters.doubled,
    load.registers.violations.length,
    counters.lost,
    Math.round(worstRecovery(figures)),
    Math.round(load.slowestMs),
  ];
}

export const HEADINGS: readonly string[] = [
  "client",
  "succeeded",
  "errors",
  "of other shards",
  "hung",
  "never settled",
  "doubled",
  "wrong reads",
  "lost by servers",
  "worst recovery ms",
  "slowest ms",
];

/** Everything about one storm. */
export function report(figures: StormFigures): string {
  const { load, counters, faults, middle, after } = figures;
  const kinds = Object.keys(load.succeeded) as (keyof typeof load.succeeded)[];
  return [
    `${figures.client}: ${figures.seconds} s, seed ${figures.seed}, ${faults.length} faults`,
    table([
      ["operation", "succeeded", "failed"],
      ...kinds.map((kind) => [kind, load.succeeded[kind], load.failed[kind]]),
    ]),
    table([["error", "count"], ...tally(load.failures.map(({ code }) => code))]),
    table([
      ["counters", ""],
      ["acknowledged", counters.acknowledged],
      ["unknown", counters.unknown],
      ["unknown that ran", counters.ran],
      ["rejected", counters.rejected],
      ["lost by servers", counters.lost],
      ["doubled", counters.doubled],
    ]),
    `registers: ${load.registers.reads} reads judged, ${load.registers.violations.length} wrong`,
    table([["fault", "times", "errors", "of other shards", "worst recovery ms"], ...byFault(faults)]),
    `hung ${load.hung.length}, never settled ${figures.open}, slowest ${load.slowestMs.toFixed(0)} ms`,
    `memory ${mega(middle.rss)} → ${mega(after.rss)} in the second half, descriptors ${middle.descriptors} → ${after.descriptors}`,
  ].join("\n\n");
}

function byFault(faults: readonly FaultFigures[]): (string | number)[][] {
  const names = new Map<string, FaultFigures[]>();
  for (const one of faults) names.set(one.record.fault.name, [...(names.get(one.record.fault.name) ?? []), one]);
  return [...names].map(([name, all]) => [
    name,
    all.length,
    sum(all.map(({ failures }) => failures.length)),
    sum(all.map(({ strangers }) => strangers.length)),
    Math.round(Math.max(...all.map(({ recoveryMs }) => recoveryMs))),
  ]);
}
