/** Every code of the error table is reached by a test, and every code that a test or source names is in the table. */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { ERRORS } from "keylane";

const ROOT = fileURLToPath(new URL("../", import.meta.resolve("keylane")));
/** Codes that no test can reach, and why. */
const UNREACHABLE: ReadonlyMap<string, string> = new Map([
  ["KEYLANE_ERR_INTERNAL", "it tells a broken invariant of keylane itself, and nothing is known to break one"],
]);
/** These look at the table itself, so what they name is not reached by a call. */
const ABOUT_THE_TABLE = /^unit\/(errors|codes|lane\/refusal)\.test\.ts$|^types\//;

/** Code → files under `folder` that name it in quotes. */
function namedIn(folder: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const entry of readdirSync(join(ROOT, folder), { recursive: true }) as string[]) {
    const file = entry.replaceAll("\\", "/");
    if (!file.endsWith(".ts")) continue;
    const text = readFileSync(join(ROOT, folder, entry), "utf8");
    for (const [, code] of text.matchAll(/["'](KEYLANE_ERR_[A-Z_]+)["']/g)) {
      const files = found.get(code!) ?? [];
      if (!files.includes(file)) files.push(file);
      found.set(code!, files);
    }
  }
  return found;
}

test("every code of the table is reached by a test, or it is said why not", () => {
  const tests = namedIn("test");
  for (const code of Object.keys(ERRORS)) {
    const files = (tests.get(code) ?? []).filter((file) => !ABOUT_THE_TABLE.test(file));
    if (UNREACHABLE.has(code)) assert.deepEqual(files, [], `${code} is reached after all`);
    else assert.notDeepEqual(files, [], `no test reaches ${code}`);
  }
});

test("no source or test names a code that is not in the table", () => {
  const known = new Set(Object.keys(ERRORS));
  for (const folder of ["src", "test"]) {
    for (const [code, files] of namedIn(folder)) {
      if (folder === "test" && files.every((file) => ABOUT_THE_TABLE.test(file))) continue;
      assert.ok(known.has(code), `${code} in ${files.join(", ")}`);
    }
  }
});
