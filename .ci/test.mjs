/**
 * Runs the compiled tests: `npm test`, or `npm test -- unit/slot chaos` for the files whose path contains one of the words, and
 * `-t PATTERN` for single tests. Each file is a process of its own. Files with bounds in time (chaos) run one at a time, the others
 * two at a time; all groups count into one total, which is the last thing printed and also goes to build/test-totals.txt.
 */
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { parseArgs } from "node:util";
import { filesBelow, ROOT } from "./fresh.mjs";

const GROUPS = [
  { folders: ["unit", "property"], concurrency: 2, timeout: 300_000 },
  { folders: ["integration"], concurrency: 2, timeout: 900_000 },
  { folders: ["chaos", "package"], concurrency: 1, timeout: 900_000 },
];
const TOTALS = join(ROOT, "build", "test-totals.txt");
const COUNTS = ["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo", "duration_ms"];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { test: { type: "string", short: "t", multiple: true, default: [] } },
});
const patterns = values.test.length === 0 ? undefined : values.test;
const words = positionals.map((word) => word.replace(/^(\.\/)?(build\/)?test\//, "").replace(/(\.test)?\.[jt]s$/, ""));

function testFiles(folders) {
  const files = folders.flatMap((folder) => filesBelow(join("build", "test", folder)));
  const tests = files.filter((file) => file.endsWith(".test.js"));
  if (words.length === 0) return tests;
  return tests.filter((file) => words.some((word) => file.slice("build/test/".length).includes(word)));
}

const totals = Object.fromEntries(COUNTS.map((name) => [name, 0]));

/** The events of all groups as of one run: each group's closing counts are held back and added up. */
async function* events() {
  for (const { folders, concurrency, timeout } of GROUPS) {
    const files = testFiles(folders).map((file) => join(ROOT, file));
    if (files.length === 0) continue;
    for await (const event of run({ files, concurrency, timeout, testNamePatterns: patterns })) {
      const [name, value] = event.type === "test:diagnostic" ? event.data.message.split(" ") : [];
      const closing = event.data?.nesting === 0 && event.data.file === undefined && COUNTS.includes(name);
      if (closing) totals[name] += Number(value);
      else yield event;
    }
  }
}

function closingLines() {
  return COUNTS.map((name) => `ℹ ${name} ${name === "duration_ms" ? totals[name].toFixed(3) : totals[name]}`).join(
    "\n",
  );
}

process.chdir(ROOT);
rmSync(TOTALS, { force: true });
if (GROUPS.every(({ folders }) => testFiles(folders).length === 0)) {
  console.error(`no test file matches ${words.join(", ") || "anything: build/test is empty"}`);
  process.exit(1);
}
const reporter = typeof spec === "function" && spec.prototype !== undefined ? new spec() : spec;
for await (const text of Readable.from(events()).compose(reporter)) process.stdout.write(text);
const lines = closingLines();
if (existsSync(join(ROOT, "build"))) writeFileSync(TOTALS, `${lines}\n`);
console.log(`\n${lines}`);
process.exitCode = totals.tests > 0 && totals.fail === 0 && totals.cancelled === 0 ? 0 : 1;
