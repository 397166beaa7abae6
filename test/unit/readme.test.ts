/**
 * The README says what the source says: error table, option tables with their defaults, every public name. A table that is
 * out of step fails with what it should hold.
 */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { runInNewContext } from "node:vm";
import { ERRORS, Keylane } from "keylane";
import type { OpenOptions } from "keylane";
import { resolveOptions } from "#dist/options.js";

const ROOT = new URL(".", import.meta.resolve("keylane/package.json"));

function source(path: string): string {
  return readFileSync(new URL(path, ROOT), "utf8");
}

const readme = source("README.md");

/** The text between `<!-- name -->` and `<!-- /name -->`. */
function block(name: string): string {
  const [, inside] = readme.split(`<!-- ${name} -->`);
  assert.ok(inside?.includes(`<!-- /${name} -->`), `README.md has no block ${name}`);
  return inside.slice(0, inside.indexOf(`<!-- /${name} -->`)).trim();
}

/** Rows of a table, without its head; pipes inside a cell are escaped. */
function rows(table: string): string[][] {
  const lines = table.split("\n").slice(2);
  return lines.map((line) =>
    line
      .replace(/^\| | \|$/g, "")
      .split(" | ")
      .map((cell) => cell.trim()),
  );
}

/** Names of the properties declared at a depth of `indent` spaces. */
function propertiesAt(text: string, indent: number): string[] {
  const property = new RegExp(`^ {${indent}}(?:readonly )?"?([\\w:]+)"?\\??:(?: |$)`, "gm");
  return Array.from(text.matchAll(property), ([, name]) => name);
}

/** Names of an interface's own properties, in order. */
function properties(path: string, name: string): string[] {
  const [, rest] = source(path).split(new RegExp(`export interface ${name}[ <][^{]*\\{\n`));
  assert.ok(rest !== undefined, `${path} has no interface ${name}`);
  const body = rest.slice(0, rest.indexOf("\n}"));
  return propertiesAt(body, 2);
}

/** Whether the README has the name as code, alone or with what belongs to it. */
function mentions(name: string): boolean {
  const code = readme.match(/```[^]*?```|`[^`]+`/g) ?? [];
  const whole = new RegExp(`(?<![\\w-])${name}${name.endsWith("(") ? "" : "(?![\\w-])"}`);
  return code.some((text) => whole.test(text));
}

function assertMentioned(names: readonly string[]): void {
  assert.ok(names.length > 0);
  assert.deepEqual(
    names.filter((name) => !mentions(name)),
    [],
    "not in README.md",
  );
}

/** A documented default as a value of this realm. */
function valueOfCell(cell: string): unknown {
  const [, code] = /^`(.+)`$/.exec(cell) ?? [];
  assert.ok(code !== undefined, `${cell} is not a default`);
  return structuredClone(runInNewContext(`(${code})`, { commandTimeoutMs: 1000 }));
}

const NODES = ["127.0.0.1:7001"];
const bare = resolveOptions({ domains: { d: { nodes: NODES } } });
const lane = bare.lanes[0] as unknown as Record<string, unknown>;

/** The policy of a cached domain. */
function policyOf(cache: object): unknown {
  return resolveOptions({ domains: { d: { nodes: NODES, cache: { mode: "all", ...cache } } } }).policies[0];
}

/** The options of caps, resolved. */
function capsOf(caps: object): unknown {
  return resolveOptions({ domains: { d: { nodes: NODES } }, caps }).caps;
}

/** The resolved options of a ledger. */
function ledgerOf(ledger: object): unknown {
  return resolveOptions({ domains: { d: { nodes: NODES, prefixes: ["rb:"] } }, ledger: { directory: "d", ...ledger } })
    .ledger;
}

/** Rows of a table of options, which has all properties of an interface. */
function optionTable(name: string, options: string): string[][] {
  const table = rows(block(`options:${name}`));
  const named = properties("src/options.ts", options).map((property) => `\`${property}\``);
  assert.deepEqual(table.map(([cell]) => cell).toSorted(), named.toSorted());
  return table;
}

/** Asserts that `cell` tells the default of an option; `given` are options that set it to a value. */
function assertDefault(name: string, cell: string, given: (value: unknown) => OpenOptions): void {
  if (cell === "required") return;
  if (cell === "—") {
    assert.equal(lane[name], undefined, `${name} has a default`);
    return;
  }
  const value = valueOfCell(cell);
  if (name in lane) assert.deepEqual(lane[name], value, `default of ${name}`);
  assert.deepEqual(resolveOptions(given(value)), bare, `default of ${name}`);
}

