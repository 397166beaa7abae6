/**
 * Makes a checkout ready, from whatever state it is in: packages, native core, TypeScript, assets, and with `--tests` also the
 * compiled tests and benchmarks and a server binary. `npm run demo` and `npm test` begin with it, so either can be the first
 * command typed after a clone. Each step runs only when what it reads has changed, says so in one line, and is silent otherwise.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import { copyAssets } from "./copy-assets.mjs";
import { filesBelow, hashOf, isFresh, pruneOutputs, ROOT, stamp } from "./fresh.mjs";
import { locked } from "./lock.mjs";

const NODE = [20, 19];
const CRATES = [
  "crates/core/src",
  "crates/core/Cargo.toml",
  "crates/addon",
  "Cargo.toml",
  "Cargo.lock",
  "rust-toolchain.toml",
  ".cargo",
  ".ci/build-native.mjs",
];
const forTests = process.argv.includes("--tests");

function say(text) {
  process.stderr.write(`keylane: ${text}\n`);
}

function fail(text) {
  say(text);
  process.exit(1);
}

/** Runs a program in the checkout; its output is the user's to see, on standard error. */
function run(program, args, env = process.env) {
  const { status, error } = spawnSync(program, args, { cwd: ROOT, env, stdio: ["ignore", 2, 2] });
  return error === undefined && status === 0;
}

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major < NODE[0] || (major === NODE[0] && minor < NODE[1])) {
    fail(`Node.js ${NODE.join(".")} or later is needed, this is ${process.versions.node}`);
  }
}

/** Compares the lock file with npm's own record of what it installed, package by package. */
function packagesInstalled() {
  const record = join(ROOT, "node_modules", ".package-lock.json");
  if (!existsSync(record)) return false;
  const wanted = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")).packages;
  const present = JSON.parse(readFileSync(record, "utf8")).packages;
  const same = (path) =>
    wanted[path]?.version === present[path].version && wanted[path].integrity === present[path].integrity;
  if (!Object.keys(present).every(same)) return false;
  return Object.keys(wanted).every((path) => {
    const { optional = false, devOptional = false } = wanted[path];
    return path === "" || optional || devOptional || (present[path] !== undefined && existsSync(join(ROOT, path)));
  });
}

function installPackages() {
  if (packagesInstalled()) return;
  say("installing packages (npm ci)");
  const npm = process.env.npm_execpath;
  const args = ["ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"];
  const done = npm?.endsWith("npm-cli.js") ? run(process.execPath, [npm, ...args]) : run("npm", args);
  if (!done) fail("npm ci failed");
}

/** Builds the addon. Without cargo or a linker the portable core serves the demo, but not the tests. */
function buildNative() {
  const hash = hashOf(CRATES, [process.platform, process.arch]);
  if (isFresh("native", hash)) return;
  const cargoHome = process.env.CARGO_HOME ?? join(homedir(), ".cargo");
  const env = { ...process.env, PATH: `${process.env.PATH}${delimiter}${join(cargoHome, "bin")}` };
  const cargo = spawnSync("cargo", ["--version"], { cwd: ROOT, env }).status === 0;
  if (cargo) say("building the native core (cargo)");
  if (cargo && run(process.execPath, [join(ROOT, ".ci", "build-native.mjs")], env)) {
    const addons = filesBelow("dist").filter((file) => file.endsWith(".node"));
    stamp("native", hash, addons);
    return;
  }
  const reason = cargo ? "the native core did not build (see above)" : "cargo was not found; install Rust (rustup.rs)";
  if (forTests) fail(`${reason}; the tests need the native core`);
  say(`${reason}. Going on with the portable core, which is slower.`);
}

/** Compiles one TypeScript project. `reads` is everything that can change its outcome. */
function compile(name, source, output, reads, afterwards = () => []) {
  const hash = hashOf([source, "tsconfig.json", "package.json", "package-lock.json", ...reads]);
  if (isFresh(name, hash)) return;
  say(`compiling ${source}`);
  const scripts = pruneOutputs(source, output);
  if (!run(process.execPath, [join(ROOT, "node_modules", "typescript", "bin", "tsc"), "-p", source])) {
    fail(`${source} does not compile`);
  }
  stamp(name, hash, [...scripts, ...afterwards()]);
}

async function findServer() {
  const { findServer: find } = await import(new URL("../dist/sandbox/index.js", import.meta.url).href);
  await find().catch((error) => fail(error.message));
}

checkNode();
await locked(async () => {
  installPackages();
  compile("src", "src", "dist", [".ci/copy-assets.mjs"], copyAssets);
  buildNative();
  if (!forTests) return;
  compile("bench", "bench", "build/bench", ["src"]);
  compile("test", "test", "build/test", ["src", "bench"]);
  await findServer();
});
