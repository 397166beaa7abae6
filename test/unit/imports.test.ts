/**
 * Imports flow one way, as the layers are stacked, and each outside package has one owner. The rules are checked on every
 * TypeScript source of the repository, and the checker itself on sources made to break each rule.
 */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, posix, relative, resolve, sep } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { importsOf, tokenize } from "./source-imports.js";
import type { Import } from "./source-imports.js";

/** Folders (or root modules) of src, from the lowest layer to the highest; those of one layer do not import each other. */
const LAYERS: readonly (readonly string[])[] = [
  ["native"],
  ["shared"],
  ["routing"],
  ["lane"],
  ["pool"],
  ["cache"],
  ["hotkeys", "caps", "ledger", "migrate", "health"],
  ["impressions"],
  ["keylane"],
  ["cli", "gateway"],
];
/**
 * Root modules that any module may import. They load nothing but each other and packages; what they name of the layers is
 * types, which the compiler erases.
 */
const LEAVES = new Set(["errors", "options", "types", "diagnostics"]);
/** Folders beside the layers: they import leaves only, and those named here may import them. */
const ASIDE: ReadonlyMap<string, readonly string[]> = new Map([
  ["sandbox", ["cli"]],
  ["metrics", ["health", "keylane", "gateway", "cli"]],
]);
/** Package → the folder of src that may load it. Leaves may name its types, which loads nothing. */
const OWNERS: ReadonlyMap<string, string> = new Map([
  ["ioredis", "lane"],
  ["@ioredis/commands", "lane"],
  ["piscina", "pool"],
  ["cluster-key-slot", "native"],
  ["@node-rs/xxhash", "native"],
]);
const ADDON_LOADER = "src/native/load.ts";

/** Path from the repository's root, with forward slashes → source text. */
type Sources = ReadonlyMap<string, string>;

/** What is wrong with a set of sources, one line a finding. */
function violationsOf(sources: Sources): string[] {
  const found: string[] = [];
  const graph = new Map<string, string[]>();
  for (const [file, text] of sources) {
    const edges: string[] = [];
    for (const one of importsOf(text)) {
      const target = targetOf(file, one.from, sources);
      if (target !== undefined && !one.typeOnly) edges.push(target);
      const wrong = file.startsWith("src/") ? wrongInSrc(file, one, target) : wrongOutside(file, one);
      if (wrong !== undefined) found.push(`${file} imports ${one.from}: ${wrong}`);
    }
    graph.set(file, edges);
    if (file.startsWith("src/") && file !== ADDON_LOADER && namesAddon(text)) {
      found.push(`${file} loads native code: only ${ADDON_LOADER} may`);
    }
  }
  return [...found, ...cyclesOf(graph)];
}

/** The source a relative import means, by its path from the root. */
function targetOf(file: string, from: string | undefined, sources: Sources): string | undefined {
  if (from === undefined || !from.startsWith(".")) return undefined;
  const path = posix.join(posix.dirname(file), from).replace(/\.js$/, ".ts");
  return sources.has(path) ? path : undefined;
}

/** `src/lane/node.ts` → `lane`, `src/keylane.ts` → `keylane`. */
const unitOf = (file: string): string => file.split("/")[1].replace(/\.ts$/, "");
const layerOf = (unit: string): number => LAYERS.findIndex((layer) => layer.includes(unit));

function wrongInSrc(file: string, { from, typeOnly }: Import, target: string | undefined): string | undefined {
  const unit = unitOf(file);
  if (from === undefined) return file === ADDON_LOADER ? undefined : "the module must be named by a string";
  if (!from.startsWith(".")) return wrongPackage(unit, from, typeOnly);
  if (target === undefined) return "there is no such source in the repository";
  if (!target.startsWith("src/")) return "it is outside src";
  const other = unitOf(target);
  if (other === unit || unit === "index" || LEAVES.has(other)) return undefined;
  if (other === "index") return "index.ts is for users of the package";
  if (LEAVES.has(unit)) return typeOnly ? undefined : "a leaf loads leaves only";
  if (ASIDE.has(unit)) return `${unit} imports leaves only`;
  if (ASIDE.has(other)) return ASIDE.get(other)!.includes(unit) ? undefined : `${unit} may not use ${other}`;
  if (layerOf(unit) < 0) return `${unit} has no place among the layers`;
  if (layerOf(other) < 0) return `${other} has no place among the layers`;
  return layerOf(other) < layerOf(unit) ? undefined : `${other} is not below ${unit}`;
}

