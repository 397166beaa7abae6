/**
 * A report as a block of the README, between `<!-- bench:<suite> -->` and `<!-- /bench:<suite> -->`: where it was measured, a
 * table for each condition in which peers were compared, and the ratios that have a goal; and what else the suite wants told.
 * What stands between the markers is replaced as a whole, so figures are never edited by hand.
 */
import { bound, figure } from "./table.js";
import type { Report, Row } from "./types.js";

const HEADINGS = ["ops/s", "CPU µs/op", "p50 ms", "p99 ms"];

/** `text` with the block of the report's suite made anew. Throws when it has none. */
export function withBlock(text: string, report: Report): string {
  const [open, close] = [`<!-- bench:${report.suite} -->`, `<!-- /bench:${report.suite} -->`];
  const [from, to] = [text.indexOf(open), text.indexOf(close)];
  if (from === -1 || to < from) throw new Error(`the text has no ${open} … ${close}`);
  return `${text.slice(0, from + open.length)}\n\n${blockOf(report)}\n\n${text.slice(to)}`;
}

/** The lines between the markers. */
export function blockOf({ suite, environment, rows, ratios, goals, told = [] }: Report): string {
  const { cores, node, settings, date } = environment;
  const server = "server" in settings ? `, ${settings["server"]}` : "";
  const rounds = rows[0]?.rounds ?? 0;
  const out = [
    `Medians of ${rounds} interleaved rounds, every value compared; ${cores} cores, Node.js ${node}${server}, ${date.slice(0, 10)}.`,
    `\`npm run bench -- ${suite} --readme\` makes it anew.`,
  ];
  for (const group of new Set(rows.map((row) => row.group))) {
    const members = rows.filter((row) => row.group === group);
    if (told.includes(group) || members.some(({ role }) => role === "peer")) out.push("", ...tableOf(group, members));
  }
  const extra = told.filter((what) => what in ratios);
  if (extra.length > 0) {
    out.push("", "| ratio | value | goal |", "| --- | ---: | ---: |");
    for (const goal of goals) out.push(line([goal.ratio, figure(goal.value), bound(goal)]));
    for (const ratio of extra) out.push(line([ratio, figure(ratios[ratio] ?? Number.NaN), "—"]));
  } else if (goals.length > 0) {
    out.push("", "| ratio | value |", "| --- | ---: |");
    for (const { ratio } of goals) out.push(line([ratio, figure(ratios[ratio] ?? Number.NaN)]));
  }
  return out.join("\n");
}

function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

function tableOf(group: string, rows: readonly Row[]): string[] {
  const own = [...new Set(rows.flatMap(({ more }) => Object.keys(more ?? {})))];
  return [
    line([group, ...HEADINGS, ...own]),
    line(["---", ...[...HEADINGS, ...own].map(() => "---:")]),
    ...rows.map((row) => {
      const figures = [row.opsPerSec, row.cpuMicrosPerOp, row.p50Ms, row.p99Ms].map(figure);
      const others = own.map((what) => {
        const value = row.more?.[what];
        return value === undefined ? "" : figure(value);
      });
      return line([row.name, ...figures, ...others]);
    }),
  ];
}
