/**
 * `keylane hotkeys`: which keys are hot. `--server` asks the servers, each by the best way it offers. Ends with 0 when every
 * primary told its keys, with 2 when some did not, and with 1 when none did.
 */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { KeylaneError } from "../errors.js";
import { Keylane } from "../keylane.js";
import type { DomainOptions, OpenOptions } from "../options.js";
import { integer } from "./arguments.js";
import { findAtServers } from "./hotkeys/server.js";

interface HotkeysOptions {
  readonly nodes?: string;
  readonly options?: string;
  readonly domain?: string;
  readonly prefix: string;
  readonly top: number;
  readonly rate: number;
  readonly seconds: number;
  readonly enable?: boolean;
  readonly json?: boolean;
}

/** Adds the command. */
export function registerHotkeys(program: Command): void {
  program
    .command("hotkeys")
    .description("find the hot keys of a cluster")
    .option(
      "--server",
      "ask the servers (the default): HOTKEYS, else OBJECT FREQ of all keys; CLUSTER SLOT-STATS beside",
    )
    .option("--nodes <list>", "nodes of the cluster, or one server: host:port,…")
    .option("--options <file>", "options of Keylane.open as JSON, instead of --nodes")
    .option("--domain <name>", "the domain in these options (default: the first)")
    .option("--prefix <text>", "only keys that begin so", "")
    .option("--top <n>", "keys to show", integer(1, 10_000), 20)
    .option("--rate <n>", "keys a second that a scan looks at, per primary", integer(1, 1_000_000), 10_000)
    .option("--seconds <n>", "how long servers that count are watched", integer(1, 3600), 5)
    .option("--enable", "turn Valkey's tracking on where it is off, for the time of the search")
    .option("--json", "print the result as one line of JSON")
    .action(hotkeys);
}

async function hotkeys(given: HotkeysOptions): Promise<void> {
  const { domain, options } = domainOf(given);
  const lanes = await open(domain, options);
  const abort = new AbortController();
  const interrupt = (): void => abort.abort();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, interrupt);
  try {
    const complete = await findAtServers(lanes.redis(domain), { ...given, signal: abort.signal });
    if (!complete) process.exitCode = 2;
  } finally {
    await lanes.close();
  }
}

/** The domain to look at: of the options' file, or one of all keys on the nodes. */
function domainOf({ nodes, options: file, domain }: HotkeysOptions): { domain: string; options: DomainOptions } {
  if (nodes !== undefined) return { domain: domain ?? "servers", options: { prefixes: [""], nodes: nodes.split(",") } };
  if (file === undefined) throw new KeylaneError("KEYLANE_ERR_OPTIONS", "hotkeys: name --nodes or --options");
  const { domains } = JSON.parse(readFileSync(file, "utf8")) as OpenOptions;
  const name = domain ?? Object.keys(domains)[0];
  if (name === undefined || !Object.hasOwn(domains, name)) {
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", `hotkeys: the options have no domain ${JSON.stringify(name)}`);
  }
  return { domain: name, options: domains[name]! };
}

/** Opens the domain alone; nodes that are no cluster are one server. */
async function open(name: string, domain: DomainOptions): Promise<Keylane> {
  const domains = (mode: DomainOptions): OpenOptions => ({ domains: { [name]: { ...domain, ...mode } } });
  try {
    return await Keylane.open(domains({}));
  } catch (error) {
    if (!(error instanceof KeylaneError) || error.code !== "KEYLANE_ERR_NOT_CLUSTER") throw error;
    return Keylane.open(domains({ mode: "single" }));
  }
}
