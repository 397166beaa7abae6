/**
 * `keylane dev`: three domain clusters on free loopback ports, for as long as the command runs. What it prints is meant to be
 * pasted: the options object that opens them.
 */
import type { Command } from "commander";
import { type SandboxTriple, startTriple } from "../sandbox/index.js";
import { integer } from "./arguments.js";

interface DevOptions {
  readonly primaries: number;
  readonly replicas: number;
  readonly json?: boolean;
}

/** Adds the command. */
export function registerDev(program: Command): void {
  program
    .command("dev")
    .description("start three local clusters (user_profile, freq_control, realtime_billing) until interrupted")
    .option("--primaries <n>", "primaries per cluster", integer(1, 20), 3)
    .option("--replicas <n>", "replicas per primary", integer(0, 5), 1)
    .option("--json", "print the options as one line of JSON and nothing else")
    .action(dev);
}

async function dev({ primaries, replicas, json = false }: DevOptions): Promise<void> {
  const leave = signalled();
  const began = performance.now();
  const triple = await Promise.race([startTriple({ primaries, replicas }), leave]);
  // Interrupted while starting: the sandbox's watchdog clears up after the exit.
  if (triple === undefined) return process.exit(0);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  if (json) console.log(JSON.stringify(openOptions(triple)));
  else console.log(announcement(triple, primaries, replicas, seconds));
  // A pending promise alone does not keep the process alive.
  const alive = setInterval(() => undefined, 1 << 30);
  await leave;
  clearInterval(alive);
  await triple.stop();
}

/**
 * Resolves at the first signal that asks the process to end. Ctrl-C under `npm run` arrives twice at once, from the terminal
 * and from npm; only a later one ends the process on the spot (and leaves the rest to the sandbox's watchdog).
 */
function signalled(): Promise<undefined> {
  let first: number | undefined;
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(signal, () => {
        first ??= performance.now();
        if (performance.now() - first > 500) process.exit(1);
        resolve(undefined);
      });
    }
  });
}

function openOptions(triple: SandboxTriple): object {
  return { domains: triple.domains, fallback: { hash: Object.keys(triple.domains) } };
}

function announcement(triple: SandboxTriple, primaries: number, replicas: number, seconds: string): string {
  const { kind, version } = triple.user_profile.binary;
  const nodes = `${count(primaries, "primary", "primaries")} and ${count(primaries * replicas, "replica", "replicas")}`;
  const domains = Object.entries(triple.domains).map(([name, { prefixes, nodes: seeds }]) => {
    return `    ${name}: { prefixes: ${JSON.stringify(prefixes)}, nodes: ${JSON.stringify(seeds).replaceAll(",", ", ")} },`;
  });
  return [
    `keylane dev: three ${kind} ${version} clusters of ${nodes} each, ready in ${seconds} s. Ctrl-C ends them.`,
    "",
    'import { Keylane } from "keylane";',
    "const lanes = await Keylane.open({",
    "  domains: {",
    ...domains,
    "  },",
    `  fallback: { hash: ${JSON.stringify(Object.keys(triple.domains)).replaceAll(",", ", ")} },`,
    "});",
  ].join("\n");
}

function count(n: number, one: string, many: string): string {
  return `${n} ${n === 1 ? one : many}`;
}
