/**
 * The spool: every entry is written here before anything else happens to it, and stays until it is booked for good. Entries of
 * one event-loop turn, and all that come while a commit is under way, share one frame and one sync (group commit). The
 * invariant: an entry is acknowledged exactly if it will be found again by the next `open`; after a failure that leaves this
 * in doubt nothing more is accepted.
 */
import { KeylaneError } from "../errors.js";
import type { Entry } from "./entry.js";
import { spoolFault } from "./fault.js";
import { makeFolder, nothing, takeUp } from "./folder.js";
import type { Found } from "./folder.js";
import {
  ACCOUNT_TOTAL,
  BUDGET_TOTAL,
  DENIAL,
  ENTRY,
  FrameWriter,
  IMPRESSION,
  MAX_RECORD,
  readMore,
  readRecord,
  recordKind,
  recordLength,
} from "./frame.js";
import { Group } from "./group.js";
import { Journal } from "./journal.js";
import type { Recorded } from "./journal.js";
import { Line, offsetOf, placeOf, segmentOf } from "./line.js";
import type { Place } from "./line.js";
import { FolderLock } from "./lock.js";
import type { LedgerPolicy, LedgerTuning } from "./policy.js";
import { FileSegment, MemorySegment } from "./segment.js";
import type { Segment } from "./segment.js";

/** A sequence number is never given twice, even by a spool that was copied back: each opening begins beyond what was. */
const JUMP = 1_000_000;
const PER_MS = 256;

/** A segment and what of it is not booked. */
interface Kept {
  readonly segment: Segment;
  entries: number;
  open: number;
  /** When the last of its entries was booked, `performance.now()`. */
  settledAt: number;
}

export class Spool {
  readonly id: string;
  /** The first sequence number of this opening. */
  readonly first: number;
  readonly lines: Map<string, Line>;
  /** Spent of each budget, as acknowledged. */
  readonly budgets: Map<string, bigint>;
  /** Impressions and denials in it. */
  readonly journal: Journal;
  /** Entries acknowledged and not booked. */
  pending = 0;
  /** Called with the accounts of the entries that were acknowledged, once each. */
  committed: (lines: Set<Line>) => void = () => undefined;
  readonly #policy: LedgerPolicy;
  readonly #tuning: LedgerTuning;
  readonly #lock: FolderLock | null;
  readonly #kept = new Map<number, Kept>();
  #active: Kept | null = null;
  #seq: number;
  /** Entries taken and not settled. */
  #taken = 0;
  #group = new Group();
  #running: Promise<void> | null = null;
  #rotate = false;
  #sealed = false;
  #broken: KeylaneError | null = null;

  private constructor(policy: LedgerPolicy, tuning: LedgerTuning, lock: FolderLock | null, found: Found) {
    this.#policy = policy;
    this.#tuning = tuning;
    this.#lock = lock;
    this.id = found.id;
    this.lines = found.lines;
    this.budgets = found.budgets;
    this.first = Math.max(found.last + JUMP, Date.now() * PER_MS);
    this.#seq = this.first;
    this.journal = new Journal(found.journal, (place) => this.record(place));
    for (const { segment, entries } of found.kept) {
      this.#kept.set(segment.number, { segment, entries, open: entries, settledAt: performance.now() });
      this.pending += entries;
    }
  }

  /**
   * Opens the spool of the policy's folder and takes up what is in it. `tell` hears of bytes that a crash left unfinished.
   *
   * @throws KeylaneError `KEYLANE_ERR_SPOOL`: the folder is in use, damaged, or cannot be written
   */
  static async open(policy: LedgerPolicy, tuning: LedgerTuning, tell: (fault: KeylaneError) => void): Promise<Spool> {
    const { directory } = policy;
    let spool: Spool | null = null;
    let lock: FolderLock | null = null;
    try {
      if (directory === null) spool = new Spool(policy, tuning, null, nothing());
      else {
        await makeFolder(directory);
        lock = await FolderLock.take(directory, () => spool?.break(spoolFault(directory, "its lock was taken away")));
        spool = new Spool(policy, tuning, lock, await takeUp(directory, tell));
      }
      await spool.#begin();
      return spool;
    } catch (error) {
      spool?.close();
      lock?.free();
      throw error instanceof KeylaneError ? error : spoolFault(directory ?? "in memory", "it cannot be opened", error);
    }
  }

