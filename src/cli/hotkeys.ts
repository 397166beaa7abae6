/**
 * `keylane hotkeys`: which keys are hot. `--server` asks the servers, each by the best way it offers: ends with 0 when every
 * primary told its keys, with 2 when some did not, and with 1 when none did. `--live` shows what the processes of a fleet tell
 * each other: ends with 2 when their source could not be heard at the end.
 */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { KeylaneError } from "../errors.js";
import { Keylane } from "../keylane.js";
import type { DomainOptions, OpenOptions } from "../options.js";
import { integer } from "./arguments.js";
import { showLive } from "./hotkeys/live.js";
import { findAtServers } from "./hotkeys/server.js";

/** How long servers that count are watched. */
const WATCH_SECONDS = 5;

interface HotkeysOptions {
  readonly server?: boolean;
  readonly live?: boolean;
  readonly source?: string;
  readonly nodes?: string;
  readonly options?: string;
  readonly domain?: string;
  readonly prefix: string;
  readonly top: number;
  readonly rate: number;
  readonly seconds?: number;
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
    .option("--live", "show the hot keys that the processes of a fleet tell each other, as they change")
    .option("--source <where>", "where they tell: redis://host:port, file:FOLDER, or the source's options as JSON")
    .option("--nodes <list>", "nodes of the cluster, or one server: host:port,…")
    .option("--options <file>", "options of Keylane.open as JSON, instead of --nodes")
    .option("--domain <name>", "the domain in these options (default: the first)")
    .option("--prefix <text>", "only keys that begin so", "")
    .option("--top <n>", "keys to show", integer(1, 10_000), 20)
    .option("--rate <n>", "keys a second that a scan looks at, per primary", integer(1, 1_000_000), 10_000)
    .option(
      "--seconds <n>",
      "how long servers that count are watched (default: 5), or how long to show (until interrupted)",
      integer(1, 86_400),
    )
    .option("--enable", "turn Valkey's tracking on where it is off, for the time of the search")
    .option("--json", "print the result as one line of JSON")
    .action(hotkeys);
}

async function hotkeys(given: HotkeysOptions): Promise<void> {
  if (given.server === true && given.live === true) {
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", "hotkeys: --server and --live exclude each other");
  }
  const abort = new AbortController();
  const interrupt = (): void => abort.abort();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, interrupt);
  const complete = await (given.live === true ? live(given, abort.signal) : server(given, abort.signal));
  if (!complete) process.exitCode = 2;
}

function live(given: HotkeysOptions, signal: AbortSignal): Promise<boolean> {
  const { source, options: file, domain, prefix, top, seconds, json = false } = given;
  const options = file === undefined ? undefined : readOptions(file);
  return showLive({ source, options, domain, prefix, top, seconds, json, signal });
}

async function server(given: HotkeysOptions, signal: AbortSignal): Promise<boolean> {
  const { domain, options } = domainOf(given);
  const lanes = await open(domain, options);
  try {
    return await findAtServers(lanes.redis(domain), { ...given, seconds: given.seconds ?? WATCH_SECONDS, signal });
  } finally {
    await lanes.close();
  }
}

function readOptions(file: string): OpenOptions {
  return JSON.parse(readFileSync(file, "utf8")) as OpenOptions;
}

/** The domain to look at: of the options' file, or one of all keys on the nodes. */
function domainOf({ nodes, options: file, domain }: HotkeysOptions): { domain: string; options: DomainOptions } {
  if (nodes !== undefined) return { domain: domain ?? "servers", options: { prefixes: [""], nodes: nodes.split(",") } };
  if (file === undefined) throw new KeylaneError("KEYLANE_ERR_OPTIONS", "hotkeys: name --nodes or --options");
  const { domains } = readOptions(file);
  const name = domain ?? Object.keys(domains)[0];
  if (name === undefined || !Object.hasOwn(domains, name)) {
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", `hotkeys: the options have no domain ${JSON.stringify(name)}`);
  }
  return { domain: name, options: domains[name]! };
}

/** Opens the domain alone; nodes that are no cluster are one server. */
async function open(name: string, domain: DomainOptions): Promise<Keylane> {
  const domains = (mode: DomainOptions): OpenOptions => ({
    domains: { [name]: { ...domain, ...mode } },
    hotKeys: false,
  });
  try {
    return await Keylane.open(domains({}));
  } catch (error) {
    if (!(error instanceof KeylaneError) || error.code !== "KEYLANE_ERR_NOT_CLUSTER") throw error;
    return Keylane.open(domains({ mode: "single" }));
  }
}
