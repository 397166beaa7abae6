/**
 * The ledger: amounts booked on accounts, each exactly once. An entry is in the spool before its caller hears of it; the booker
 * takes it to the servers; budgets are spent from leases. The invariant: what was acknowledged is booked, whatever dies.
 */
import { readFileSync } from "node:fs";
import { KeylaneError } from "../errors.js";
import { faultOfMs } from "../lane/arguments.js";
import type { Script } from "../lane/script.js";
import type { CallOptions } from "../types.js";
import { Booker } from "./booker.js";
import { Budgets } from "./budgets.js";
import { assertAccount, checkBudget, checkEntry } from "./entry.js";
import { bookKey } from "./keys.js";
import { LONGEST_MS, TUNING } from "./policy.js";
import type {
  AddOptions,
  Budget,
  ChargeOptions,
  ChargeResult,
  LedgerPending,
  LedgerPolicy,
  LedgerServers,
  LedgerTuning,
} from "./policy.js";
import { RecentCharges } from "./recent.js";
import { Spool } from "./spool.js";

/** The script of a file beside this one. */
function scriptOf(servers: LedgerServers, name: "book" | "lease" | "read"): Script {
  return servers.script(readFileSync(new URL(`./${name}.lua`, import.meta.url), "utf8"));
}

/** What impressions need of a ledger. */
export interface LedgerParts {
  readonly policy: LedgerPolicy;
  readonly spool: Spool;
  readonly budgets: Budgets;
}

/** Billing; `Keylane.ledger`. */
export class Ledger {
  readonly #policy: LedgerPolicy;
  readonly #servers: LedgerServers;
  readonly #spool: Spool;
  readonly #booker: Booker;
  readonly #budgets: Budgets;
  readonly #read: Script;
  readonly #charges = new RecentCharges();
  #closing: Promise<number> | null = null;

  private constructor(policy: LedgerPolicy, servers: LedgerServers, spool: Spool, tuning: LedgerTuning) {
    this.#policy = policy;
    this.#servers = servers;
    this.#spool = spool;
    this.#read = scriptOf(servers, "read");
    this.#budgets = new Budgets(spool, policy, scriptOf(servers, "lease"));
    this.#booker = new Booker(spool, policy, tuning, servers, { book: scriptOf(servers, "book"), read: this.#read });
    this.#booker.onDuplicate = (entry) => this.#budgets.refund(entry);
  }

  /**
   * Opens the spool and begins to book what an earlier process left in it.
   *
   * @internal
   * @throws KeylaneError `KEYLANE_ERR_SPOOL`; `KEYLANE_ERR_OPTIONS` when the domain's prefix leads elsewhere
   */
  static async open(policy: LedgerPolicy, servers: LedgerServers, tuning: LedgerTuning = TUNING): Promise<Ledger> {
    const { domain, prefix } = policy;
    const found = servers.domainOf(bookKey(prefix, "x"));
    if (found !== domain) {
      const message = `ledger.domain: keys that begin with ${JSON.stringify(prefix)} go to ${found}, not to ${domain}`;
      throw new KeylaneError("KEYLANE_ERR_OPTIONS", message);
    }
    const spool = await Spool.open(policy, tuning, (fault) => servers.tell(fault));
    return new Ledger(policy, servers, spool, tuning);
  }

