/**
 * Budgets, spent from leases taken in advance. The invariant: this process never spends beyond `may`, which the servers have set
 * aside for it, so all spenders together never spend beyond the limit; and what it says it has spent counts every charge
 * that the spool holds.
 *
 * ```text
 * spent of this holder ──▶│ may be spent without asking │ reserve, returned by the servers when the lease ends │
 *                       spent                          may                                               may + keep
 * ```
 */
import { KeylaneError } from "../errors.js";
import type { Script } from "../lane/script.js";
import type { CallOptions } from "../types.js";
import type { Entry } from "./entry.js";
import { budgetKey } from "./keys.js";
import type { Budget, LedgerPolicy, LedgerServers } from "./policy.js";
import type { Spool } from "./spool.js";

/** Holders and budgets that nobody has touched for so long are forgotten by the servers. */
const IDLE_MS = 90 * 86_400_000;
/** A lease is renewed so many times in its life. */
const RENEWALS = 3;
/** The reserve wished for, in charges like the one that asks. */
const LEAST_CHARGES = 64;

interface Waiting {
  readonly amount: number;
  readonly call: CallOptions;
  resolve(charged: boolean): void;
  reject(error: KeylaneError): void;
}

/** What this process holds of one budget. Minor units, all below 2^53. */
interface Lease {
  readonly name: string;
  limit: number;
  /** Ever spent by this holder. */
  spent: number;
  may: number;
  keep: number;
  n: number;
  /** The servers may know of it. */
  asked: boolean;
  /** Spent when the lease was last renewed. */
  renewed: number;
  /** Charges since the last renewal. */
  charges: number;
  readonly waiting: Waiting[];
  asking: Promise<void> | null;
}

export class Budgets {
  readonly #spool: Spool;
  readonly #policy: LedgerPolicy;
  readonly #script: Script;
  readonly #leases = new Map<string, Lease>();
  readonly #timer: NodeJS.Timeout;
  #closed = false;

  constructor(spool: Spool, policy: LedgerPolicy, servers: LedgerServers, source: string) {
    this.#spool = spool;
    this.#policy = policy;
    this.#script = servers.script(source);
    this.#timer = setInterval(() => this.#renew(), policy.leaseMs / RENEWALS).unref();
    // What an earlier life of this spool was allowed to spend and did not, goes back.
    for (const name of spool.budgets.keys()) void this.#return(this.#lease(name), "return").catch(() => undefined);
  }

  /** Takes an amount out of a budget. False when there is not enough left. */
  async take({ name, limit }: Budget, amount: bigint, call: CallOptions): Promise<boolean> {
    const lease = this.#lease(name);
    lease.limit = Number(limit);
    const value = Number(amount);
    if (lease.waiting.length === 0 && spend(lease, value)) {
      if (lease.may - lease.spent < value && lease.keep > 0 && lease.asking === null) this.#serve(lease);
      return true;
    }
    return new Promise((resolve, reject) => {
      lease.waiting.push({ amount: value, call, resolve, reject });
      this.#serve(lease);
    });
  }

  /** Puts back what was taken and not spent after all. */
  putBack(name: string, amount: bigint): void {
    this.#lease(name).spent -= Number(amount);
  }

  /** An entry turned out to be a duplicate: its budget was charged twice. */
  refund({ budget, amount }: Entry): void {
    if (budget === "") return;
    this.putBack(budget, amount);
    this.#spool.budgets.set(budget, this.#spool.budgets.get(budget)! - amount);
  }

  /** What may be spent of a budget without asking. */
  leased(name: string): bigint {
    const lease = this.#leases.get(name);
    return lease === undefined ? 0n : BigInt(Math.max(0, lease.may - lease.spent));
  }

