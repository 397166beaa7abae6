/**
 * History of counters. Every increment ends as one of three: acknowledged (it ran, once), rejected (it certainly did not run)
 * or unknown. The invariant that `check` proves for each key, with `lost` being what a server forgot in a forced failover:
 *
 * ```text
 * acknowledged − excused  ≤  final value  ≤  acknowledged + unknown
 * ```
 *
 * `excused` counts the increments acknowledged so shortly before a primary died that its replica may not have had them.
 */

/** How one write ended. */
export type Ending = "acknowledged" | "rejected" | "unknown";

/** A fault of the client under test. */
export interface Violation {
  readonly key: string;
  readonly what: string;
  /** When it was seen, on the `performance.now` clock. */
  readonly at: number;
}

interface Acknowledged {
  readonly at: number;
  readonly by: number;
}

/** Acknowledgements are kept so long (ms), so that a failover can excuse the latest. */
const MEMORY_MS = 5000;

class Counter {
  acknowledged = 0;
  unknown = 0;
  rejected = 0;
  excused = 0;
  /** Increments without end so far. */
  open = 0;
  /** Ticket and value of the latest acknowledged increment, by order of issue. */
  lastTicket = 0;
  lastValue = 0;
  recent: Acknowledged[] = [];
  /** Until when acknowledgements are excused as they come. */
  shakyUntil = 0;
}

/** What `check` found. */
export interface CounterVerdict {
  readonly acknowledged: number;
  readonly unknown: number;
  readonly rejected: number;
  /** Acknowledged increments that the servers lost in failovers. */
  readonly lost: number;
  /** Unknown increments that did run. */
  readonly ran: number;
  /** Increments beyond what even the unknown ones explain: executed twice. */
  readonly doubled: number;
  readonly violations: Violation[];
}

export class CounterHistory {
  readonly #counters = new Map<string, Counter>();
  readonly #violations: Violation[] = [];
  #tickets = 0;

  /** An increment is about to be sent. Give the ticket to `end`. */
  begin(key: string): number {
    this.#of(key).open += 1;
    this.#tickets += 1;
    return this.#tickets;
  }

  /** An increment ended; `value` is the sum it was told when acknowledged. */
  end(key: string, ticket: number, ending: Ending, by: number, value?: number): void {
    const counter = this.#of(key);
    counter.open -= 1;
    counter[ending] += by;
    if (ending !== "acknowledged") return;
    const now = performance.now();
    if (now <= counter.shakyUntil) {
      counter.excused += by;
      return;
    }
    counter.recent.push({ at: now, by });
    if (counter.recent[0]!.at < now - 2 * MEMORY_MS) {
      counter.recent = counter.recent.filter(({ at }) => at >= now - MEMORY_MS);
    }
    if (value === undefined) return;
    // Replies of one key come in the order of issue, and each sum is above the one before.
    if (ticket > counter.lastTicket && value <= counter.lastValue) {
      this.#violations.push({ key, what: `was told ${value} after ${counter.lastValue}`, at: now });
    }
    if (ticket > counter.lastTicket) {
      counter.lastTicket = ticket;
      counter.lastValue = value;
    }
  }

  /**
   * A server is about to lose what it acknowledges between two moments (`performance.now`; the second lies in the future).
   */
  excuse(key: string, from: number, to: number): void {
    const counter = this.#of(key);
    const doubtful = counter.recent.filter(({ at }) => at >= from);
    counter.excused += doubtful.reduce((sum, { by }) => sum + by, 0);
    counter.recent = counter.recent.filter(({ at }) => at < from);
    counter.shakyUntil = Math.max(counter.shakyUntil, to);
    counter.lastValue = 0;
  }

  get keys(): string[] {
    return [...this.#counters.keys()];
  }

  /** Judges the values that the servers hold in the end. */
  check(finals: ReadonlyMap<string, number>): CounterVerdict {
    const violations = [...this.#violations];
    const verdict = { acknowledged: 0, unknown: 0, rejected: 0, lost: 0, ran: 0, doubled: 0, violations };
    for (const [key, counter] of this.#counters) {
      const { acknowledged, unknown, rejected, excused, open } = counter;
      const final = finals.get(key) ?? 0;
      const blame = (what: string): void => void violations.push({ key, what, at: performance.now() });
      if (open > 0) blame(`${open} increments never ended`);
      if (final > acknowledged + unknown) blame(`holds ${final}: ${acknowledged} acknowledged, ${unknown} unknown`);
      if (final < acknowledged - excused)
        blame(`holds ${final}: ${acknowledged} acknowledged, ${excused} of them excused`);
      verdict.acknowledged += acknowledged;
      verdict.unknown += unknown;
      verdict.rejected += rejected;
      verdict.lost += Math.max(0, acknowledged - final);
      verdict.ran += Math.min(unknown, Math.max(0, final - acknowledged));
      verdict.doubled += Math.max(0, final - acknowledged - unknown);
    }
    return verdict;
  }

  #of(key: string): Counter {
    let counter = this.#counters.get(key);
    if (counter === undefined) {
      counter = new Counter();
      this.#counters.set(key, counter);
    }
    return counter;
  }
}
