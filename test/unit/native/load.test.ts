/**
 * Finding and loading the addon: in many threads, from a thread that is ended inside a call, and where there is nothing to
 * load. Invariant: whatever is wrong becomes a reason; the process lives on.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";

import { loadAddon } from "#dist/native/load.js";

import { rust as core } from "./cores.js";

const LOAD = import.meta.resolve("#dist/native/load.js");

const WORKER = `
  import { parentPort } from "node:worker_threads";
  const { loadAddon } = await import(${JSON.stringify(LOAD)});
  const { core, reason } = loadAddon();
  if (core === undefined) throw new Error(reason);
  const router = core.createRouter({ prefixes: [{ prefix: "up:", domain: 2 }], fallback: { kind: "reject" } });
  const scanner = core.createScanner({ maxBulk: 64, maxRows: 64, maxDepth: 4, maxLine: 64 });
  const rows = new Int32Array(64);
  const work = () => [core.slot("foo"), router.route("up:1") >> 14, scanner.scan(Buffer.from("+OK\\r\\n"), 0, 5, rows)];
  parentPort.postMessage(work());
`;

function start(source: string): Worker {
  return new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`));
}

test("twenty worker threads load it, use it and end", async () => {
  const workers = Array.from({ length: 20 }, () => start(WORKER));
  const ends = workers.map((worker) => once(worker, "exit"));
  const answers = await Promise.all(workers.map((worker) => once(worker, "message")));
  for (const [answer] of answers) assert.deepEqual(answer, [12_182, 2, 1]);
  assert.deepEqual(
    (await Promise.all(ends)).flat(),
    Array.from({ length: 20 }, () => 0),
  );
  assert.equal(core.slot("foo"), 12_182);
});

test("threads that are terminated inside calls take nothing with them", async () => {
  const workers = Array.from({ length: 6 }, () => start(`${WORKER} for (;;) work();`));
  await Promise.all(workers.map((worker) => once(worker, "message")));
  await Promise.all(workers.map((worker) => worker.terminate()));
  assert.equal(core.slot("foo"), 12_182);
});

test("KEYLANE_NATIVE=off is a reason not to load it", () => {
  const before = process.env["KEYLANE_NATIVE"];
  process.env["KEYLANE_NATIVE"] = "off";
  try {
    assert.deepEqual(loadAddon(), { reason: "switched off by KEYLANE_NATIVE=off" });
  } finally {
    if (before === undefined) delete process.env["KEYLANE_NATIVE"];
    else process.env["KEYLANE_NATIVE"] = before;
  }
  assert.deepEqual(Object.keys(loadAddon()), ["core", "cache", "hits"]);
});

test("an addon that is missing, broken or of another version is a reason, not an error", () => {
  const folder = mkdtempSync(join(tmpdir(), "keylane-addon-"));
  try {
    for (const file of ["load.js", "types.js", "cache.js", "cache-types.js", "hits.js", "hits-types.js"])
      cpSync(fileURLToPath(new URL(file, LOAD)), join(folder, file));
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    const { href } = pathToFileURL(join(folder, "load.js"));
    const reasonOf = (before: string): string => {
      const script = `${before} const { loadAddon } = await import(${JSON.stringify(href)}); console.log(loadAddon().reason);`;
      return execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    };
    const target = `${process.platform}-${process.arch}`;
    assert.match(reasonOf(""), new RegExp(`^no addon for ${target} `));
    writeFileSync(join(folder, `keylane.${target}.node`), "not a library");
    assert.match(reasonOf(""), new RegExp(`^keylane\\.${target}\\.node: `));
    const stub = `import Module from "node:module";
      Module._extensions[".node"] = (module) => { module.exports = { abiVersion: () => 999 }; };`;
    assert.match(reasonOf(stub), /speaks version 999 of the interface, not \d+\n$/);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
