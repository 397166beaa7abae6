/**
 * Servers that live in a test's memory: the book of each account as plainly as it can be written, and faults on demand. The
 * real script is compared with it, and the spool and booker run on it.
 */
import { KeylaneError } from "keylane";
import type { LedgerServers } from "#dist/ledger/policy.js";

const LIMIT = 2n ** 63n - 1n;
const fits = (sum: bigint): boolean => sum <= LIMIT && sum >= -LIMIT - 1n;

/** The book of an account. */
export interface ModelBook {
  balance: bigint;
  readonly ids: Set<string>;
  /** Of each spool. */
  readonly seqs: Map<string, number>;
}

const emptyBook = (): ModelBook => ({ balance: 0n, ids: new Set(), seqs: new Map() });

/** One entry as the script takes it. */
export interface ModelEntry {
  readonly seq: number;
  readonly id: string;
  readonly amount: bigint;
}

/** What book.lua does, without any of its ways to do it; sums of spools are taken never to overflow. */
export function bookPlainly(book: ModelBook, spool: string, before: number, entries: readonly ModelEntry[]): string[] {
  const last = book.seqs.get(spool) ?? 0;
  if (before > last) return ["gap", String(last)];
  const ids = new Set(book.ids);
  let sum = 0n;
  const dropped: string[] = [];
  for (const { seq, id, amount } of entries) {
    if (seq <= last) continue;
    if (ids.has(id)) dropped.push(String(seq));
    else sum += amount;
    ids.add(id);
  }
  if (!fits(book.balance + sum)) return ["overflow", String(last)];
  book.balance += sum;
  for (const id of ids) book.ids.add(id);
  const seq = Math.max(last, entries.at(-1)?.seq ?? 0);
  book.seqs.set(spool, seq);
  return ["booked", String(seq), ...dropped];
}

/** What becomes of a call. */
export type Fate = "answered" | "lost before" | "lost after";

/** The servers. */
export class ModelServers implements LedgerServers {
  books = new Map<string, ModelBook>();
  /** Decides about each call. */
  fate: () => Fate = () => "answered";
  readonly told: KeylaneError[] = [];
  #upheavals = 0;
  #replica = new Map<string, ModelBook>();

  balance(account: string): bigint {
    return this.books.get(`rb:ledger:{${account}}`)?.balance ?? 0n;
  }

  /** The replica sees what the primary has. */
  replicate(): void {
    this.#replica = copy(this.books);
  }

  /** The replica becomes the primary. */
  failOver(): void {
    this.books = copy(this.#replica);
    this.#upheavals += 1;
  }

  domainOf(): string {
    return "billing";
  }

  upheavals(): number {
    return this.#upheavals;
  }

  tell(error: KeylaneError): void {
    this.told.push(error);
  }

  script(source: string): ReturnType<LedgerServers["script"]> {
    const run = async (keys: string | readonly string[], args: readonly (string | number)[]): Promise<unknown> => {
      const fate = this.fate();
      await new Promise((resolve) => setImmediate(resolve));
      if (fate === "lost before") throw new KeylaneError("KEYLANE_ERR_CONNECT", "not sent");
      const key = typeof keys === "string" ? keys : keys[0]!;
      const reply = source.startsWith("-- Books entries") ? this.#book(key, args) : this.#read(key, args);
      if (fate === "lost after") throw new KeylaneError("KEYLANE_ERR_CONNECTION_LOST", "no reply");
      return reply;
    };
    return { source, sha: "", run } as unknown as ReturnType<LedgerServers["script"]>;
  }

  #book(key: string, [spool, before, , , ...rest]: readonly (string | number)[]): string[] {
    const entries: ModelEntry[] = [];
    for (let at = 0; at < rest.length; at += 3) {
      entries.push({ seq: Number(rest[at]), id: String(rest[at + 1]), amount: BigInt(rest[at + 2]!) });
    }
    let book = this.books.get(key);
    if (book === undefined) this.books.set(key, (book = emptyBook()));
    return bookPlainly(book, String(spool), Number(before), entries);
  }

  #read(key: string, fields: readonly (string | number)[]): (string | null)[] {
    const book = this.books.get(key);
    return fields.map((field) => {
      if (field === "balance") return book === undefined ? null : String(book.balance);
      const seq = book?.seqs.get(String(field).split(":")[0]!);
      return seq === undefined ? null : String(seq);
    });
  }
}

function copy(books: ReadonlyMap<string, ModelBook>): Map<string, ModelBook> {
  const of = ({ balance, ids, seqs }: ModelBook): ModelBook => ({ balance, ids: new Set(ids), seqs: new Map(seqs) });
  return new Map([...books].map(([key, book]) => [key, of(book)]));
}
