/**
 * Books what the spool holds: one booking per account at a time, in order, again and again until the servers have it. A booking
 * may be sent twice; the servers know by its sequence numbers. What a failover loses takes its sequence number along: the
 * next booking of the account meets a gap, or an audit finds it, and the entries are booked anew from the spool.
 *
 * ```text
 * spool ──▶ ready ──▶ under way ──▶ booked, kept ──(keepBookedMs, and the servers still say so)──▶ leaves the spool
 *             ▲          │ failed        │ lost by a failover
 *             └─ pause ◀─┘               └──▶ ready
 * ```
 */
import { setMaxListeners } from "node:events";
import { KeylaneError } from "../errors.js";
import type { Script } from "../lane/script.js";
import { Auditor } from "./auditor.js";
import type { Entry } from "./entry.js";
import { spoolFault } from "./fault.js";
import { Flushes } from "./flushes.js";
import { bookKeys } from "./keys.js";
import type { Line } from "./line.js";
import { IDLE_MS } from "./policy.js";
import type { LedgerPolicy, LedgerServers, LedgerTuning } from "./policy.js";
import type { Spool } from "./spool.js";

/** Accounts booked at once. */
const WIDTH = 128;
/** Accounts in trouble that are tried at once: fewer after each failure, more after each success. */
const LEAST_TRIALS = 8;
const FIRST_PAUSE_MS = 25;
/** Troubled accounts that `pending` names. */
const NAMED = 100;

/** The scripts it runs. */
export interface Scripts {
  readonly book: Script;
  readonly read: Script;
}

export class Booker {
  rebooked = 0;
  duplicates = 0;
  /** Hears of an entry that was dropped because its id was booked before. */
  onDuplicate: (entry: Entry) => void = () => undefined;
  readonly #spool: Spool;
  readonly #policy: LedgerPolicy;
  readonly #tuning: LedgerTuning;
  readonly #servers: LedgerServers;
  readonly #script: Script;
  readonly #auditor: Auditor;
  #ready: Line[] = [];
  #next = 0;
  #active = 0;
  readonly #troubled = new Set<Line>();
  #trials = 0;
  #mostTrials = LEAST_TRIALS;
  readonly #flushes = new Flushes();
  #timer: NodeJS.Timeout | null = null;
  readonly #ticker: NodeJS.Timeout;
  /** The servers know of entries that the spool does not hold. */
  #foreign = false;
  #closed = false;
  readonly #ending = new AbortController();

