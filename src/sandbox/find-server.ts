/**
 * Finds the server binary that sandboxes run. Order: `KEYLANE_REDIS_SERVER`, `valkey-server` or `redis-server` on PATH, and,
 * where this process may install packages, the distribution's `redis-server`, which is never left running as a service.
 */
import { spawnSync } from "node:child_process";
import { KeylaneError } from "../errors.js";
import { installCommand, installPackage, mayInstall, onPath } from "./packages.js";

/** A server binary and what it says it is. */
export interface ServerBinary {
  readonly path: string;
  readonly kind: "redis" | "valkey";
  /** Its version, such as `"7.0.15"`. */
  readonly version: string;
}

const PACKAGE = "redis-server";
const known = new Map<string, ServerBinary>();

/**
 * The server to use.
 * @throws KeylaneError `KEYLANE_ERR_SANDBOX`, naming the one command to run, when there is none.
 */
export async function findServer(): Promise<ServerBinary> {
  const chosen = process.env["KEYLANE_REDIS_SERVER"];
  if (chosen !== undefined && chosen !== "") return describe(chosen);
  const found = onPath("valkey-server") ?? onPath("redis-server");
  if (found !== undefined) return describe(found);
  if (!mayInstall()) throw missing();
  try {
    await installPackage(PACKAGE);
  } catch (error) {
    throw missing(error);
  }
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
  const how = process.platform === "darwin" ? "brew install redis" : `sudo ${installCommand(PACKAGE)}`;
  const text = `no valkey-server or redis-server was found; run: ${how} (or set KEYLANE_REDIS_SERVER to a server binary)`;
  return new KeylaneError("KEYLANE_ERR_SANDBOX", text, { cause });
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
