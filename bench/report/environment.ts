/**
 * Where and with what a suite ran: the machine, Node and the versions of all contestants, read from what is installed.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg, totalmem } from "node:os";
import { dirname, join } from "node:path";
import type { Environment } from "./types.js";

const require = createRequire(import.meta.url);

/** Version of an installed package: the nearest package.json of that name above its entry point. */
export function versionOf(name: string): string {
  for (let at = dirname(require.resolve(name)); at !== dirname(at); at = dirname(at)) {
    let text: string;
    try {
      text = readFileSync(join(at, "package.json"), "utf8");
    } catch {
      continue;
    }
    const found = JSON.parse(text) as { name?: string; version?: string };
    if (found.name === name && found.version !== undefined) return found.version;
  }
  throw new Error(`the version of ${name} is not known`);
}

/** Describes this machine; `packages` are the contestants. */
export function describeEnvironment(packages: readonly string[], settings: Environment["settings"]): Environment {
  const processors = cpus();
  return {
    date: new Date().toISOString(),
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    cpu: processors[0]?.model.trim() ?? "unknown processor",
    cores: processors.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    load: loadavg()[0],
    settings,
    versions: Object.fromEntries(packages.map((name) => [name, versionOf(name)])),
  };
}
