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
import type { Entry } from "./entry.js";
import { bookKey, bookKeys } from "./keys.js";
import { segmentOf } from "./line.js";
import type { Line } from "./line.js";
import type { LedgerPolicy, LedgerServers, LedgerTuning } from "./policy.js";
import type { Spool } from "./spool.js";

/** Accounts booked at once. */
const WIDTH = 128;
/** Accounts in trouble that are tried at once: fewer after each failure, more after each success. */
const LEAST_TRIALS = 8;
const FIRST_PAUSE_MS = 25;
/** Marks asked for at once. */
const AUDIT_WIDTH = 256;
/** A spool that has not booked on an account for so long is summed up there. */
const IDLE_MS = 90 * 86_400_000;
/** Troubled accounts that `pending` names. */
const NAMED = 100;

/** Source of the scripts. */
export interface Sources {
  readonly book: string;
  readonly read: string;
}

interface Waiter {
  readonly seq: number;
  /** Attempts that had begun when it came: their failures are none of its own. */
  readonly attempts: number;
  settle(fault: KeylaneError | null): void;
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
  readonly #reader: Script;
  #ready: Line[] = [];
  #next = 0;
  #active = 0;
  readonly #troubled = new Set<Line>();
  #trials = 0;
  #mostTrials = LEAST_TRIALS;
  #waiters = new Map<Line, Waiter[]>();
  #timer: NodeJS.Timeout | null = null;
  readonly #ticker: NodeJS.Timeout;
  #upheavals: number;
  /** Accounts whose bookings are to be looked at. */
  #suspects = new Set<Line>();
  #busy = false;
  #closed = false;
  readonly #ending = new AbortController();

  constructor(spool: Spool, policy: LedgerPolicy, tuning: LedgerTuning, servers: LedgerServers, sources: Sources) {
    this.#spool = spool;
    this.#policy = policy;
    this.#tuning = tuning;
    this.#servers = servers;
    setMaxListeners(0, this.#ending.signal);
    this.#script = servers.script(sources.book);
    this.#reader = servers.script(sources.read);
    this.#upheavals = servers.upheavals();
    spool.committed = (lines) => this.#wake(lines);
    this.#ticker = setInterval(() => void this.#tick(), tuning.tickMs).unref();
    this.#wake([...spool.lines.values()].filter((line) => line.open > 0));
  }

  /** Accounts whose last attempt failed. */
  get failing(): { readonly account: string; readonly code: string }[] {
    const named = [...this.#troubled].slice(0, NAMED);
    return named.map(({ account, code }) => ({ account, code: code! }));
  }

  /** Resolves when what is in the spool now is booked; rejects with the fault of an account that cannot be booked. */
  async flush(): Promise<void> {
    const open = [...this.#spool.lines.values()].filter((line) => line.open > 0);
    const booked = open.map(
      (line) =>
        new Promise<void>((resolve, reject) => {
          const settle = (fault: KeylaneError | null): void => (fault === null ? resolve() : reject(fault));
          const waiters = this.#waiters.get(line) ?? [];
          waiters.push({ seq: line.last, attempts: line.attempts, settle });
          this.#waiters.set(line, waiters);
        }),
    );
    for (const line of this.#troubled) line.retryAt = 0;
    this.#pump();
    await Promise.all(booked);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ending.abort();
    clearInterval(this.#ticker);
    if (this.#timer !== null) clearTimeout(this.#timer);
    const fault = new KeylaneError("KEYLANE_ERR_CLOSED", "the ledger was closed", { domain: this.#policy.domain });
    for (const waiters of this.#waiters.values()) for (const { settle } of waiters) settle(fault);
    this.#waiters.clear();
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
      const { prefix, idRetentionMs } = this.#policy;
      const args: (string | number)[] = [this.#spool.id, this.#before(line, from), idRetentionMs, IDLE_MS];
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

  /** Sequence number of the entry before `index`. */
  #before(line: Line, index: number): number {
    return index === 0 ? line.left : this.#spool.read(line.at(index - 1)).seq;
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
    line.reached = Math.max(line.reached, seq);
    line.width = line.width === Infinity ? Infinity : line.width * 2;
    if (line.width > this.#policy.batchSize) line.width = Infinity;
    if (line.code !== null) this.#recovered(line);
    const past = (index: number): boolean => this.#spool.read(line.at(index)).seq > seq;
    const end = line.booked + entries.length;
    const booked = end < line.length && !past(end) ? line.search(past) : end;
    this.#spool.settle(line, line.booked, booked, false);
    line.booked = booked;
    this.#settleWaiters(line, (waiter) => waiter.seq <= seq, null);
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
    if (!retryable) this.#settleWaiters(line, ({ attempts }) => attempts < line.attempts, error);
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

  #settleWaiters(line: Line, concerned: (waiter: Waiter) => boolean, fault: KeylaneError | null): void {
    const waiters = this.#waiters.get(line);
    if (waiters === undefined) return;
    const left = waiters.filter((waiter) => !concerned(waiter));
    for (const waiter of waiters) if (concerned(waiter)) waiter.settle(fault);
    if (left.length > 0) this.#waiters.set(line, left);
    else this.#waiters.delete(line);
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

  async #tick(): Promise<void> {
    this.#pump();
    if (this.#busy || this.#closed) return;
    this.#busy = true;
    try {
      const upheavals = this.#servers.upheavals();
      if (upheavals !== this.#upheavals) {
        this.#upheavals = upheavals;
        for (const line of this.#spool.lines.values()) if (line.booked > 0) this.#suspects.add(line);
      }
      if (this.#suspects.size > 0) await this.#audit([...this.#suspects]);
      else await this.#letLeave();
    } catch {
      // Servers that cannot be asked now are asked at the next tick.
    } finally {
      this.#busy = false;
    }
  }

  /** Compares what accounts have booked with what the servers know. Rejects when a server cannot be asked. */
  async #audit(lines: readonly Line[]): Promise<void> {
    for (let from = 0; from < lines.length; from += AUDIT_WIDTH) {
      const part = lines.slice(from, from + AUDIT_WIDTH);
      const results = await Promise.allSettled(part.map((line) => this.#auditOne(line)));
      if (this.#closed) return;
      const failed = results.find((result) => result.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    }
    this.#pump();
  }

  async #auditOne(line: Line): Promise<void> {
    const { booked } = line;
    const seq = booked === 0 ? 0 : this.#before(line, booked);
    const key = bookKey(this.#policy.prefix, line.account);
    const [told] = (await this.#reader.run(key, [`${this.#spool.id}:seq`], { signal: this.#ending.signal })) as [
      string | null,
    ];
    if (this.#closed) return;
    const mark = Number(told ?? 0);
    // A booking that is under way meets the gap itself.
    if (mark < seq && line.busy) throw new Error("under way");
    this.#suspects.delete(line);
    if (mark >= seq) return;
    this.#rollBack(line, mark);
    this.#go(line);
  }

  /** The oldest segment leaves once the servers confirm each account's share of it. */
  async #letLeave(): Promise<void> {
    const number = this.#spool.leaving();
    if (number === null) return;
    const lines = [...this.#spool.lines.values()].filter((line) => line.length > 0 && segmentOf(line.at(0)) <= number);
    await this.#audit(lines);
    if (!this.#closed && this.#spool.leaving() === number) this.#spool.leave(number, lines);
  }
}
