/**
 * The program of a ledger whose disk is full: adds entries until one is refused and tells what was acknowledged, and what was not; goes
 * on when it is told that there is room again. Its servers are in its memory.
 */
import type { KeylaneError, SerializedError } from "keylane";
import { Ledger } from "#dist/ledger/ledger.js";
import { ModelServers } from "./ledger-model.js";
import { policyOf, QUICK } from "./ledger.js";

/** What it does next. `fill`: until three refusals; `more`: waits until an entry is taken, adds some, and books all. */
export type FullDiskOrder = "fill" | "more";

/** Ids of entries by what became of them. */
export interface FullDiskReport {
  readonly acknowledged: readonly string[];
  readonly refused: readonly string[];
  readonly faults: readonly SerializedError[];
  /** Booked at the servers. */
  readonly balance: string;
}

const ENTRIES_AT_ONCE = 20;
const REFUSALS = 3;

async function run(directory: string, segmentBytes: number): Promise<void> {
  const servers = new ModelServers();
  servers.fate = () => "lost before";
  const ledger = await Ledger.open(policyOf(directory), servers, { ...QUICK, segmentBytes });
  const [acknowledged, refused, faults]: [string[], string[], SerializedError[]] = [[], [], []];
  let n = 0;
  const add = async (): Promise<boolean> => {
    const ids = Array.from({ length: ENTRIES_AT_ONCE }, () => `${(n += 1)}`);
    const results = await Promise.allSettled(ids.map((id) => ledger.add("account", 1n, { id })));
    for (const [index, result] of results.entries()) {
      if (result.status === "fulfilled") acknowledged.push(ids[index]!);
      else {
        refused.push(ids[index]!);
        faults.push((result.reason as KeylaneError).toJSON());
      }
    }
    return results.every(({ status }) => status === "fulfilled");
  };
  const obey = async (order: FullDiskOrder): Promise<void> => {
    if (order === "fill") for (let left = REFUSALS; left > 0;) if (!(await add())) left -= 1;
    if (order === "more") {
      while (!(await add()));
      for (let more = 0; more < 5; more += 1) await add();
      servers.fate = () => "answered";
      await ledger.flush();
    }
    const balance = String(servers.balance("account"));
    process.send!({ acknowledged, refused, faults, balance } satisfies FullDiskReport);
  };
  process.on("message", (order: FullDiskOrder) => void obey(order));
}

process.once("disconnect", () => process.exit());
const [directory, segmentBytes] = process.argv.slice(2) as [string, string];
await run(directory, Number(segmentBytes));