  constructor(
    spool: Spool,
    policy: LedgerPolicy,
    tuning: LedgerTuning,
    servers: LedgerServers,
    { book, read }: Scripts,
  ) {
    this.#spool = spool;
    this.#policy = policy;
    this.#tuning = tuning;
    this.#servers = servers;
    setMaxListeners(0, this.#ending.signal);
    this.#script = book;
    this.#auditor = new Auditor(spool, policy, servers, read, this.#ending.signal, (line, mark) => {
      this.#rollBack(line, mark);
      this.#go(line);
    });
    spool.committed = (lines) => this.#wake(lines);
    this.#ticker = setInterval(() => {
      this.#pump();
      void this.#auditor.tick();
    }, tuning.tickMs).unref();
    this.#wake([...spool.lines.values()].filter((line) => line.open > 0));
  }

  /** Accounts whose last attempt failed. */
  get failing(): { readonly account: string; readonly code: string }[] {
    const named = [...this.#troubled].slice(0, NAMED);
    return named.map(({ account, code }) => ({ account, code: code! }));
  }

  /**
   * Resolves when what is in the spool now is booked, or when the signal says that nobody waits any more; rejects with the fault
   * of an account that cannot be booked, when all others are.
   */
  flush(signal: AbortSignal | undefined): Promise<void> {
    const flushed = this.#flushes.wait(
      [...this.#spool.lines.values()].filter((line) => line.open > 0),
      signal,
    );
    for (const line of this.#troubled) line.retryAt = 0;
    this.#pump();
    return flushed;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ending.abort();
    clearInterval(this.#ticker);
    if (this.#timer !== null) clearTimeout(this.#timer);
    const fault = new KeylaneError("KEYLANE_ERR_CLOSED", "the ledger was closed", { domain: this.#policy.domain });
    this.#flushes.end(fault);
  }

  // ── what to book next ────────────────────────────────────────────────────────────────────────────────────────────

  #wake(lines: Iterable<Line>): void {
    for (const line of lines) {
      if (line.queued || line.busy || line.code !== null) continue;
      line.queued = true;
      this.#ready.push(line);
    }
    if (this.#timer !== null || this.#closed || this.#next === this.#ready.length) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#pump();
    }, this.#tuning.lingerMs).unref();
  }

  #pump(): void {
    if (this.#closed) return;
    while (this.#active < WIDTH && this.#next < this.#ready.length) {
      const line = this.#ready[this.#next]!;
      this.#next += 1;
      line.queued = false;
      if (line.code === null) void this.#book(line);
    }
    if (this.#next === this.#ready.length) {
      this.#ready = [];
      this.#next = 0;
    }
    if (this.#troubled.size > 0) this.#try(performance.now());
  }

  /** Tries accounts in trouble whose pause is over. */
  #try(now: number): void {
    for (const line of this.#troubled) {
      if (this.#trials >= this.#mostTrials) return;
      if (line.busy || line.retryAt > now) continue;
      this.#trials += 1;
      void this.#book(line).then(() => (this.#trials -= 1));
    }
  }

  // ── one booking ──────────────────────────────────────────────────────────────────────────────────────────────────

  async #book(line: Line): Promise<void> {
    if (line.open === 0 || line.busy) return;
    line.busy = true;
    line.attempts += 1;
    this.#active += 1;
    try {
      const from = line.booked;
      const entries = this.#take(line, from);
      const { prefix, idRetentionMs, mode } = this.#policy;
      // A spool in a folder may come back at any time, with entries that are booked: its sequence number stays.
      const idleMs = mode === "fast" ? IDLE_MS : 0;
      const args: (string | number)[] = [this.#spool.id, this.#spool.before(line, from), idRetentionMs, idleMs];
      for (const { seq, id, amount } of entries) args.push(seq, id, String(amount));
      const reply = await this.#script.run(bookKeys(prefix, line.account), args, { signal: this.#ending.signal });
      if (!this.#closed) this.#answered(line, entries, reply as string[]);
    } catch (error) {
      if (!this.#closed) this.#failed(line, error as KeylaneError);
    } finally {
      line.busy = false;
      this.#active -= 1;
      if (!this.#closed) this.#go(line);
    }
  }

  /** The next entries to book. */
  #take(line: Line, from: number): Entry[] {
    const count = Math.min(line.open, this.#policy.batchSize, line.width);
    return Array.from({ length: count }, (_, index) => this.#spool.read(line.at(from + index)));
  }

  #answered(line: Line, entries: readonly Entry[], [told, mark, ...dropped]: readonly string[]): void {
    const seq = Number(mark);
    if (told === "gap") {
      this.#rollBack(line, seq);
      return;
    }
    if (told === "overflow") {
      if (entries.length > 1) {
        line.width = 1;
        return;
      }
      const { id, amount } = entries[0]!;
      const message = `ledger: ${amount} (id ${JSON.stringify(id)}) would take account ${JSON.stringify(line.account)} past 64 bits`;
      throw new KeylaneError("KEYLANE_ERR_OVERFLOW", message, { domain: this.#policy.domain });
    }
    if (told !== "booked") throw new KeylaneError("KEYLANE_ERR_INTERNAL", `ledger: the script answered ${told}`);
    const known = new Set(dropped.map(Number));
    for (const entry of known.size > 0 ? entries : []) {
      // What is booked anew was counted the first time.
      if (!known.has(entry.seq) || entry.seq <= line.reached) continue;
      this.duplicates += 1;
      this.onDuplicate(entry);
    }
    if (seq > line.last && !this.#foreign) this.#tellForeign(line);
    line.reached = Math.max(line.reached, seq);
    line.width = line.width === Infinity ? Infinity : line.width * 2;
    if (line.width > this.#policy.batchSize) line.width = Infinity;
    if (line.code !== null) this.#recovered(line);
    const past = (index: number): boolean => this.#spool.read(line.at(index)).seq > seq;
    const end = line.booked + entries.length;
    const booked = end < line.length && !past(end) ? line.search(past) : end;
    this.#spool.settle(line, line.booked, booked, false);
    line.booked = booked;
    this.#flushes.booked(line, seq);
  }

  /** Two folders with one name: what one of them books makes the other's older entries look booked. Told once. */
  #tellForeign({ account }: Line): void {
    this.#foreign = true;
    const what = `the servers have booked entries of account ${JSON.stringify(account)} that it does not hold; was it copied?`;
    this.#servers.tell(spoolFault(this.#policy.directory ?? "in memory", what));
  }

  #failed(line: Line, error: KeylaneError): void {
    const { code, retryable } = error;
    line.failures += 1;
    const pause = Math.min(this.#tuning.maxPauseMs, FIRST_PAUSE_MS * 2 ** Math.min(line.failures, 20));
    line.retryAt = performance.now() + pause * (0.5 + Math.random() / 2);
    this.#mostTrials = Math.max(LEAST_TRIALS, this.#mostTrials >> 1);
    // What time alone will not mend is told, once for each account.
    if (!retryable && line.code !== code) this.#servers.tell(error);
    line.code = code;
    this.#troubled.delete(line);
    this.#troubled.add(line);
    if (!retryable) this.#flushes.failed(line, error);
  }

  #recovered(line: Line): void {
    line.code = null;
    line.failures = 0;
    this.#troubled.delete(line);
    this.#mostTrials = Math.min(WIDTH, this.#mostTrials * 2);
    // Others may have failed for the same reason.
    let hurried = 0;
    for (const other of this.#troubled) {
      other.retryAt = 0;
      hurried += 1;
      if (hurried >= this.#mostTrials) break;
    }
  }

  /** What comes after a booking. */
  #go(line: Line): void {
    if (line.open > 0 && line.code === null && !line.queued) {
      line.queued = true;
      this.#ready.push(line);
    }
    this.#pump();
  }

  // ── what the servers have lost ───────────────────────────────────────────────────────────────────────────────────

  /** The servers know nothing of what came after `mark`: it is open again. */
  #rollBack(line: Line, mark: number): void {
    const first = line.search((index) => this.#spool.read(line.at(index)).seq > mark);
    if (first < line.booked) {
      this.rebooked += line.booked - first;
      this.#spool.settle(line, first, line.booked, true);
      line.booked = first;
    }
    if (mark >= line.left) return;
    const message =
      `ledger: the servers have lost entries of account ${JSON.stringify(line.account)} that had left the spool: ` +
      `they were booked up to ${line.left}, and are now up to ${mark}`;
    line.left = mark;
    this.#servers.tell(new KeylaneError("KEYLANE_ERR_LOST", message, { domain: this.#policy.domain }));
  }
}