  /** Returns all leases; resolves when the servers have them, or cannot be reached. */
  async close(): Promise<void> {
    this.end();
    const how = this.#policy.mode === "fast" ? "end" : "return";
    const held = [...this.#leases.values()].filter(({ asked }) => asked);
    await Promise.allSettled(held.map((lease) => this.#return(lease, how)));
  }

  /** Ends it at once. */
  end(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    const fault = new KeylaneError("KEYLANE_ERR_CLOSED", "the ledger is closed", { domain: this.#policy.domain });
    for (const { waiting } of this.#leases.values()) for (const { reject } of waiting.splice(0)) reject(fault);
  }

  #lease(name: string): Lease {
    let lease = this.#leases.get(name);
    if (lease === undefined) {
      const spent = Number(this.#spool.budgets.get(name) ?? 0n);
      // Requests of an earlier life have lower numbers.
      const n = Date.now();
      const fresh = { keep: 0, asked: false, charges: 0, waiting: [], asking: null };
      lease = { name, limit: 0, spent, may: spent, n, renewed: spent, ...fresh };
      this.#leases.set(name, lease);
    }
    return lease;
  }

  /** Asks for more while somebody waits. */
  #serve(lease: Lease): void {
    if (lease.asking !== null) return;
    lease.asking = this.#askAll(lease).finally(() => {
      lease.asking = null;
      if (lease.waiting.length > 0) this.#serve(lease);
    });
  }

  async #askAll(lease: Lease): Promise<void> {
    const [first] = lease.waiting;
    try {
      await this.#ask(lease, first?.amount ?? 0, "lease", first?.call ?? {});
    } catch (error) {
      // All wait for the same answer; none of them was charged.
      for (const { reject } of lease.waiting.splice(0)) reject(error as KeylaneError);
      return;
    }
    if (first !== undefined && lease.waiting[0] === first) {
      lease.waiting.shift();
      first.resolve(spend(lease, first.amount));
    }
    while (lease.waiting.length > 0 && spend(lease, lease.waiting[0]!.amount)) lease.waiting.shift()!.resolve(true);
  }

  async #ask(lease: Lease, need: number, how: "lease" | "return" | "end", call: CallOptions): Promise<void> {
    const { leaseMs, prefix } = this.#policy;
    lease.n += 1;
    lease.asked = true;
    const spentSince = lease.spent - lease.renewed;
    const wish = Math.max(need * LEAST_CHARGES, 2 * spentSince, how === "lease" ? lease.keep : 0);
    const { n, spent, may, limit } = lease;
    const numbers = [n, spent, may, need, wish, limit, leaseMs, IDLE_MS];
    const reply = (await this.#script.run(
      budgetKey(prefix, lease.name),
      [this.#spool.id, ...numbers, how],
      call,
    )) as string[];
    lease.may = how === "lease" ? Number(reply[0]) : lease.may;
    lease.keep = Number(reply[1]);
  }

  /** Gives back what is not spent. Nothing can be spent meanwhile: `may` is lowered first. */
  #return(lease: Lease, how: "return" | "end"): Promise<void> {
    lease.may = lease.spent;
    lease.keep = 0;
    const asked = (lease.asking ?? Promise.resolve()).then(() => {
      lease.may = lease.spent;
      return this.#ask(lease, 0, how, {});
    });
    const done = asked.finally(() => {
      if (lease.asking === marker) lease.asking = null;
      if (!this.#closed && lease.waiting.length > 0) this.#serve(lease);
    });
    const marker = done.catch(() => undefined);
    lease.asking = marker;
    return done;
  }

  /** Tells what was spent, keeps leases in use alive, and returns those that are not. */
  #renew(): void {
    for (const lease of this.#leases.values()) {
      if (lease.asking !== null || (lease.may <= lease.spent && lease.keep === 0)) continue;
      const { charges } = lease;
      lease.charges = 0;
      if (charges === 0) void this.#return(lease, "return").catch(() => undefined);
      else this.#serve(lease);
      lease.renewed = lease.spent;
    }
  }
}

/** Spends when it may. */
function spend(lease: Lease, amount: number): boolean {
  if (lease.spent + amount > lease.may) return false;
  lease.spent += amount;
  lease.charges += 1;
  return true;
}
