/**
 * History of registers: keys that are set and read through one client, which promises that operations of one key run in the
 * order of issue. Writes of a key are numbered; a read that was issued after write `p` and saw write `r` is right when
 *
 * ```text
 * r was written, r ≤ the last write issued before the read ended,
 * and no acknowledged write lies in (r, p] — unless r's own fate is unknown: it may then still run late
 * ```
 *
 * Reads from replicas may be older by `staleMs`: then only writes acknowledged so long before the read began count. A write
 * that a dying primary acknowledged and its replica never had is excused and proves nothing any more. Memory is bounded by
 * what is in flight and the latest writes.
 */
import type { Ending, Violation } from "./counters.js";

/** Writes of a key remembered by number. */
const MEMORY = 512;

interface Write {
  ending: Ending | "open" | "excused";
  at: number;
}

interface Read {
  /** Last write issued before the read was. */
  readonly after: number;
  readonly saw: number;
  /** Acknowledgements after this moment do not bind it. */
  readonly horizon: number;
}

class Register {
  last = 0;
  /** Writes from number `first` on. */
  first = 1;
  writes: Write[] = [];
  /** Reads that wait for writes issued before them to end. */
  waiting: Read[] = [];
  /** Until when acknowledgements are excused as they come. */
  shakyUntil = 0;

  of(number: number): Write | undefined {
    return this.writes[number - this.first];
  }
}

export class RegisterHistory {
  readonly violations: Violation[] = [];
  reads = 0;
  readonly #registers = new Map<string, Register>();
  readonly #staleMs: number;

  /** `staleMs`: how much older than its beginning a read may be; 0 demands the client's order. */
  constructor(staleMs = 0) {
    this.#staleMs = staleMs;
  }

  /** A write is about to be sent: its number and the value to store. */
  write(key: string): { number: number; value: string } {
    const register = this.#of(key);
    register.last += 1;
    register.writes.push({ ending: "open", at: 0 });
    if (register.writes.length > 2 * MEMORY) {
      register.writes.splice(0, MEMORY);
      register.first += MEMORY;
    }
    return { number: register.last, value: `${key}#${register.last}` };
  }

  /** A write ended. */
  wrote(key: string, number: number, ending: Ending): void {
    const register = this.#of(key);
    const write = register.of(number);
    if (write === undefined) return;
    write.at = performance.now();
    write.ending = ending === "acknowledged" && write.at <= register.shakyUntil ? "excused" : ending;
    this.#settle(key, register);
  }

  /** A read is about to be sent; give the result to `saw`. */
  read(key: string): number {
    return this.#of(key).last;
  }

  /** A read that began at `began` (`performance.now`) gave a value, or null for none. */
  saw(key: string, after: number, value: string | null, began = performance.now()): void {
    this.reads += 1;
    const register = this.#of(key);
    const number = value === null ? 0 : this.#numberOf(key, value, register);
    if (number === null) return;
    const horizon = this.#staleMs === 0 ? Infinity : began - this.#staleMs;
    register.waiting.push({ after, saw: number, horizon });
    this.#settle(key, register);
  }

  /** A server is about to lose the writes it acknowledges between two moments; the second lies in the future. */
  excuse(key: string, from: number, to: number): void {
    const register = this.#of(key);
    for (const write of register.writes) {
      if (write.ending === "acknowledged" && write.at >= from) write.ending = "excused";
    }
    register.shakyUntil = Math.max(register.shakyUntil, to);
  }

  /** Reads that could not be judged because a write before them never ended. */
  get undecided(): number {
    let count = 0;
    for (const { waiting } of this.#registers.values()) count += waiting.length;
    return count;
  }

  #numberOf(key: string, value: string, register: Register): number | null {
    const [name, number] = value.split("#") as [string, string | undefined];
    if (name === key && /^\d+$/.test(number ?? "") && Number(number) <= register.last) return Number(number);
    this.#blame(key, `read ${JSON.stringify(value)}, which nobody wrote`);
    return null;
  }

  /** Judges the reads whose earlier writes have all ended. */
  #settle(key: string, register: Register): void {
    register.waiting = register.waiting.filter((read) => {
      for (let number = Math.max(read.saw + 1, register.first); number <= read.after; number += 1) {
        if (register.of(number)!.ending === "open") return true;
      }
      this.#judge(key, register, read);
      return false;
    });
  }

  #judge(key: string, register: Register, { after, saw, horizon }: Read): void {
    const fate = register.of(saw)?.ending;
    if (fate === "unknown" || fate === "open") return;
    if (fate === "rejected") this.#blame(key, `read write ${saw}, which was said not to have run`);
    for (let number = Math.max(saw + 1, register.first); number <= after; number += 1) {
      const { ending, at } = register.of(number)!;
      if (ending === "acknowledged" && at <= horizon) {
        this.#blame(key, `read write ${saw} though ${number} was acknowledged and issued before the read`);
        return;
      }
    }
  }

  #blame(key: string, what: string): void {
    this.violations.push({ key, what, at: performance.now() });
  }

  #of(key: string): Register {
    let register = this.#registers.get(key);
    if (register === undefined) {
      register = new Register();
      this.#registers.set(key, register);
    }
    return register;
  }
}
