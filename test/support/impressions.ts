/** Impressions in tests: options for two servers, and what both have of an impression. */
import assert from "node:assert/strict";
import type { Cap, Impression, LedgerOptions, OpenOptions } from "keylane";
import type { SandboxNode } from "keylane/sandbox";
import { IMPRESSION } from "#dist/ledger/frame.js";
import { intentText, checkImpression } from "#dist/impressions/intent.js";
import { Spool } from "#dist/ledger/spool.js";
import { policyOf, QUICK } from "./ledger.js";

export const DAY = 86_400_000;

/** Options for a frequency and a billing server. */
export function impressionOptions(
  [frequency, billing]: readonly [string, string],
  ledger: LedgerOptions,
  caps: OpenOptions["caps"] = {},
): OpenOptions {
  return {
    domains: {
      freq: { prefixes: ["fc:"], nodes: [frequency], mode: "single" },
      billing: { prefixes: ["rb:"], nodes: [billing], mode: "single" },
    },
    ledger,
    caps: { onError: "throw", ...caps },
  };
}

/** A cap of one name for a day. */
export const capOf = (name: string, limit = 3): Cap => ({ name, limit, windowMs: DAY });

/** An impression of a user, on an account of the same name. */
export function impressionOf(user: string, id: string, more: Partial<Impression> = {}): Impression {
  return { user, id, caps: [capOf("campaign")], account: user, amount: 7n, ...more };
}

/** Leaves in a folder what a process leaves that dies when the impression is billed and not counted yet. */
export async function dieBilled(directory: string, impression: Impression, at: number): Promise<void> {
  const spool = await Spool.open(policyOf(directory), QUICK, (fault) => assert.fail(fault));
  const { account, amount, id } = impression;
  await spool.add(account, id, amount, at, "", intentText(checkImpression(impression), at, []));
  const line = spool.lines.get(account)!;
  assert.equal(spool.record(line.at(line.length - 1)).kind, IMPRESSION);
  spool.close();
}

/** What the frequency servers have of a user. */
export interface Counted {
  /** Counts of each cap, by name. */
  readonly used: Readonly<Record<string, number>>;
  /** Places held by reservations, of all caps together. */
  readonly held: number;
  /** States of ids: `b` counted for good and billed, `t` counted, `h` reserved. */
  readonly ids: Readonly<Record<string, string>>;
}

/** Reads a user's hash; `now` is the server's time. */
export function countedOf(fields: Readonly<Record<string, string>>, now: number): Counted {
  const used: Record<string, number> = {};
  const ids: Record<string, string> = {};
  let held = 0;
  for (const [field, text] of Object.entries(fields)) {
    if (field.startsWith("i")) {
      const [ends, , state] = text.split(" ");
      if (Number(ends) > now) ids[field.slice(1)] = state!;
    } else if (field !== "") {
      const name = field.slice(field.indexOf(" ") + 1);
      for (const [, ends, kind, count] of text.matchAll(/(\d+)([:;])(\d+)/g)) {
        if (Number(ends) <= now) continue;
        if (kind === ":") used[name] = (used[name] ?? 0) + Number(count);
        else held += Number(count);
      }
    }
  }
  return { used, held, ids };
}

/** What both servers have of a user and the account of the same name. */
export interface Totals extends Counted {
  readonly balance: bigint;
}

export async function totalsOf(frequency: SandboxNode, billing: SandboxNode, user: string): Promise<Totals> {
  const flat = ((await frequency.command("HGETALL", `fc:caps:{${user}}`)) as unknown[]).map(String);
  const fields = Object.fromEntries(flat.flatMap((name, at) => (at % 2 === 0 ? [[name, flat[at + 1]!]] : [])));
  const [seconds, micros] = (await frequency.command("TIME")) as [unknown, unknown];
  const balance = await billing.command("HGET", `rb:ledger:{${user}}`, "balance");
  const now = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  return { ...countedOf(fields, now), balance: BigInt(String(balance ?? 0)) };
}
