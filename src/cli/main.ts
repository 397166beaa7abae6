#!/usr/bin/env node
/**
 * The `keylane` command. One file per subcommand, each with a function that adds it; `COMMANDS` is the list. A failure that
 * keylane foresaw is told in one line, with its code; anything else with its stack.
 */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { KeylaneError } from "../errors.js";
import { registerDemo } from "./demo.js";
import { registerDev } from "./dev.js";
import { registerHotkeys } from "./hotkeys.js";
import { registerLedger } from "./ledger.js";

const COMMANDS = [registerDemo, registerDev, registerHotkeys, registerLedger];

const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
  description: string;
};
const program = new Command("keylane").description(manifest.description).version(manifest.version);
for (const register of COMMANDS) register(program);

try {
  await program.parseAsync();
} catch (error) {
  const foreseen = error instanceof KeylaneError;
  console.error(foreseen ? `keylane: ${error.message} (${error.code})` : error);
  process.exitCode = 1;
}
