/**
 * Builds the Rust addon in release and puts it where `src/native/load.ts` looks for it. The file appears whole or not at all:
 * it is copied beside its place and renamed, so a process that has the old one mapped keeps it. Nothing is done when neither
 * the sources nor the file have changed.
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { hashOf, isFresh, ROOT, stamp } from "./fresh.mjs";

const SOURCES = ["crates/core/src", "crates/core/Cargo.toml", "crates/addon", "Cargo.toml", "Cargo.lock"];
const FOLDER = join("dist", "native");

/** Rust's names of what Node calls `process.arch` and `process.platform`. */
const ARCHS = {
  x86_64: "x64",
  aarch64: "arm64",
  i686: "ia32",
  armv7: "arm",
  riscv64gc: "riscv64",
  powerpc64le: "ppc64",
};
const PLATFORMS = { windows: "win32" };

function fail(text) {
  process.stderr.write(`keylane: ${text}\n`);
  process.exit(1);
}

/** What a program prints; undefined when there is none, or it fails. */
function outputOf(program, args, options) {
  try {
    return execFileSync(program, args, {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      ...options,
    });
  } catch {
    return undefined;
  }
}

/** The triple cargo builds for: `CARGO_BUILD_TARGET`, or the machine's own. */
function targetTriple() {
  const host = /^host: (.+)$/m.exec(outputOf("rustc", ["-vV"]) ?? "")?.[1];
  if (host === undefined || outputOf("cargo", ["--version"]) === undefined) {
    fail("cargo was not found. Install Rust from rustup.rs, or run with the portable core.");
  }
  return process.env.CARGO_BUILD_TARGET ?? host;
}

/** `x86_64-unknown-linux-gnu` → `keylane.linux-x64-gnu.node`. */
function addonName(triple) {
  const [arch, , system, abi] = triple.split("-");
  const platform = PLATFORMS[system] ?? system;
  const parts = [platform, ARCHS[arch] ?? arch, abi].filter((part) => part !== undefined);
  return `keylane.${parts.join("-")}.node`;
}

/** Path of the library in cargo's JSON messages. */
function artifactIn(messages) {
  for (const line of messages.split("\n").toReversed()) {
    if (!line.startsWith("{")) continue;
    const message = JSON.parse(line);
    if (message.reason !== "compiler-artifact" || message.target.name !== "keylane_addon") continue;
    const file = message.filenames.find((name) => /\.(so|dylib|dll)$/.test(name));
    if (file !== undefined) return file;
  }
  return fail("cargo built no library for the addon");
}

/** A static C library cannot be loaded into Node: on musl Rust must be told to link it dynamically. */
function environmentFor(triple) {
  if (!triple.includes("musl")) return process.env;
  return { ...process.env, RUSTFLAGS: `${process.env.RUSTFLAGS ?? ""} -C target-feature=-crt-static`.trim() };
}

const triple = targetTriple();
const name = addonName(triple);
const file = join(FOLDER, name);
const hash = hashOf([...SOURCES, fileURLToPath(import.meta.url).slice(ROOT.length)], [triple]);
if (!isFresh("addon", hash)) {
  const args = ["build", "--release", "--locked", "-p", "keylane-addon", "--message-format=json-render-diagnostics"];
  const messages = outputOf("cargo", args, {
    env: environmentFor(triple),
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 1 << 26,
  });
  if (messages === undefined) fail("the native core did not build (see above)");
  mkdirSync(join(ROOT, FOLDER), { recursive: true });
  for (const left of readdirSync(join(ROOT, FOLDER)).filter((entry) => entry.startsWith(`${name}.`))) {
    rmSync(join(ROOT, FOLDER, left), { force: true });
  }
  const fresh = join(ROOT, `${file}.${process.pid}`);
  copyFileSync(artifactIn(messages), fresh);
  renameSync(fresh, join(ROOT, file));
  stamp("addon", hash, [file]);
}
