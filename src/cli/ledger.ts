/**
 * `keylane ledger verify`: whether a spool, the servers and their sums agree. Ends with 0 when they do, with 2 when they differ;
 * a spool or server that cannot be read ends it with 1.
 */
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { KeylaneError } from "../errors.js";
import { Keylane } from "../keylane.js";
import { verifyLedger } from "../ledger/verify.js";
import type { Book, Verification } from "../ledger/verify.js";
import { resolveOptions } from "../options.js";
import type { OpenOptions } from "../options.js";

interface VerifyOptions {
  readonly directory?: string;
  readonly nodes?: string;
  readonly options?: string;
  readonly json?: boolean;
}

/** Adds the command. */
export function registerLedger(program: Command): void {
  program
    .command("ledger")
    .description("look after the billing ledger")
    .command("verify")
    .description("compare a spool with what the servers have booked")
    .option("--directory <path>", "folder of the spool (default: the one that the options name)")
    .option("--nodes <list>", "nodes of the billing cluster, host:port,…; the prefix is rb:")
    .option("--options <file>", "options of Keylane.open as JSON, instead of --nodes")
    .option("--json", "print the result as one line of JSON")
    .action(verify);
}

async function verify({ directory, nodes, options: file, json = false }: VerifyOptions): Promise<void> {
  const given =
    file === undefined ? { domains: billing(nodes) } : (JSON.parse(readFileSync(file, "utf8")) as OpenOptions);
  const folder = directory ?? given.ledger?.directory;
  if (folder === undefined) throw new KeylaneError("KEYLANE_ERR_OPTIONS", "ledger verify: --directory is missing");
  const { ledger, ...options } = given;
  const { domain, prefix } = resolveOptions({
    ...options,
    ledger: { ...(ledger?.domain === undefined ? {} : { domain: ledger.domain }), directory: folder },
  }).ledger!;
  // Replicas may lag behind what the spool knows to be booked.
  const billed = { ...options.domains[domain]!, scaleReads: "master" } as const;
  const lanes = await Keylane.open({ ...options, domains: { [domain]: billed }, fallback: "reject" });
  try {
    const read = async (key: string): Promise<Book> => (await lanes.command("HGETALL", key)) as Book;
    const result = await verifyLedger(folder, prefix, read);
    console.log(json ? asJson(result) : asText(result, folder));
    if (result.differences.length > 0) process.exitCode = 2;
  } finally {
    await lanes.close();
  }
}

function billing(nodes: string | undefined): OpenOptions["domains"] {
  if (nodes === undefined) throw new KeylaneError("KEYLANE_ERR_OPTIONS", "ledger verify: name --nodes or --options");
  return { realtime_billing: { prefixes: ["rb:"], nodes: nodes.split(",") } };
}

function asJson(result: Verification): string {
  return JSON.stringify(result, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
}

function asText({ accounts, entries, waiting, sum, differences }: Verification, folder: string): string {
  const head = `${folder}: ${entries} entries on ${accounts} accounts, ${sum} in all, ${waiting} not booked yet`;
  if (differences.length === 0) return `${head}\nspool and servers agree`;
  const lines = differences.map(
    ({ account, what, expected, found }) => `${JSON.stringify(account)}: ${what} should be ${expected} and is ${found}`,
  );
  return `${head}\n${differences.length} differences\n${lines.join("\n")}`;
}
