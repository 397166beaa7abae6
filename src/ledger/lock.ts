/**
 * The lock of a spool's folder: one owner at a time, and a dead owner's lock is taken over. The file names its owner so that a
 * process id used again is not mistaken for it: machine, boot, process and the time that process started. An owner whose process
 * cannot be looked up from here (on another machine, before a reboot, in another container) is watched for a while instead:
 * it lives while it touches the file.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  linkSync,
  openSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { spoolFault } from "./fault.js";

/** An owner touches its lock this often, in milliseconds. */
const TOUCH_MS = 1000;
/** A strange owner that has not touched its lock for so long is gone. */
const STRANGE_MS = 10_000;

interface Owner {
  readonly host: string;
  readonly boot: string;
  readonly pid: number;
  readonly started: string;
  readonly token: string;
}

/** A lock that is held. */
export class FolderLock {
  readonly #file: string;
  readonly #text: string;
  readonly #lost: () => void;
  #timer: NodeJS.Timeout | null;

  private constructor(file: string, text: string, lost: () => void) {
    this.#file = file;
    this.#text = text;
    this.#lost = lost;
    this.#timer = setInterval(() => this.#touch(), TOUCH_MS).unref();
  }

  /**
   * Takes it; `lost` is called when it was taken away, be it by hand.
   *
   * @throws KeylaneError `KEYLANE_ERR_SPOOL` when another instance holds it
   */
  static async take(folder: string, lost: () => void): Promise<FolderLock> {
    const file = join(folder, "lock");
    const token = randomBytes(8).toString("hex");
    const me: Owner = { ...thisProcess(), token };
    const text = JSON.stringify(me);
    for (let tries = 0; tries < 10; tries += 1) {
      if (create(file, text, token)) return new FolderLock(file, text, lost);
      const other = read(file);
      if (other === null) continue;
      if (await isAlive(file, other.text)) {
        const { pid, host } = other.owner ?? { pid: "?", host: "?" };
        throw spoolFault(folder, `it is in use by process ${pid} on ${host}`);
      }
      takeAway(file, other.text, token);
    }
    throw spoolFault(folder, "its lock changes hands too fast");
  }

  /** Gives it back. */
  free(): void {
    if (this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    if (read(this.#file)?.text === this.#text) rmSync(this.#file, { force: true });
  }

  #touch(): void {
    if (read(this.#file)?.text !== this.#text) {
      clearInterval(this.#timer!);
      this.#timer = null;
      this.#lost();
      return;
    }
    const now = new Date();
    try {
      utimesSync(this.#file, now, now);
    } catch {
      // Gone since the look above; the next one tells.
    }
  }
}

/** Makes the file with its content in one step; false when there is one. */
function create(file: string, text: string, token: string): boolean {
  const draft = `${file}.${token}`;
  const handle = openSync(draft, "w", 0o600);
  try {
    writeSync(handle, text);
  } finally {
    closeSync(handle);
  }
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    return false;
  } finally {
    rmSync(draft, { force: true });
  }
}

function read(file: string): { readonly text: string; readonly owner: Owner | null } | null {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return null;
  }
  try {
    return { text, owner: JSON.parse(text) as Owner };
  } catch {
    return { text, owner: null };
  }
}

/** Removes a dead owner's lock, and puts it back if somebody else's was caught instead. */
function takeAway(file: string, text: string, token: string): void {
  const aside = `${file}.${token}.old`;
  try {
    renameSync(file, aside);
  } catch {
    return;
  }
  if (read(aside)?.text !== text) {
    try {
      linkSync(aside, file);
    } catch {
      // Somebody made a lock meanwhile; the one caught here will fail to find its own.
    }
  }
  rmSync(aside, { force: true });
}

async function isAlive(file: string, text: string): Promise<boolean> {
  const owner = read(file)?.owner ?? null;
  const me = thisProcess();
  if (owner !== null && owner.host === me.host && owner.boot === me.boot && me.boot !== "") {
    return startOf(owner.pid) === owner.started;
  }
  const touched = touchedAt(file);
  const deadline = performance.now() + STRANGE_MS;
  while (performance.now() < deadline) {
    await sleep(100);
    if (read(file)?.text !== text || touchedAt(file) !== touched) return true;
  }
  return false;
}

function touchedAt(file: string): number {
  try {
    return statSync(file).mtimeMs;
  } catch {
    return 0;
  }
}

function thisProcess(): Omit<Owner, "token"> {
  return { host: hostname(), boot: bootId(), pid: process.pid, started: startOf(process.pid) };
}

/** Names the running system since its start, and who sees whose process ids in it; empty where the system does not tell. */
function bootId(): string {
  try {
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()} ${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return "";
  }
}

/** When a process started, in ticks since boot; empty when there is none. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? "" : (fields[19] ?? "");
  } catch {
    return "";
  }
}
