/**
 * Takes up a spool's folder at `open`: names it when it is new, reads what it holds, and cuts off what a crash left unfinished.
 * The invariant: when it is done, a power cut changes nothing of what the next `open` finds.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { KeylaneError } from "../errors.js";
import { spoolFault } from "./fault.js";
import type { IdIndex } from "./journal.js";
import type { Line } from "./line.js";
import { IDENTITY, scanFolder } from "./scan.js";
import { cutFile, FileSegment, syncFolder } from "./segment.js";
import type { Segment } from "./segment.js";

/** What a spool begins with. */
export interface Found {
  readonly id: string;
  readonly lines: Map<string, Line>;
  /** Spent of each budget. */
  readonly budgets: Map<string, bigint>;
  /** Largest sequence number. */
  readonly last: number;
  /** Impressions and denials of each segment. */
  readonly journal: ReadonlyMap<number, IdIndex>;
  readonly kept: readonly { readonly segment: Segment; readonly entries: number }[];
}

/** What a spool without a folder begins with. */
export function nothing(): Found {
  return { id: newId(), lines: new Map(), budgets: new Map(), journal: new Map(), last: 0, kept: [] };
}

function newId(): string {
  return randomBytes(8).toString("hex");
}

/** Makes a folder and what is missing above it. */
export async function makeFolder(folder: string): Promise<void> {
  const first = mkdirSync(folder, { recursive: true });
  if (first === undefined) return;
  const top = dirname(resolve(first));
  for (let made = resolve(folder); made.length > top.length; made = dirname(made)) await syncFolder(dirname(made));
}

/**
 * Takes up a folder that this process has locked. `tell` hears of bytes that a crash left unfinished.
 *
 * @throws (rejects) KeylaneError `KEYLANE_ERR_SPOOL` when acknowledged entries cannot be read
 */
export async function takeUp(folder: string, tell: (fault: KeylaneError) => void): Promise<Found> {
  for (const name of readdirSync(folder)) {
    if (name.endsWith(".new")) rmSync(join(folder, name), { force: true });
  }
  const { id, segments, rest, lines, budgets, counts, journal, last } = scanFolder(folder);
  const tail = segments.at(-1);
  if (tail !== undefined && rest.length > 0) {
    if (rest.some((byte) => byte !== 0)) {
      const aside = join(folder, `unfinished-${tail.number}-${tail.size}`);
      writeFileSync(aside, rest);
      const what = `a commit of ${rest.length} bytes was cut short and never acknowledged; its bytes are in ${aside}`;
      tell(spoolFault(folder, what));
    }
    cutFile(tail.path, tail.size);
  }
  const kept = segments.map(({ number, path, size }) => ({
    segment: FileSegment.existing(number, path, size),
    entries: counts.get(number)!,
  }));
  return { id: id ?? (await nameFolder(folder)), lines, budgets, journal, last, kept };
}

async function nameFolder(folder: string): Promise<string> {
  const id = newId();
  const draft = join(folder, `${IDENTITY}.new`);
  const file = await open(draft, "w", 0o600);
  try {
    await file.write(`${JSON.stringify({ version: 1, id })}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, join(folder, IDENTITY));
  await syncFolder(folder);
  return id;
}