function wrongPackage(unit: string, from: string, typeOnly: boolean): string | undefined {
  if (from === "keylane" || from.startsWith("keylane/") || from.startsWith("#")) return "src does not import itself";
  const name = from.split("/", from.startsWith("@") ? 2 : 1).join("/");
  const owner = OWNERS.get(name);
  if (owner === undefined || owner === unit || (typeOnly && LEAVES.has(unit))) return undefined;
  return `only ${owner} loads ${name}`;
}

/** Tests and benchmarks see the built package, its built internals, and their own folder. */
function wrongOutside(file: string, { from }: Import): string | undefined {
  if (from === undefined) return undefined;
  if (from.startsWith("#bench/"))
    return file.startsWith("test/unit/bench/") ? undefined : "only its own tests see bench";
  if (from.startsWith("#")) return from.startsWith("#dist/") ? undefined : "only #dist/… is mapped";
  if (!from.startsWith(".")) return undefined;
  const home = file.split("/")[0];
  return posix.join(posix.dirname(file), from).startsWith(`${home}/`) ? undefined : `it is outside ${home}`;
}

/** Whether a source names an addon file or a way to load one. */
function namesAddon(text: string): boolean {
  return tokenize(text).some(
    ({ kind, text }) =>
      (kind === "string" && text.endsWith(".node")) || (kind === "word" && ["createRequire", "dlopen"].includes(text)),
  );
}

/** Cycles of what is loaded at run time, as paths around them. */
function cyclesOf(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const path: string[] = [];
  const visit = (file: string): void => {
    const start = path.indexOf(file);
    if (start >= 0) found.push(`cycle: ${[...path.slice(start), file].join(" → ")}`);
    if (start >= 0 || done.has(file)) return;
    path.push(file);
    for (const next of graph.get(file) ?? []) visit(next);
    path.pop();
    done.add(file);
  };
  for (const file of graph.keys()) visit(file);
  return found;
}

/** The repository: the nearest folder upwards that holds package.json. */
function rootOf(start: string): string {
  return readdirSync(start).includes("package.json") ? start : rootOf(dirname(start));
}

function readSources(): Sources {
  const root = rootOf(resolve(dirname(fileURLToPath(import.meta.url))));
  const sources = new Map<string, string>();
  for (const folder of ["src", "test", "bench"]) {
    for (const entry of readdirSync(join(root, folder), { recursive: true, withFileTypes: true })) {
      if (!entry.isFile() || !entry.name.endsWith(".ts")) continue;
      const path = join(entry.parentPath, entry.name);
      sources.set(relative(root, path).split(sep).join("/"), readFileSync(path, "utf8"));
    }
  }
  return sources;
}

test("imports flow one way and each package has one owner", () => {
  const sources = readSources();
  assert.ok(sources.has("src/native/types.ts") && sources.has("test/unit/imports.test.ts"));
  assert.deepEqual(violationsOf(sources), []);
});

