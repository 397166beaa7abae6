/**
 * Finds the server binary that sandboxes run. Order: `KEYLANE_REDIS_SERVER`, `valkey-server` or `redis-server` on PATH, and,
 * where this process may install packages, the distribution's `redis-server`, which is never left running as a service.
 */
import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, rmSync, statSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { KeylaneError } from "../errors.js";

/** A server binary and what it says it is. */
export interface ServerBinary {
  readonly path: string;
  readonly kind: "redis" | "valkey";
  /** Its version, such as `"7.0.15"`. */
  readonly version: string;
}

const INSTALL = "apt-get install -y redis-server";
const POLICY = "/usr/sbin/policy-rc.d";
const known = new Map<string, ServerBinary>();
let installing: Promise<void> | undefined;

/**
 * The server to use.
 * @throws KeylaneError `KEYLANE_ERR_SANDBOX`, naming the one command to run, when there is none.
 */
export async function findServer(): Promise<ServerBinary> {
  const chosen = process.env["KEYLANE_REDIS_SERVER"];
  if (chosen !== undefined && chosen !== "") return describe(chosen);
  const found = onPath("valkey-server") ?? onPath("redis-server");
  if (found !== undefined) return describe(found);
  if (process.platform !== "linux" || process.getuid?.() !== 0 || onPath("apt-get") === undefined) throw missing();
  installing ??= install();
  await installing;
  const installed = onPath("redis-server");
  if (installed === undefined) throw missing();
  return describe(installed);
}

/** True when the server is of this version or later; a Valkey counts as the Redis 7.2 it grew from, at least. */
export function atLeast(server: ServerBinary, major: number, minor = 0): boolean {
  const [haveMajor = 0, haveMinor = 0] = server.version.split(".").map(Number);
  return haveMajor > major || (haveMajor === major && haveMinor >= minor);
}

function missing(cause?: unknown): KeylaneError {
  const how = process.platform === "darwin" ? "brew install redis" : `sudo ${INSTALL}`;
  const text = `no valkey-server or redis-server was found; run: ${how} (or set KEYLANE_REDIS_SERVER to a server binary)`;
  return new KeylaneError("KEYLANE_ERR_SANDBOX", text, { cause });
}

function onPath(name: string): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const file = join(folder, name);
    if (folder !== "" && isExecutable(file)) return file;
  }
  return undefined;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function describe(path: string): ServerBinary {
  const before = known.get(path);
  if (before !== undefined) return before;
  const { stdout, error } = spawnSync(path, ["--version"], { encoding: "utf8", timeout: 10_000 });
  const match = /^(Redis|Valkey) server v=(\d+\.\d+\.\d+)/m.exec(stdout ?? "");
  if (match === null) {
    const text = `${path} is not a Redis or Valkey server binary: ${error?.message ?? "its --version says something else"}`;
    throw new KeylaneError("KEYLANE_ERR_SANDBOX", text, { cause: error });
  }
  const server: ServerBinary = { path, kind: match[1] === "Valkey" ? "valkey" : "redis", version: match[2]! };
  known.set(path, server);
  return server;
}

async function install(): Promise<void> {
  process.stderr.write(`keylane: no server binary found, running ${INSTALL}\n`);
  // The package would start its service; a policy file that answers 101 ("forbidden") keeps it from doing so.
  const mine = !existsSync(POLICY);
  const forget = (): void => rmSync(POLICY, { force: true });
  if (mine) {
    writeFileSync(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
    process.once("exit", forget);
  }
  try {
    await aptGet("update");
    await aptGet("-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", "redis-server");
  } catch (error) {
    throw missing(error);
  } finally {
    if (mine) {
      forget();
      process.off("exit", forget);
    }
  }
}

function aptGet(...args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    const child = spawn("apt-get", args, { env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    const keep = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-4000);
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.once("error", reject);
    child.once("close", (code) => {
      if (code === 0) resolve();
      else reject(new Error(`apt-get ${args.join(" ")} exited with ${code}:\n${output}`));
    });
  });
}
