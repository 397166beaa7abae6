/**
 * Finds what the servers have lost. After each change of connections or roles all accounts with booked entries are suspects, until
 * their servers confirm the sequence number of the last booking. The invariant: entries leave the spool only when the
 * servers have just confirmed them.
 */
import type { Script } from "../lane/script.js";
import { bookKey } from "./keys.js";
import { segmentOf } from "./line.js";
import type { Line } from "./line.js";
import type { LedgerPolicy, LedgerServers } from "./policy.js";
import type { Spool } from "./spool.js";

/** Accounts asked for at once. */
const WIDTH = 256;

export class Auditor {
  readonly #spool: Spool;
  readonly #policy: LedgerPolicy;
  readonly #servers: LedgerServers;
  readonly #read: Script;
  readonly #ending: AbortSignal;
  readonly #lost: (line: Line, mark: number) => void;
  #upheavals: number;
  readonly #suspects = new Set<Line>();
  #busy = false;

  /** `lost` hears that the servers have a line only up to `mark`. */
  constructor(
    spool: Spool,
    policy: LedgerPolicy,
    servers: LedgerServers,
    read: Script,
    ending: AbortSignal,
    lost: (line: Line, mark: number) => void,
  ) {
    this.#spool = spool;
    this.#policy = policy;
    this.#servers = servers;
    this.#read = read;
    this.#ending = ending;
    this.#lost = lost;
    this.#upheavals = servers.upheavals();
  }

  /** Looks whether there is something to audit, or to let go. Never rejects. */
  async tick(): Promise<void> {
    if (this.#busy || this.#ending.aborted) return;
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
    for (let from = 0; from < lines.length; from += WIDTH) {
      const part = lines.slice(from, from + WIDTH);
      const results = await Promise.allSettled(part.map((line) => this.#auditOne(line)));
      if (this.#ending.aborted) return;
      const failed = results.find((result) => result.status === "rejected");
      if (failed !== undefined) throw failed.reason;
    }
  }

  async #auditOne(line: Line): Promise<void> {
    const seq = line.booked === 0 ? 0 : this.#spool.before(line, line.booked);
    const key = bookKey(this.#policy.prefix, line.account);
    const reply = await this.#read.run(key, [`${this.#spool.id}:seq`], { signal: this.#ending });
    if (this.#ending.aborted) return;
    const [told] = reply as [string | null];
    const mark = Number(told ?? 0);
    // A booking that is under way meets the gap itself.
    if (mark < seq && line.busy) throw new Error("under way");
    this.#suspects.delete(line);
    if (mark < seq) this.#lost(line, mark);
  }

  /** The oldest segment leaves once the servers confirm each account's share of it. */
  async #letLeave(): Promise<void> {
    const number = this.#spool.leaving();
    if (number === null) return;
    const lines = [...this.#spool.lines.values()].filter((line) => line.length > 0 && segmentOf(line.at(0)) <= number);
    await this.#audit(lines);
    if (!this.#ending.aborted && this.#spool.leaving() === number) this.#spool.leave(number, lines);
  }
}
