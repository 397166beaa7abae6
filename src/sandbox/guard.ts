/**
 * Sees to it that no server and no file outlives the process that asked for it. Everything a sandbox makes lives under one
 * temporary folder of this process, and a watchdog process holds the other end of a pipe: when the pipe closes, for
 * whatever reason (a normal end, an uncaught exception, a signal, kill -9), it kills the servers that run in that folder
 * and removes it. No signal handlers are installed, so the program's own stay in charge.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Servers that run, each with what the watchdog is told about it. */
const servers = new Map<ChildProcess, string>();
let home: string | undefined;
let watchdog: ChildProcess | undefined;
let holders = 0;
let folders = 0;
let replacements = 0;

/** Opens the guard for one sandbox; balance with `release`. Gives a new folder for it. */
export function acquire(): string {
  if (home === undefined) {
    home = mkdtempSync(join(realpathSync(tmpdir()), "keylane-"));
    process.on("exit", cleanNow);
  }
  if (watchdog === undefined) watch(home);
  holders++;
  const folder = join(home, String(++folders));
  mkdirSync(folder);
  return folder;
}

/** Removes a sandbox's folder; the last one out dismisses the watchdog. Its servers must have ended. */
export function release(folder: string): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (--holders > 0 || home === undefined) return;
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  home = undefined;
  process.off("exit", cleanNow);
  const dismissed = watchdog;
  watchdog = undefined;
  dismissed?.stdin?.end();
}

/**
 * Starts a server under guard: `binary`, with `folder` (inside one that `acquire` gave) as its working folder. `title` is a
 * part of its command line, to know it by. It is in a process group of its own, out of the terminal's reach, and does not
 * keep this process alive.
 */
export function spawnGuarded(binary: string, args: string[], folder: string, title: string): ChildProcess {
  tell(`binary ${realpathSync(binary)}`);
  const server = spawn(binary, args, { cwd: folder, detached: true, stdio: "ignore" });
  server.unref();
  server.once("error", () => servers.delete(server));
  if (server.pid === undefined) return server;
  const line = `started ${server.pid} ${title}`;
  servers.set(server, line);
  tell(line);
  server.once("exit", () => {
    servers.delete(server);
    tell(`ended ${server.pid}`);
  });
  return server;
}

function tell(line: string): void {
  watchdog?.stdin?.write(`${line}\n`);
}

function watch(folder: string): void {
  const program = fileURLToPath(new URL("./watchdog.js", import.meta.url));
  const env = { PATH: process.env["PATH"] };
  const child = spawn(process.execPath, [program, folder], {
    detached: true,
    env,
    stdio: ["pipe", "ignore", "ignore"],
  });
  watchdog = child;
  child.unref();
  child.stdin.on("error", () => undefined);
  (child.stdin as unknown as { unref(): void }).unref();
  for (const [server, line] of servers) {
    tell(`binary ${realpathSync(server.spawnfile)}`);
    tell(line);
  }
  const gone = (): void => {
    if (watchdog !== child) return;
    watchdog = undefined;
    if (home !== undefined && replacements++ < 8) watch(home);
  };
  child.once("error", gone);
  child.once("exit", gone);
}

/** At a normal end: at once, before the watchdog looks. */
function cleanNow(): void {
  for (const server of servers.keys()) server.kill("SIGKILL");
  if (home !== undefined) rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