  /**
   * Takes an entry; resolves when it is acknowledged. Of several taken in one turn, all get the same promise. With `more`, at most
   * `MAX_MORE` bytes, it is the entry of an impression.
   */
  add(account: string, id: string, amount: bigint, at: number, budget: string, more = ""): Promise<void> {
    if (this.#broken !== null) return Promise.reject(this.#broken);
    if (this.#sealed) return Promise.reject(this.#closedFault());
    if (this.pending + this.#taken >= this.#policy.maxPending) {
      const message = `ledger: ${this.#policy.maxPending} entries wait to be booked (maxPending)`;
      return Promise.reject(new KeylaneError("KEYLANE_ERR_OVERLOADED", message, { domain: this.#policy.domain }));
    }
    let line = this.lines.get(account);
    if (line === undefined) this.lines.set(account, (line = new Line(account)));
    const group = this.#group;
    const seq = this.#seq;
    this.#seq = seq + 1;
    this.#taken += 1;
    group.taken += 1;
    group.lines.push(line);
    const kind = more === "" ? ENTRY : IMPRESSION;
    const offset = group.frame.add(kind, { seq, account, id, amount, at, budget }, more);
    if (more !== "") group.marked.push({ kind, id, offset, more });
    group.offsets.push(offset);
    group.seqs.push(seq);
    group.amounts.push(amount);
    group.budgets.push(budget);
    this.#schedule();
    return group.promise;
  }

  /** Writes that an impression was denied, with the answer; resolves when it is acknowledged. */
  deny(id: string, at: number, more: string): Promise<void> {
    if (this.#broken !== null) return Promise.reject(this.#broken);
    if (this.#sealed) return Promise.reject(this.#closedFault());
    const group = this.#group;
    this.#taken += 1;
    group.taken += 1;
    const offset = group.frame.add(DENIAL, { seq: 0, account: "", id, amount: 0n, at, budget: "" }, more);
    group.marked.push({ kind: DENIAL, id, offset, more });
    this.#schedule();
    return group.promise;
  }

  /** Resolves when all entries taken so far are settled. */
  async drained(): Promise<void> {
    while (this.#running !== null) await this.#running;
  }

  /** The entry at a place. @throws KeylaneError `KEYLANE_ERR_SPOOL` when it cannot be read */
  read(place: Place): Entry {
    const kept = this.#kept.get(segmentOf(place));
    if (kept === undefined) throw this.#closedFault();
    const offset = offsetOf(place);
    try {
      return readRecord(kept.segment.read(offset, MAX_RECORD), 0);
    } catch (error) {
      const where = this.#policy.directory ?? "in memory";
      throw spoolFault(where, `segment ${kept.segment.number} cannot be read at byte ${offset}`, error);
    }
  }

  /** The whole record at a place. @throws KeylaneError `KEYLANE_ERR_SPOOL` when it cannot be read */
  record(place: Place): Recorded {
    const entry = this.read(place);
    const { segment } = this.#kept.get(segmentOf(place))!;
    const offset = offsetOf(place);
    let bytes = segment.read(offset, MAX_RECORD);
    const length = recordLength(bytes, 0);
    if (length > bytes.length) bytes = segment.read(offset, length);
    return { kind: recordKind(bytes, 0), entry, more: readMore(bytes, 0) };
  }

  /** Sequence number of the entry before an index of a line. */
  before(line: Line, index: number): number {
    return index === 0 ? line.left : this.read(line.at(index - 1)).seq;
  }

  /** Entries [from, to) of a line are booked (`now`), or, with `open`, are not any more. */
  settle(line: Line, from: number, to: number, open: boolean): void {
    for (let index = from; index < to; index += 1) {
      const kept = this.#kept.get(segmentOf(line.at(index)))!;
      kept.open += open ? 1 : -1;
      if (kept.open === 0) kept.settledAt = performance.now();
    }
    this.pending += open ? to - from : from - to;
  }

  /** Number of the oldest segment when all of it has been booked for long enough to leave; null otherwise. */
  leaving(): number | null {
    const [kept] = this.#kept.values();
    if (kept === undefined || kept.open > 0) return null;
    const { number } = kept.segment;
    if (this.journal.isOpen(number)) return null;
    const used = kept.entries > 0 || this.journal.count(number) > 0;
    if (used && performance.now() - kept.settledAt < this.#policy.keepBookedMs) return null;
    if (kept !== this.#active) return number;
    if (!used) return null;
    this.#rotate = true;
    this.#schedule();
    return null;
  }

  /** Removes the oldest segment. `lines` are the accounts with entries in it. */
  leave(number: number, lines: Iterable<Line>): void {
    for (const line of lines) {
      const count = line.upTo(number);
      if (count > 0) line.leave(count, this.read(line.at(count - 1)).seq);
    }
    this.#kept.get(number)!.segment.close(true);
    this.#kept.delete(number);
    this.journal.leave(number);
  }

  /** Entries that are booked and kept. */
  get kept(): number {
    let entries = 0;
    for (const kept of this.#kept.values()) entries += kept.entries;
    return entries - this.pending;
  }

  /** Accepts nothing more. */
  break(fault: KeylaneError): void {
    this.#broken ??= fault;
  }

  /** Takes no more entries; those taken are still acknowledged. */
  seal(): void {
    this.#sealed = true;
  }

  /** Ends it at once; entries not acknowledged are refused. */
  close(): void {
    this.break(this.#closedFault());
    for (const { segment } of this.#kept.values()) segment.close(false);
    this.#kept.clear();
    this.#lock?.free();
  }

  #closedFault(): KeylaneError {
    return new KeylaneError("KEYLANE_ERR_CLOSED", "the ledger is closed", { domain: this.#policy.domain });
  }

  // ── commits ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #schedule(): void {
    this.#running ??= new Promise((resolve) => {
      setImmediate(() => {
        void this.#run().then(resolve);
      });
    });
  }

  async #run(): Promise<void> {
    while (this.#group.taken > 0 || this.#rotate) {
      const group = this.#group;
      this.#group = new Group();
      try {
        if (this.#broken !== null) throw this.#broken;
        const { segment } = this.#active!;
        if (this.#rotate || segment.size >= this.#tuning.segmentBytes) await this.#begin();
        if (group.taken > 0) await this.#commit(group);
      } catch (error) {
        this.#refuse(group, error);
      }
      this.#taken -= group.taken;
    }
    // In the same step as the last look: what is added from now on begins another run.
    this.#running = null;
  }

  async #commit(group: Group): Promise<void> {
    const kept = this.#active!;
    const { segment } = kept;
    const base = segment.size;
    await segment.append(group.frame.seal());
    const { lines, offsets, seqs, amounts, budgets, marked } = group;
    for (const [index, line] of lines.entries()) {
      line.push(placeOf(segment.number, base + offsets[index]!), seqs[index]!, amounts[index]!);
      const budget = budgets[index]!;
      if (budget !== "") this.budgets.set(budget, (this.budgets.get(budget) ?? 0n) + amounts[index]!);
    }
    kept.entries += seqs.length;
    kept.open += seqs.length;
    this.pending += seqs.length;
    if (seqs.length === 0) kept.settledAt = performance.now();
    for (const { kind, id, offset, more } of marked) {
      this.journal.put(segment.number, base + offset, id, kind, more);
    }
    group.resolve();
    this.committed(new Set(lines));
  }

  #refuse(group: Group, error: unknown): void {
    this.#rotate = false;
    const torn = this.#active?.segment.torn === true;
    const where = this.#policy.directory ?? "in memory";
    const outcome = torn ? "unknown" : "not-sent";
    const fault = error instanceof KeylaneError ? error : spoolFault(where, "it cannot be written", error, outcome);
    if (torn) this.break(fault);
    if (group.taken > 0) group.reject(fault);
  }

  /** Begins a segment, with what the ones before it come to. */
  async #begin(): Promise<void> {
    const number = Math.max(0, ...this.#kept.keys()) + 1;
    const head = new FrameWriter();
    const none = { amount: 0n, budget: "" };
    for (const { account, last: seq, count: at, sum } of this.lines.values()) {
      if (at > 0) head.add(ACCOUNT_TOTAL, { seq, account, id: String(sum), at, ...none });
    }
    for (const [account, spent] of this.budgets) {
      head.add(BUDGET_TOTAL, { seq: 0, account, id: String(spent), at: 0, ...none });
    }
    const { directory } = this.#policy;
    const segment =
      directory === null
        ? new MemorySegment(number, head.seal())
        : await FileSegment.create(directory, number, head.seal());
    await this.#active?.segment.seal();
    this.#active = { segment, entries: 0, open: 0, settledAt: performance.now() };
    this.#kept.set(number, this.#active);
    this.#rotate = false;
  }
}
