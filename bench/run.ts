/**
 * The command `npm run bench -- <suite> [options]`: runs one suite, prints its table and goals, writes JSON and chart.
 * Ends with 1 when a value was wrong or a contestant failed; never because a goal was missed, since timing depends on the
 * machine. Ends with 2 when the command line is wrong.
 */
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { cache } from "./cache.js";
import { caps } from "./caps.js";
import type { Settings, Suite } from "./harness/suite.js";
import { hotkeys } from "./hotkeys.js";
import { lane } from "./lane.js";
import { ledger } from "./ledger.js";
import { phases } from "./phases.js";
import { pool } from "./pool.js";
import { renderChart } from "./report/chart.js";
import { withBlock } from "./report/readme.js";
import { checkReport } from "./report/stats.js";
import { renderTable } from "./report/table.js";
import type { Report } from "./report/types.js";
import { route } from "./route.js";

const SUITES: readonly Suite[] = [lane, pool, route, cache, hotkeys, caps, ledger, phases];

const USAGE = `usage: npm run bench -- <suite> [options]

  --json FILE     write the report as JSON
  --svg FILE      draw the report as a bar chart
  --readme        write the figures into README.md, between the suite's markers
  --rounds N      interleaved rounds per contestant (default 5)
  --quick         tiny rounds, to see that everything works
  --keys LIST     numbers of distinct keys for the flatness rows, smallest first
  --trace FILE    replay this trace (big-endian 32-bit object numbers, gzip or plain)
  --nodes LIST    use this cluster (host:port,…) instead of starting one; keys are written to it
  --list          print the suites and end
`;

const README = new URL("README.md", import.meta.resolve("keylane/package.json"));
const DEFAULT_KEYS = [1000, 10_000, 100_000, 1_000_000];
const QUICK_KEYS = [1000, 10_000];

class UsageError extends Error {}

function positiveInteger(text: string, option: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new UsageError(`--${option} takes whole numbers above 0, not ${text}`);
  return value;
}

function readCommandLine() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        json: { type: "string" },
        svg: { type: "string" },
        readme: { type: "boolean", default: false },
        rounds: { type: "string", default: "5" },
        quick: { type: "boolean", default: false },
        keys: { type: "string" },
        trace: { type: "string" },
        nodes: { type: "string" },
        list: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

async function main(): Promise<void> {
  const { values, positionals } = readCommandLine();
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  if (values.list) {
    for (const suite of SUITES) process.stdout.write(`${suite.name.padEnd(8)}${suite.about}\n`);
    return;
  }
  const suite = SUITES.find(({ name }) => name === positionals[0]);
  if (suite === undefined || positionals.length !== 1) {
    throw new UsageError(`name one suite: ${SUITES.map(({ name }) => name).join(", ")}`);
  }
  const settings: Settings = {
    quick: values.quick,
    rounds: positiveInteger(values.rounds, "rounds"),
    keys:
      values.keys?.split(",").map((text) => positiveInteger(text, "keys")) ??
      (values.quick ? QUICK_KEYS : DEFAULT_KEYS),
    trace: values.trace,
    nodes: values.nodes?.split(",") ?? [],
    note: (line) => process.stderr.write(`${line}\n`),
  };
  const report: Report = checkReport({ suite: suite.name, ...(await suite.run(settings)) });
  process.stdout.write(renderTable(report));
  if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify(report, null, 2)}\n`);
  if (values.readme) await writeFile(README, withBlock(await readFile(README, "utf8"), report));
  if (values.svg !== undefined) await writeFile(values.svg, await renderChart(report));
}

try {
  await main();
} catch (error) {
  const usage = error instanceof UsageError;
  process.stderr.write(usage ? `${error.message}\n\n${USAGE}` : `${(error as Error).stack}\n`);
  process.exitCode = usage ? 2 : 1;
}
