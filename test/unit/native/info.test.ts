/** Which implementation a thread gets, that it says so, and why: built folders with the addon whole, missing or broken. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";

import { native, nativeInfo } from "#dist/native/index.js";
import type { NativeInfo } from "#dist/native/index.js";

import { portable, rust } from "./cores.js";

const built = dirname(fileURLToPath(import.meta.resolve("#dist/native/index.js")));
const scratch = mkdtempSync(join(tmpdir(), "keylane-info-"));
after(() => rmSync(scratch, { recursive: true, force: true }));

const SCRIPT = `
  const { native, nativeInfo } = await import(process.argv[1]);
  console.log(JSON.stringify({ info: nativeInfo(), kind: native.kind, slot: native.slot("foo{}{bar}") }));
`;

interface Report {
  info: NativeInfo;
  kind: string;
  slot: number;
}

/** What the built interface in `folder` says in a process of its own. */
async function reportOf(folder: string, env: Record<string, string> = {}): Promise<Report> {
  const url = pathToFileURL(join(folder, "index.js")).href;
  const args = ["--input-type=module", "--eval", SCRIPT, url];
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } });
  return JSON.parse(stdout) as Report;
}

/** A copy of the built interface with `addon` in place of the addon's bytes, or without any. */
function copyOf(name: string, addon: string | undefined): string {
  const home = join(scratch, name);
  cpSync(built, join(home, "native"), { recursive: true, filter: (path) => !path.endsWith(".node") });
  writeFileSync(join(home, "package.json"), '{ "type": "module" }');
  symlinkSync(join(built, "..", "..", "node_modules"), join(home, "node_modules"), "junction");
  for (const file of readdirSync(built)) {
    if (file.endsWith(".node") && addon !== undefined) writeFileSync(join(home, "native", file), addon);
  }
  return join(home, "native");
}

test("where the addon loads, it is the one in use", () => {
  assert.deepEqual(nativeInfo(), { kind: "rust" });
  assert.equal(native.kind, "rust");
  assert.equal(native.slot, rust.slot);
  assert.equal(portable.kind, "portable");
});

test("a worker thread gets the addon too", async () => {
  const source = `
    import { parentPort, workerData } from "node:worker_threads";
    const { native, nativeInfo } = await import(workerData);
    parentPort.postMessage({ info: nativeInfo(), kind: native.kind, slot: native.slot("foo{}{bar}") });
  `;
  const url = new URL(`data:text/javascript,${encodeURIComponent(source)}`);
  const worker = new Worker(url, { workerData: pathToFileURL(join(built, "index.js")).href });
  const report = await new Promise<Report>((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
  assert.deepEqual(report, { info: { kind: "rust" }, kind: "rust", slot: 8363 });
  await worker.terminate();
});

test("the addon can be switched off", async () => {
  const { info, kind, slot } = await reportOf(built, { KEYLANE_NATIVE: "off" });
  assert.deepEqual(info, { kind: "portable", reason: "switched off by KEYLANE_NATIVE=off" });
  assert.deepEqual([kind, slot], ["portable", 8363]);
});

test("without an addon the portable core takes over and names the platform", async () => {
  const { info, kind, slot } = await reportOf(copyOf("missing", undefined));
  assert.ok(info.kind === "portable");
  assert.ok(info.reason.includes(`${process.platform}-${process.arch}`), info.reason);
  assert.deepEqual([kind, slot], ["portable", 8363]);
});

test("a broken addon is named, and the portable core takes over", async () => {
  const { info, kind, slot } = await reportOf(copyOf("broken", "not a library"));
  assert.ok(info.kind === "portable");
  assert.match(info.reason, /^keylane\..*\.node: ./);
  assert.deepEqual([kind, slot], ["portable", 8363]);
});
