/**
 * Tells whether a build step has to run. A step's stamp is the hash of everything it reads, kept next to the outputs; it is
 * written only after the step has succeeded, so an interrupted or failed step runs again. Times play no part: a checkout of
 * another branch and back costs nothing.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

/** The checkout. */
export const ROOT = fileURLToPath(new URL("..", import.meta.url));

const STAMPS = join(ROOT, "build", ".stamps");
const SKIPPED = new Set(["node_modules", "target", "corpus", "artifacts"]);

/** Files below a folder or file of the checkout, relative to it, in a stable order; none when it does not exist. */
export function filesBelow(path) {
  const full = join(ROOT, path);
  if (!existsSync(full)) return [];
  let entries;
  try {
    entries = readdirSync(full, { withFileTypes: true });
  } catch {
    return [path];
  }
  const files = [];
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (SKIPPED.has(entry.name)) continue;
    if (entry.isDirectory()) files.push(...filesBelow(join(path, entry.name)));
    else files.push(join(path, entry.name));
  }
  return files;
}

/** Hash of files and folders of the checkout (names and contents) and of some texts. */
export function hashOf(paths, texts = []) {
  const hash = createHash("sha256");
  for (const text of texts) hash.update(`${text}\0`);
  for (const file of paths.flatMap((path) => filesBelow(path))) {
    const bytes = readFileSync(join(ROOT, file));
    hash.update(`${file}\0${bytes.length}\0`).update(bytes);
  }
  return hash.digest("hex");
}

/**
 * True when step `name` succeeded last for this very hash and its outputs are still there.
 * @param {string} name
 * @param {string} hash
 */
export function isFresh(name, hash) {
  const file = join(STAMPS, `${name}.json`);
  if (!existsSync(file)) return false;
  try {
    const stamp = JSON.parse(readFileSync(file, "utf8"));
    return stamp.hash === hash && stamp.outputs.every((output) => existsSync(join(ROOT, output)));
  } catch {
    return false;
  }
}

/** Notes that step `name` succeeded for `hash` and left these outputs. */
export function stamp(name, hash, outputs) {
  const file = join(STAMPS, `${name}.json`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify({ hash, outputs }));
}

/**
 * Compares a folder of TypeScript with the folder it is compiled to: removes what a deleted source left behind, and gives
 * the scripts that must be there.
 */
export function pruneOutputs(source, output) {
  const sources = filesBelow(source).map((file) => relative(source, file));
  const expected = new Set(sources.map((file) => file.replace(/\.ts$/, ".js")));
  for (const file of filesBelow(output).map((path) => relative(output, path))) {
    const script = file.replace(/(\.d\.ts|\.d\.ts\.map|\.js\.map)$/, ".js");
    if (script.endsWith(".js") && !expected.has(script)) rmSync(join(ROOT, output, file), { force: true });
  }
  return sources.filter((file) => /(?<!\.d)\.ts$/.test(file)).map((file) => join(output, file.replace(/\.ts$/, ".js")));
}
