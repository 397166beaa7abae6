/**
 * Compares a spool with the servers, account by account. Two sums must agree:
 *
 *   all that the spool acknowledged = what the servers booked of it + duplicates they dropped + what waits
 *   the balance                     = what all spools booked on the account
 *
 * A process may go on writing meanwhile: what differs, or cannot be read, is looked at again before it counts.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { KeylaneError } from "../errors.js";
import { bookKey } from "./keys.js";
import { scanFolder } from "./scan.js";

const LOOKS = 4;
const PAUSE_MS = 250;
/** Accounts asked for at once. */
const WIDTH = 256;

/** The fields of an account's book, as the servers have them. */
export type Book = Readonly<Record<string, string>>;

/** Something that does not agree. */
export interface Difference {
  readonly account: string;
  readonly what: "sum" | "count" | "lost" | "balance";
  /** What it should be. */
  readonly expected: bigint;
  /** What the servers have. */
  readonly found: bigint;
}

/** What `verifyLedger` gives. */
export interface Verification {
  /** The spool's name at the servers; null when the folder holds none. */
  readonly spool: string | null;
  readonly accounts: number;
  /** Entries ever acknowledged, and of these not booked. */
  readonly entries: number;
  readonly waiting: number;
  /** Sum of all amounts ever acknowledged. */
  readonly sum: bigint;
  readonly differences: readonly Difference[];
}

/**
 * Verifies the spool in a folder; `read` gives the fields of a book.
 *
 * @throws (rejects) KeylaneError `KEYLANE_ERR_SPOOL`, and whatever `read` rejects with
 */
export async function verifyLedger(
  folder: string,
  prefix: string,
  read: (key: string) => Promise<Book>,
): Promise<Verification> {
  for (let looks = 1; ; looks += 1) {
    try {
      const result = await look(folder, prefix, read);
      if (result.differences.length === 0 || looks === LOOKS) return result;
    } catch (error) {
      // The owner may have removed a segment since its name was read.
      if (looks === LOOKS || !(error instanceof KeylaneError && error.code === "KEYLANE_ERR_SPOOL")) throw error;
    }
    await sleep(PAUSE_MS);
  }
}

async function look(folder: string, prefix: string, read: (key: string) => Promise<Book>): Promise<Verification> {
  // Books before the spool: what is booked in between is a difference that the next look does not see.
  const known = scanFolder(folder);
  const books = new Map<string, Book>();
  const accounts = [...known.lines.keys()];
  for (let from = 0; from < accounts.length; from += WIDTH) {
    const part = accounts.slice(from, from + WIDTH);
    const found = await Promise.all(part.map((account) => read(bookKey(prefix, account))));
    for (const [index, account] of part.entries()) books.set(account, found[index]!);
  }
  const spool = known.id ?? "";
  const waiting = new Map<string, { sum: bigint; count: number }>();
  const { lines } = scanFolder(folder, ({ account, seq, amount }) => {
    if (seq <= Number(books.get(account)?.[`${spool}:seq`] ?? 0)) return;
    const { sum, count } = waiting.get(account) ?? { sum: 0n, count: 0 };
    waiting.set(account, { sum: sum + amount, count: count + 1 });
  });
  const total = { entries: 0, waiting: 0, sum: 0n };
  const differences: Difference[] = [];
  for (const [account, line] of lines) {
    const book = books.get(account) ?? {};
    const left = waiting.get(account) ?? { sum: 0n, count: 0 };
    total.entries += line.count;
    total.waiting += left.count;
    total.sum += line.sum;
    differences.push(...compare(account, line, book, spool, left));
  }
  return { spool: known.id, accounts: lines.size, ...total, differences };
}

function compare(
  account: string,
  line: { readonly sum: bigint; readonly count: number; readonly left: number },
  book: Book,
  spool: string,
  left: { readonly sum: bigint; readonly count: number },
): Difference[] {
  const field = (name: string): bigint => BigInt(book[name] ?? 0);
  const found: Difference[] = [];
  const check = (what: Difference["what"], expected: bigint, is: bigint): void => {
    if (expected !== is) found.push({ account, what, expected, found: is });
  };
  check("sum", line.sum, field(`${spool}:sum`) + field(`${spool}:dup`) + left.sum);
  check("count", BigInt(line.count), field(`${spool}:count`) + field(`${spool}:dups`) + BigInt(left.count));
  if (field(`${spool}:seq`) < BigInt(line.left)) check("lost", BigInt(line.left), field(`${spool}:seq`));
  const sums = Object.keys(book).filter((name) => name.endsWith(":sum"));
  const booked = sums.reduce((sum, name) => sum + field(name), 0n);
  check("balance", booked, field("balance"));
  return found;
}
