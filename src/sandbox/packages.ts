/** Programs on PATH, and Debian's packages that bring them. The invariant: no package's service is left running. */
import { spawn } from "node:child_process";
import { accessSync, constants, existsSync, rmSync, statSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const POLICY = "/usr/sbin/policy-rc.d";
const installs = new Map<string, Promise<void>>();

/** Path of a program, undefined when PATH has none of this name. */
export function onPath(name: string): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    const file = join(folder, name);
    if (folder !== "" && isExecutable(file)) return file;
  }
  return undefined;
}

/** Whether this process can install packages. */
export function mayInstall(): boolean {
  return process.platform === "linux" && process.getuid?.() === 0 && onPath("apt-get") !== undefined;
}

/** What a person would run. */
export function installCommand(name: string): string {
  return `apt-get install -y ${name}`;
}

/** Installs a package, once per process however often it is asked for. @throws Error with the end of apt-get's output */
export function installPackage(name: string): Promise<void> {
  const before = installs.get(name);
  if (before !== undefined) return before;
  const installing = install(name);
  installs.set(name, installing);
  return installing;
}

async function install(name: string): Promise<void> {
  process.stderr.write(`keylane: ${name} was not found, running ${installCommand(name)}\n`);
  // The package would start its service; a policy file that answers 101 ("forbidden") keeps it from doing so.
  const mine = !existsSync(POLICY);
  const forget = (): void => rmSync(POLICY, { force: true });
  if (mine) {
    writeFileSync(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
    process.once("exit", forget);
  }
  try {
    await aptGet("update");
    await aptGet("-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends", name);
  } finally {
    if (mine) {
      forget();
      process.off("exit", forget);
    }
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
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
