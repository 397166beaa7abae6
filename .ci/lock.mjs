/** One builder at a time in a checkout: a lock file that names its owner, taken over from an owner that is gone. */
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ROOT } from "./fresh.mjs";

const FILE = join(ROOT, "build", ".prepare.lock");
/** An owner writes its pid right after it made the file; without one the file is believed for this long (ms). */
const NAMELESS = 5000;

/** Runs `work` while holding the lock. */
export async function locked(work) {
  mkdirSync(join(ROOT, "build"), { recursive: true });
  let told = false;
  while (!create(FILE)) {
    takeOver();
    if (!told) process.stderr.write("keylane: another process is preparing this checkout, waiting for it\n");
    told = true;
    await sleep(100);
  }
  process.once("exit", drop);
  try {
    return await work();
  } finally {
    drop();
    process.off("exit", drop);
  }
}

function create(file) {
  try {
    writeFileSync(file, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    return false;
  }
}

function drop() {
  rmSync(FILE, { force: true });
}

/** Removes a dead owner's lock; a second lock keeps two from doing so at once, when one might remove the other's new one. */
function takeOver() {
  if (!ownerIsGone(FILE)) return;
  const second = `${FILE}.takeover`;
  if (create(second)) {
    if (ownerIsGone(FILE)) drop();
    rmSync(second, { force: true });
  } else if (ownerIsGone(second)) {
    rmSync(second, { force: true });
  }
}

function ownerIsGone(file) {
  try {
    const owner = Number(readFileSync(file, "utf8"));
    if (owner === 0) return Date.now() - statSync(file).mtimeMs > NAMELESS;
    process.kill(owner, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}
