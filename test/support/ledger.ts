/** A ledger in tests: folders for spools, policies, and servers that live in a test's memory. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import type { LedgerOptions, OpenOptions } from "keylane";
import type { LedgerPolicy, LedgerTuning } from "#dist/ledger/policy.js";

/** A folder that is gone when the test in which it was made is over. */
export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "keylane-ledger-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A policy with small numbers; without a folder in mode `fast`. */
export function policyOf(directory: string | null, more: Partial<LedgerPolicy> = {}): LedgerPolicy {
  return {
    domain: "billing",
    prefix: "rb:",
    mode: directory === null ? "fast" : "durable",
    directory,
    idRetentionMs: 60_000,
    keepBookedMs: 60_000,
    maxPending: 100_000,
    batchSize: 500,
    leaseMs: 1000,
    ...more,
  };
}

export const QUICK: LedgerTuning = { segmentBytes: 4096, lingerMs: 1, maxPauseMs: 50, tickMs: 10 };

/** Options for a ledger on one server or cluster. */
export function ledgerOptions(
  nodes: readonly string[],
  ledger: LedgerOptions,
  mode: "single" | "cluster" = "single",
): OpenOptions {
  return { domains: { billing: { prefixes: ["rb:"], nodes, mode } }, ledger };
}
