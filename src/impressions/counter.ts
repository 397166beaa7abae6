/**
 * Counts what is billed: every impression of the spool that is open, again and again until the frequency servers have it. What
 * they may have lost, after each change of their connections or roles and at `open`, is counted again; by its id each
 * impression counts once. The invariant: an impression is settled only by an answer that came after the last such change.
 */
import type { BilledCounts } from "../caps/billed.js";
import type { KeylaneError, KeylaneErrorCode } from "../errors.js";
import type { Journal } from "../ledger/journal.js";
import type { Place } from "../ledger/line.js";
import { readIntent } from "./intent.js";

/** Counts under way. */
const WIDTH = 2048;
/** Those that failed are tried again, so many at each tick until one succeeds. */
const TRIALS = 64;
/** Distance of looks at the connections and at what failed, in milliseconds. */
const TICK_MS = 250;

export class Counter {
  readonly #counts: BilledCounts;
  readonly #journal: Journal;
  readonly #rememberMs: number;
  readonly #tell: (error: KeylaneError) => void;
  readonly #ticker: NodeJS.Timeout;
  #queue: Place[];
  #next = 0;
  #active = 0;
  #failed: Place[] = [];
  #upheavals: number;
  /** Grows with each change of the servers. */
  #era = 0;
  /** What was told last, until something succeeds. */
  #told: KeylaneErrorCode | null = null;
  #ended = false;

  /** Ids are remembered by the frequency servers for `rememberMs` at least. `tell` hears of faults that belong to no call. */
  constructor(counts: BilledCounts, journal: Journal, rememberMs: number, tell: (error: KeylaneError) => void) {
    this.#counts = counts;
    this.#journal = journal;
    this.#rememberMs = rememberMs;
    this.#tell = tell;
    this.#upheavals = counts.upheavals();
    this.#queue = journal.reopen();
    journal.written = (place) => {
      this.#queue.push(place);
      this.#pump();
    };
    this.#ticker = setInterval(() => this.#tick(), TICK_MS).unref();
    this.#pump();
  }

  /** Ends it at once; what is not counted stays in the spool. */
  end(): void {
    this.#ended = true;
    clearInterval(this.#ticker);
  }

  #tick(): void {
    const upheavals = this.#counts.upheavals();
    if (upheavals !== this.#upheavals) {
      this.#upheavals = upheavals;
      this.#era += 1;
      this.#start(this.#journal.reopen());
    } else for (const place of this.#failed.splice(0, TRIALS)) void this.#count(place, true);
  }

  #start(queue: Place[]): void {
    this.#queue = queue;
    this.#next = 0;
    this.#failed = [];
    this.#pump();
  }

  #pump(): void {
    while (!this.#ended && this.#active < WIDTH && this.#next < this.#queue.length) {
      this.#next += 1;
      void this.#count(this.#queue[this.#next - 1]!, false);
    }
    if (this.#next < this.#queue.length) return;
    this.#queue = [];
    this.#next = 0;
  }

  /** Never rejects. */
  async #count(place: Place, again: boolean): Promise<void> {
    const era = this.#era;
    this.#active += 1;
    try {
      const found = this.#journal.at(place);
      if (found === null) return;
      const { user, caps, at } = readIntent(found.more);
      await this.#counts.count(user, caps, found.id, at, this.#rememberMs);
      // What an earlier life of the servers answered says nothing of this one; it is in the queue again.
      if (era !== this.#era || this.#ended) return;
      this.#journal.settle(place);
      this.#told = null;
      if (again && this.#failed.length > 0) this.#start([...this.#queue.slice(this.#next), ...this.#failed]);
    } catch (error) {
      if (era === this.#era && !this.#ended) this.#failing(place, error as KeylaneError);
    } finally {
      this.#active -= 1;
      this.#pump();
    }
  }

  #failing(place: Place, error: KeylaneError): void {
    const { code, retryable } = error;
    // The id was used for other caps meanwhile: nothing will change that.
    if (code === "KEYLANE_ERR_ARGUMENT") this.#journal.settle(place);
    else this.#failed.push(place);
    if (retryable === true || this.#told === code) return;
    this.#told = code;
    this.#tell(error);
  }
}