test("the checker sees each kind of violation, and nothing in sound sources", () => {
  const sound: [string, string][] = [
    ["src/errors.ts", "export const a = 1;"],
    ["src/types.ts", 'import type { Redis } from "ioredis";\nimport { a } from "./errors.js";'],
    ["src/options.ts", 'import type { C } from "./lane/lane.js";'],
    ["src/index.ts", 'export * from "./errors.js";\nexport { c } from "./lane/lane.js";'],
    ["src/native/types.ts", 'import { a } from "../errors.js";'],
    ["src/native/load.ts", 'import { createRequire } from "node:module";\ncreateRequire(import.meta.url)("./x.node");'],
    [
      "src/lane/lane.ts",
      'import { Redis } from "ioredis";\nimport type { N } from "../native/types.js";\nimport type { D } from "./node.js";',
    ],
    ["src/lane/node.ts", 'import { c } from "./lane.js";\nthis.node = `${c.node}`;'],
    ["src/caps/caps.ts", 'import { c } from "../lane/node.js";'],
    ["src/cli/main.ts", 'import { s } from "../sandbox/index.js";\nconst x = await import("../caps/caps.js");'],
    ["src/sandbox/index.ts", 'import { a } from "../errors.js";'],
    [
      "test/unit/a.test.ts",
      'import { b } from "./b.js";\nimport "keylane";\nimport { n } from "#dist/native/load.js";',
    ],
    ["test/unit/b.ts", "export const b = 1;"],
    ["test/unit/bench/c.test.ts", 'import { c } from "#bench/report/stats.js";'],
  ];
  assert.deepEqual(violationsOf(new Map(sound)), []);

  const planted: [string, string, RegExp][] = [
    ["src/native/x.ts", 'import { c } from "../lane/lane.js";', /lane is not below native/],
    ["src/native/x.ts", 'export {\n  c,\n} from "../lane/lane.js";', /lane is not below native/],
    ["src/native/x.ts", 'import type { C } from "../lane/lane.js";', /lane is not below native/],
    ["src/native/x.ts", 'type C = import("../lane/lane.js").C;', /lane is not below native/],
    ["src/native/x.ts", 'import "../lane/lane.js";', /lane is not below native/],
    ["src/native/x.ts", 'const t = `${await import("../lane/lane.js")}`;', /lane is not below native/],
    ["src/native/x.ts", 'const r = /["\'`/]/; import { c } from "../lane/lane.js";', /lane is not below native/],
    ["src/health/x.ts", 'import { k } from "../caps/caps.js";', /caps is not below health/],
    ["src/lane/x.ts", 'import { s } from "../sandbox/index.js";', /lane may not use sandbox/],
    ["src/sandbox/x.ts", 'import { c } from "../lane/lane.js";', /sandbox imports leaves only/],
    ["src/diagnostics.ts", 'import { c } from "./lane/lane.js";', /a leaf loads leaves only/],
    ["src/lane/x.ts", 'import { c } from "../index.js";', /index\.ts is for users/],
    ["src/lane/x.ts", 'import { c } from "keylane";', /does not import itself/],
    ["src/lane/x.ts", 'import { c } from "./missing.js";', /no such source/],
    ["src/lane/x.ts", "await import(name);", /named by a string/],
    ["src/attic/x.ts", 'import { c } from "../lane/lane.js";', /attic has no place/],
    ["src/sandbox/x.ts", 'import { Redis } from "ioredis";', /only lane loads ioredis/],
    ["src/sandbox/x.ts", 'import { x } from "@ioredis/commands/built";', /only lane loads @ioredis\/commands/],
    ["src/sandbox/x.ts", 'import type { Redis } from "ioredis";', /only lane loads ioredis/],
    ["src/options.ts", 'import { Redis } from "ioredis";', /only lane loads ioredis/],
    ["src/lane/x.ts", 'const p = require("piscina");', /only pool loads piscina/],
    ["src/native/index.ts", 'const file = "./keylane.node";', /loads native code/],
    ["src/lane/x.ts", 'import { createRequire } from "node:module";', /loads native code/],
    ["test/unit/x.ts", 'import { c } from "../../src/lane/lane.js";', /outside test/],
    ["bench/x.ts", 'import { b } from "../test/unit/b.js";', /outside bench/],
    ["bench/x.ts", 'import { b } from "#src/lane.js";', /only #dist/],
    ["test/unit/x.ts", 'import { b } from "#bench/report/stats.js";', /only its own tests see bench/],
    [
      "src/lane/lane.ts",
      'import { d } from "./node.js";',
      /cycle: src\/lane\/lane\.ts → src\/lane\/node\.ts → src\/lane\/lane\.ts/,
    ],
  ];
  for (const [file, text, expected] of planted) {
    const found = violationsOf(new Map([...sound, [file, text]]));
    assert.equal(found.length, 1, `${text}: ${found.join("; ")}`);
    assert.match(found[0], expected);
  }
});

test("what only looks like an import is none", () => {
  const source = [
    '// import { a } from "a";',
    '/* import { b } from "b"; */',
    "/**",
    ' * import { c } from "c";',
    " */",
    "const text = 'import { d } from \"d\";';",
    'const lines = `\nimport { e } from "e";\n${"import(\'f\')"}`;',
    'const regex = /import { g } from "g"/;',
    "const here = import.meta.url;",
    "const x = { import: 1, from: 2 }.import;",
    "export const from = 1;",
    'export function h() { return "h"; }',
    'export type I = "i";',
    'const half = 1 / 2; const j = "j"; // /',
  ].join("\n");
  assert.deepEqual(importsOf(source), []);
});

const value = (from: string | undefined): Import => ({ from, typeOnly: false });
const type = (from: string): Import => ({ from, typeOnly: true });

test("every form of import is read", () => {
  const source = [
    'import a from "a";',
    'import * as b from "b";',
    'import c, { type d } from "c";',
    'import {\n  e, // it\'s here\n  f as g,\n} from "e";',
    'import "h";',
    'import type { i } from "i";',
    'import type j from "j";',
    'import type from "k";',
    'export * from "l";',
    'export * as m from "m";',
    'export { n } from "n";',
    'export type { o } from "o";',
    'const p = await import("p");',
    'const q = require("q");',
    'import r = require("r");',
    "const s = await import(`./${name}.js`);",
    'import t from "t" with { type: "json" };',
  ].join("\n");
  assert.deepEqual(importsOf(source), [
    ...["a", "b", "c", "e", "h"].map(value),
    type("i"),
    type("j"),
    value("k"),
    ...["l", "m", "n"].map(value),
    type("o"),
    ...["p", "q", "r"].map(value),
    value(undefined),
    value("t"),
  ]);
});
