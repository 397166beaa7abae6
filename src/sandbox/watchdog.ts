/**
 * The program behind `guard.ts`: `node watchdog.js FOLDER`, with a pipe from its parent as standard input. When the pipe
 * closes it kills the servers that are left and removes the folder. It never kills by name: on Linux a process is ours when
 * it runs our binary with its working folder inside FOLDER (which also finds one whose pid had not been told yet, and a
 * server's own forks); elsewhere, when a recorded pid still runs under its recorded title.
 *
 * ```text
 * binary PATH          a binary that servers are started from
 * started PID TITLE    a server runs
 * ended PID            it does not any more
 * ```
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readlinkSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";

const folder = process.argv[2]!;
const binaries = new Set<string>();
const titles = new Map<number, string>();

// Its parent's terminal and group must not take it down first; the closing pipe is its only cue.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const [event, subject = "", ...rest] = line.split(" ");
  if (event === "binary") binaries.add([subject, ...rest].join(" "));
  else if (event === "started") titles.set(Number(subject), rest.join(" "));
  else titles.delete(Number(subject));
});
lines.on("close", () => clean(20));

/** Kills and removes; again while something was found, since a server may have been starting just now. */
function clean(rounds: number): void {
  const found = process.platform === "linux" ? byFolder() : byTitle();
  for (const pid of found) kill(pid);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (rounds > 0 && (found.length > 0 || rounds === 20)) setTimeout(() => clean(rounds - 1), 50);
}

function byFolder(): number[] {
  const found: number[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || !link(name, "cwd").startsWith(`${folder}/`)) continue;
    if (binaries.has(link(name, "exe"))) found.push(Number(name));
  }
  return found;
}

function link(pid: string, what: "cwd" | "exe"): string {
  try {
    return readlinkSync(`/proc/${pid}/${what}`);
  } catch {
    return ""; // ended meanwhile, or another user's
  }
}

function byTitle(): number[] {
  const found: number[] = [];
  for (const [pid, title] of titles) {
    const { stdout } = spawnSync("ps", ["-o", "command=", "-p", String(pid)], { encoding: "utf8" });
    if ((stdout ?? "").includes(title)) found.push(pid);
  }
  return found;
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}
