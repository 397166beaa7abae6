/**
 * Calls of `flush` that wait. Each knows by account up to where it waits. The invariant: a call is held only while somebody waits
 * for it, and it ends when each of its accounts is booked or known not to be bookable.
 */
import type { KeylaneError } from "../errors.js";
import type { Line } from "./line.js";

interface Wait {
  readonly seq: number;
  /** Attempts that had begun when it came: their failures are none of its own. */
  readonly attempts: number;
}

/** One call. */
class Flush {
  readonly waits = new Map<Line, Wait>();
  fault: KeylaneError | null = null;
  end!: () => void;
  readonly ended = new Promise<void>((resolve) => {
    this.end = resolve;
  });

  settle(line: Line, fault: KeylaneError | null): void {
    this.fault ??= fault;
    this.waits.delete(line);
    if (this.waits.size === 0) this.end();
  }
}

export class Flushes {
  readonly #waiting = new Set<Flush>();

  /**
   * Resolves when what the lines hold now is booked, or when the signal says that nobody waits any more.
   *
   * @throws (rejects) KeylaneError of the first account that cannot be booked, when all others are
   */
  async wait(lines: Iterable<Line>, signal: AbortSignal | undefined): Promise<void> {
    const flush = new Flush();
    for (const line of lines) flush.waits.set(line, { seq: line.last, attempts: line.attempts });
    if (flush.waits.size === 0 || signal?.aborted === true) return;
    signal?.addEventListener("abort", flush.end, { once: true });
    this.#waiting.add(flush);
    await flush.ended;
    this.#waiting.delete(flush);
    if (flush.fault !== null) throw flush.fault;
  }

  /** A line is booked up to a sequence number. */
  booked(line: Line, seq: number): void {
    for (const flush of this.#waiting) {
      const wait = flush.waits.get(line);
      if (wait !== undefined && wait.seq <= seq) flush.settle(line, null);
    }
  }

  /** The line's last attempt failed, and another one will, too. */
  failed(line: Line, fault: KeylaneError): void {
    for (const flush of this.#waiting) {
      const wait = flush.waits.get(line);
      if (wait !== undefined && wait.attempts < line.attempts) flush.settle(line, fault);
    }
  }

  /** Ends all of them. */
  end(fault: KeylaneError): void {
    for (const flush of this.#waiting) {
      flush.fault ??= fault;
      flush.end();
    }
  }
}
