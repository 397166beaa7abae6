/**
 * A report as an SVG bar chart: one panel for operations per second, one for CPU time per operation, the rows of each group
 * below each other. The invariant: every row has exactly one bar in either panel.
 *
 * ```text
 *   group a   | ops/s  ▇▇▇▇▇▇▇▇ | CPU µs/op ▇           |
 *             |        ▇▇       |           ▇▇▇▇▇▇      |
 *   group b   | …               | …                     |
 * ```
 */
import { parse, View } from "vega";
import { compile, type TopLevelSpec } from "vega-lite";
import { figure } from "./table.js";
import type { Report, Row } from "./types.js";

interface Bar {
  readonly name: string;
  readonly role: string;
  readonly value: number;
  readonly text: string;
}

const PANELS = [
  { figure: "opsPerSec", title: "operations per second (more is better)" },
  { figure: "cpuMicrosPerOp", title: "client CPU, µs per operation (less is better)" },
] as const;

const COLORS = {
  domain: ["keylane", "peer", "bound", "overhead"],
  range: ["#c2410c", "#64748b", "#a8a29e", "#d6d3d1"],
};

function panel(rows: readonly Row[], group: string, which: (typeof PANELS)[number]) {
  // Rows of the harness alone may be a hundred times the others: their bars end at the edge, their labels tell the value.
  const shown = rows.filter((row) => row.role !== "overhead");
  const most = Math.max(...(shown.length > 0 ? shown : rows).map((row) => row[which.figure]));
  const values: Bar[] = rows.map((row) => ({
    name: row.name.endsWith(`, ${group}`) ? row.name.slice(0, -group.length - 2) : row.name,
    role: row.role,
    value: row[which.figure],
    text: figure(row[which.figure]),
  }));
  return {
    title: { text: `${group}: ${which.title}`, anchor: "start" as const, fontSize: 11 },
    width: 320,
    data: { values },
    encoding: {
      y: {
        field: "name",
        type: "nominal" as const,
        sort: null,
        axis: { title: null, labelLimit: 0, ticks: false, domain: false },
      },
      x: {
        field: "value",
        type: "quantitative" as const,
        scale: { domain: [0, most], clamp: true },
        axis: { title: null, grid: false, tickCount: 4 },
      },
    },
    layer: [
      {
        mark: { type: "bar" as const },
        encoding: { color: { field: "role", type: "nominal" as const, scale: COLORS, legend: null } },
      },
      {
        mark: { type: "text" as const, align: "left" as const, dx: 3, fontSize: 10 },
        encoding: { text: { field: "text", type: "nominal" as const } },
      },
    ],
  };
}

/** The Vega-Lite specification of the chart. */
export function chartSpec(report: Report): TopLevelSpec {
  const groups = [...new Set(report.rows.map((row) => row.group))];
  return {
    title: { text: `keylane bench: ${report.suite}`, anchor: "start" },
    background: "white",
    vconcat: groups.map((group) => {
      const rows = report.rows.filter((row) => row.group === group);
      return { hconcat: PANELS.map((which) => panel(rows, group, which)) };
    }),
    config: { view: { stroke: null }, font: "sans-serif" },
  };
}

/** Draws the chart. Needs no display and no canvas. */
export async function renderChart(report: Report): Promise<string> {
  const view = new View(parse(compile(chartSpec(report)).spec), { renderer: "none" });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}