  /**
   * Adds an amount (minor units, may be negative) to an account. Resolves when the entry is safe: on disk in mode `durable`, in
   * memory in mode `fast`; it is booked soon after, or when the servers are back. Of several entries with one id, whoever
   * added them, one is booked.
   *
   * @throws (rejects) KeylaneError `KEYLANE_ERR_ARGUMENT`, `KEYLANE_ERR_TOO_LARGE`; `KEYLANE_ERR_OVERLOADED` when `maxPending`
   * entries wait; `KEYLANE_ERR_SPOOL` when the disk does not take it. With outcome `not-sent` it will not be booked.
   */
  add(account: string, amount: bigint, options: AddOptions): Promise<void> {
    try {
      const at = checkEntry(account, amount, options);
      return this.#spool.add(account, options.id, amount, at, "");
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /**
   * As `add`, for an amount that is taken out of a budget first: `charged` is false, and nothing booked, when the budget has not
   * enough left that is not set aside for others. Asks the servers only when the lease is used up. An id that was charged
   * by this instance a short while ago (65,536 charges) gets the same answer and is not charged again.
   *
   * @throws (rejects) KeylaneError as `add`, and as any call when the servers cannot be asked; it was not charged then
   */
  async charge(account: string, amount: bigint, options: ChargeOptions): Promise<ChargeResult> {
    const at = checkEntry(account, amount, options);
    const budget = checkBudget(account, amount, options.budget);
    const { id } = options;
    const known = this.#charges.get(account, id);
    if (known !== undefined) return known;
    const charge = this.#charge(account, amount, at, budget, options);
    this.#charges.set(account, id, charge);
    return charge;
  }

  async #charge(
    account: string,
    amount: bigint,
    at: number,
    budget: Budget,
    { id, timeoutMs, signal }: ChargeOptions,
  ): Promise<ChargeResult> {
    const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
    if (fault !== null) throw fault;
    const charged = await this.#budgets.take(budget, amount, { timeoutMs, signal });
    if (charged) {
      try {
        await this.#spool.add(account, id, amount, at, budget.name);
      } catch (error) {
        if ((error as KeylaneError).outcome === "not-sent") this.#budgets.putBack(budget.name, amount);
        throw error;
      }
    }
    return { charged, leased: this.#budgets.leased(budget.name) };
  }

  /** What is booked on an account at the servers; 0 for an account that nothing was ever booked on. */
  async balance(account: string, options?: CallOptions): Promise<bigint> {
    assertAccount(account);
    const reply = await this.#read.run(bookKey(this.#policy.prefix, account), ["balance"], options);
    const [balance] = reply as [string | null];
    return BigInt(balance ?? 0);
  }

  /**
   * Resolves when everything added so far is booked, and every impression counted.
   *
   * @throws (rejects) KeylaneError of an account that cannot be booked (for example `KEYLANE_ERR_OVERFLOW`), when all others are;
   * `KEYLANE_ERR_TIMEOUT` after `timeoutMs` (default: never). Entries stay, and are booked as soon as they can be.
   */
  async flush({ timeoutMs }: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
    if (fault !== null) throw fault;
    const expiry = new AbortController();
    const flushed = this.#settled(expiry.signal);
    if (timeoutMs === undefined) return flushed;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => {
          const { pending, journal } = this.#spool;
          const what = `${pending} entries are not booked, ${journal.uncounted} impressions not counted`;
          const message = `ledger.flush: ${what} after ${timeoutMs} ms; they are kept`;
          reject(
            new KeylaneError("KEYLANE_ERR_TIMEOUT", message, { domain: this.#policy.domain, outcome: "not-sent" }),
          );
          expiry.abort();
        },
        Math.min(timeoutMs, LONGEST_MS),
      );
    });
    flushed.catch(() => undefined);
    return Promise.race([flushed, late]).finally(() => clearTimeout(timer));
  }

  async #settled(signal: AbortSignal): Promise<void> {
    await this.#spool.drained();
    const counted = this.#spool.journal.counted(signal);
    await this.#booker.flush(signal);
    await counted;
  }

  /** What waits, and what troubles it. O(accounts). */
  pending(): LedgerPending {
    const { pending: entries, kept, lines, journal } = this.#spool;
    let accounts = 0;
    for (const line of lines.values()) if (line.open > 0) accounts += 1;
    const { rebooked, duplicates, failing } = this.#booker;
    return { entries, accounts, kept, uncounted: journal.uncounted, rebooked, duplicates, failing };
  }

  /** What impressions are made of. @internal */
  get parts(): LedgerParts {
    return { policy: this.#policy, spool: this.#spool, budgets: this.#budgets };
  }

  /**
   * Books what it can until `timeoutMs`, returns leases, and closes the spool. What is not booked stays there; in mode `fast` it
   * is lost, which an `error` event tells for each account. Resolves with how many entries were lost.
   *
   * @internal
   */
  close(timeoutMs: number): Promise<number> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  /** Ends it at once. @internal */
  destroy(): void {
    this.#budgets.end();
    this.#booker.close();
    this.#spool.close();
  }

  async #close(timeoutMs: number): Promise<number> {
    const began = performance.now();
    this.#spool.seal();
    await this.flush({ timeoutMs: Math.max(1, Math.ceil(timeoutMs)) }).catch(() => undefined);
    const left = Math.max(1, timeoutMs - (performance.now() - began));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, Math.min(left, LONGEST_MS));
    });
    await Promise.race([this.#budgets.close(), late]);
    clearTimeout(timer);
    const lost = this.#policy.mode === "fast" ? this.#tellLost() : 0;
    this.destroy();
    return lost;
  }

  #tellLost(): number {
    let lost = 0;
    for (const line of this.#spool.lines.values()) {
      if (line.open === 0) continue;
      lost += line.open;
      let sum = 0n;
      for (let index = line.booked; index < line.length; index += 1) sum += this.#spool.read(line.at(index)).amount;
      const message = `ledger: ${line.open} entries of account ${JSON.stringify(line.account)}, ${sum} in all, were not booked`;
      this.#servers.tell(new KeylaneError("KEYLANE_ERR_LOST", message, { domain: this.#policy.domain }));
    }
    return lost;
  }
}
