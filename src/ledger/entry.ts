/**
 * Entries, and what makes one valid: amounts are integers of 64 bits (C6: never a fraction, never rounded), accounts and ids are
 * well-formed text of bounded length. Whatever is wrong is told before anything is written.
 */
import { KeylaneError } from "../errors.js";
import { badArgument } from "../lane/arguments.js";
import type { AddOptions, Budget } from "./policy.js";

/** An amount booked on an account. */
export interface Entry {
  /** Place in its spool; grows with every entry. */
  readonly seq: number;
  readonly account: string;
  readonly id: string;
  /** Minor units. */
  readonly amount: bigint;
  /** Milliseconds of the epoch. */
  readonly at: number;
  /** Name of the budget it was charged to; empty for none. */
  readonly budget: string;
}

/** Largest absolute amount; its negative can be represented, too. */
export const MAX_AMOUNT = 2n ** 63n - 1n;
/** Limits of budgets are numbers of 53 bits, which scripts can compare. */
const MAX_LIMIT = BigInt(Number.MAX_SAFE_INTEGER);
const MAX_ACCOUNT_BYTES = 512;
const MAX_ID_BYTES = 255;

/** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function assertAccount(account: unknown, what = "account"): asserts account is string {
  assertText(account, what, MAX_ACCOUNT_BYTES);
}

/** Checks an entry; gives its time. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function checkEntry(account: unknown, amount: unknown, options: AddOptions | undefined): number {
  assertAccount(account);
  assertAmount(amount);
  if (typeof options !== "object" || options === null) throw badArgument("ledger: an entry needs { id }");
  assertText(options.id, "id", MAX_ID_BYTES);
  const { at = Date.now() } = options;
  if (!Number.isFinite(at) || at < 0) throw badArgument(`ledger: at must be milliseconds of the epoch, not ${at}`);
  return at;
}

/** Gives the budget that a charge names. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function checkBudget(account: string, amount: bigint, budget: unknown): Budget {
  if (amount < 0n) throw badArgument("ledger.charge: the amount cannot be negative");
  const named = typeof budget === "bigint" ? { name: account, limit: budget } : (budget as Budget | null | undefined);
  if (typeof named !== "object" || named === null) {
    throw badArgument("ledger.charge: the budget must be a bigint or { name, limit }");
  }
  assertAccount(named.name, "name of a budget");
  const { name, limit } = named;
  if (typeof limit !== "bigint" || limit < 0n || limit > MAX_LIMIT) {
    throw badArgument(`ledger.charge: the limit must be a bigint from 0 to ${MAX_LIMIT}, not ${String(limit)}`);
  }
  if (amount > MAX_LIMIT) throw badArgument(`ledger.charge: the amount can be ${MAX_LIMIT} at most`);
  return { name, limit };
}

function assertAmount(amount: unknown): void {
  if (typeof amount === "bigint" && amount <= MAX_AMOUNT && amount >= -MAX_AMOUNT) return;
  const told = typeof amount === "bigint" ? `${amount}` : `the ${typeof amount} ${String(amount)}`;
  throw badArgument(`ledger: an amount must be a bigint of minor units within ±${MAX_AMOUNT}, not ${told}`);
}

function assertText(text: unknown, what: string, maxBytes: number): asserts text is string {
  if (typeof text !== "string") throw badArgument(`ledger: the ${what} must be a string, not ${typeof text}`);
  if (text === "") throw badArgument(`ledger: the ${what} is empty`);
  if (!text.isWellFormed()) throw badArgument(`ledger: the ${what} holds a lone surrogate`);
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxBytes) return;
  throw new KeylaneError("KEYLANE_ERR_TOO_LARGE", `ledger: the ${what} has ${bytes} bytes, ${maxBytes} are allowed`);
}