describe("README", () => {
  it("has the table of errors", () => {
    const lines = Object.entries(ERRORS).map(
      ([code, { outcome, retryable, text }]) => `| \`${code}\` | ${outcome} | ${retryable ? "yes" : "no"} | ${text} |`,
    );
    assert.equal(
      block("errors"),
      ["| code | outcome | retryable | meaning |", "| --- | --- | --- | --- |", ...lines].join("\n"),
    );
  });

  it("has every option of open with its default", () => {
    const table = optionTable("open", "OpenOptions");
    for (const [cell, , value] of table) {
      const name = cell.slice(1, -1);
      assertDefault(name, value, (given) => ({ domains: { d: { nodes: NODES } }, [name]: given }));
    }
  });

  it("has every option of a domain with its default", () => {
    const table = optionTable("domain", "DomainOptions");
    for (const [cell, , value] of table) {
      const name = cell.slice(1, -1);
      assertDefault(name, value, (given) => ({ domains: { d: { nodes: NODES, [name]: given } } }));
    }
  });

  it("has every option of a domain's cache with its default", () => {
    const table = optionTable("cache", "CacheOptions");
    for (const [cell, value] of table) {
      const name = cell.slice(1, -1);
      if (name === "mode") assert.equal(bare.policies[0], null);
      else if (value === "—") assert.equal((policyOf({}) as Record<string, unknown>)[name], 0);
      else assert.deepEqual(policyOf({ [name]: valueOfCell(value) }), policyOf({}), `default of ${name}`);
    }
  });

  it("has every option of caps with its default", () => {
    const table = optionTable("caps", "CapsOptions");
    for (const [cell, value] of table) {
      const name = cell.slice(1, -1);
      if (value !== "—") assert.deepEqual(capsOf({ [name]: valueOfCell(value) }), capsOf({}), `default of ${name}`);
    }
  });

  it("has every option of the ledger with its default", () => {
    const table = optionTable("ledger", "LedgerOptions");
    for (const [cell, value] of table) {
      const name = cell.slice(1, -1);
      if (value !== "—") assert.deepEqual(ledgerOf({ [name]: valueOfCell(value) }), ledgerOf({}), `default of ${name}`);
    }
    assertMentioned(properties("src/ledger/policy.ts", "LedgerPending"));
  });

  it("has every option of hot keys with its default", () => {
    const path = "src/hotkeys/types.ts";
    const named = [...properties(path, "HotKeyRules"), ...properties(path, "HotKeysOptions")];
    const table = rows(block("options:hotKeys"));
    assert.deepEqual(table.map(([cell]) => cell).toSorted(), named.map((name) => `\`${name}\``).toSorted());
    for (const [cell, value] of table as [string, string][]) {
      if (value === "—") continue;
      const hotKeys = { [cell.slice(1, -1)]: valueOfCell(value) };
      assert.deepEqual(resolveOptions({ domains: { d: { nodes: NODES } }, hotKeys }), bare, `default of ${cell}`);
    }
    for (const name of ["HotKeyInfo", "HotKeysStats", "TopKey", "HotKeyRecoveredEvent"]) {
      assertMentioned(properties(path, name));
    }
  });

  it("has the options of calls", () => {
    for (const name of ["CallOptions", "SetOptions", "CommandOptions"]) {
      for (const option of properties("src/types.ts", name)) {
        assert.match(readme, new RegExp(`^\\| \`${option}\` \\| (every call|\`\\w+\`) \\|`, "m"), option);
      }
    }
  });

  it("has every exported name, method, field of the counters, event and channel", () => {
    const exported = Array.from(source("src/index.ts").matchAll(/\{([^}]+)\}/g), ([, list]) => list.split(","));
    assertMentioned(exported.flat().flatMap((name) => name.trim() || []));
    const members = Object.entries(Object.getOwnPropertyDescriptors(Keylane.prototype));
    const methods = members.flatMap(([name, { get }]) => (name === "constructor" || get !== undefined ? [] : [name]));
    assertMentioned([
      ...methods.map((name) => `${name}\\(`),
      "Keylane\\.open\\(",
      "Keylane\\.attach\\(",
      "asyncDispose",
    ]);
    const told = [
      "Stats",
      "CacheStats",
      "CapsStats",
      "DomainStats",
      "NodeStats",
      "CommandMessage",
      "ConnectMessage",
      "CacheMessage",
    ];
    for (const name of told) {
      assertMentioned(properties(name.endsWith("Stats") ? "src/types.ts" : "src/diagnostics.ts", name));
    }
    for (const event of properties("src/types.ts", "KeylaneEvents")) {
      assert.match(readme, new RegExp(`^\\| \`${event}\` \\|`, "m"), event);
    }
    const channels = Array.from(source("src/diagnostics.ts").matchAll(/channel\("([^"]+)"\)/g), ([, name]) => name);
    for (const channel of channels) assert.match(readme, new RegExp(`^\\| \`${channel}\` \\|`, "m"), channel);
  });

  it("has every command of the command line with its options", () => {
    const folder = new URL("src/cli/", ROOT);
    const files = readdirSync(fileURLToPath(folder)).filter((file) => file.endsWith(".ts"));
    const texts = files.map((file) => readFileSync(new URL(file, folder), "utf8"));
    const commands = texts.filter((text) => text.includes(".command("));
    assert.ok(commands.length >= 2);
    for (const text of commands) {
      const [, name] = /\.command\("([\w-]+)/.exec(text)!;
      const line = readme.split("\n").find((candidate) => candidate.startsWith(`**\`keylane ${name} `));
      assert.ok(line !== undefined, `README.md does not describe keylane ${name}`);
      for (const [, option] of text.matchAll(/\.option\(\s*"(--[\w-]+)/g)) assert.ok(line.includes(option), option);
    }
  });

  it("has the blocks that figures are written to", () => {
    for (const suite of ["lane", "cache", "phases"]) assert.ok(block(`bench:${suite}`).length > 0, suite);
  });
});
