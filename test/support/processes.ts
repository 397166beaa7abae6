/** Looks at the machine's processes from outside, to prove that a program left nothing behind. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { createInterface } from "node:readline";

/** Processes that run in a folder or name it on their command line, each as `pid command`. */
export function processesIn(folder: string): string[] {
  const { stdout } = spawnSync("ps", ["-eo", "pid=,args="], { encoding: "utf8" });
  const lines = stdout.split("\n").map((line) => line.trim());
  return lines.filter((line) => {
    const pid = line.split(" ", 1)[0]!;
    return pid !== String(process.pid) && (line.includes(folder) || workingFolder(pid).startsWith(folder));
  });
}

/** True while a process runs; one that has ended and waits for its parent to notice does not. */
export function isRunning(pid: number): boolean {
  const { stdout } = spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.trim() !== "" && !stdout.trim().startsWith("Z");
}

function workingFolder(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

/** Files and folders in a folder. */
export function entriesOf(folder: string): string[] {
  return readdirSync(folder);
}

/** A node program under test. */
export interface Program {
  readonly pid: number;
  /** Its first line of output; rejects when it ends without one. */
  readonly firstLine: Promise<string>;
  /** What it wrote to standard error so far. */
  readonly errors: () => string;
  /** Exit code or signal, when it has ended. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** Sends it a signal. */
  readonly kill: (signal: NodeJS.Signals) => void;
}

/** Runs a node script with its temporary files in `folder`, and with changes to the environment. */
export function runProgram(
  script: string,
  args: readonly string[],
  folder: string,
  changes: NodeJS.ProcessEnv = {},
): Program {
  const env: NodeJS.ProcessEnv = { ...process.env, TMPDIR: folder, ...changes };
  delete env["NODE_TEST_CONTEXT"];
  const child = spawn(process.execPath, [script, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const lines = createInterface({ input: child.stdout });
  const firstLine = new Promise<string>((resolve, reject) => {
    lines.once("line", resolve);
    lines.once("close", () => reject(new Error(`${script} ended without output: ${errors}`)));
  });
  firstLine.catch(() => undefined);
  const ended = once(child, "exit").then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  return { pid: child.pid!, firstLine, errors: () => errors, ended, kill: (signal) => void child.kill(signal) };
}
