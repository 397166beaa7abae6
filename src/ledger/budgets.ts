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
import { IDLE_MS, LONGEST_MS } from "./policy.js";
import type { Budget, LedgerPolicy } from "./policy.js";
import type { Spool } from "./spool.js";

/** A lease is renewed so many times in its life. */
const RENEWALS = 3;
/** The reserve wished for, in charges like the one that asks. */
const LEAST_CHARGES = 64;

/** A charge that waits for an answer of the servers, at most as long as its caller wishes. */
class Waiting {
  readonly amount: number;
  settle!: (charged: boolean) => void;
  fail!: (fault: KeylaneError) => void;
  readonly answer = new Promise<boolean>((resolve, reject) => {
    this.settle = resolve;
    this.fail = reject;
  });

  /** `left` hears that the caller does not wait any more. */
  constructor(amount: number, { timeoutMs, signal }: CallOptions, left: () => void) {
    this.amount = amount;
    if (timeoutMs === undefined && signal === undefined) return;
    const leave = (fault: KeylaneError): void => {
      left();
      this.fail(fault);
    };
    const abort = (): void => leave(aborted(signal!));
    signal?.addEventListener("abort", abort, { once: true });
    const message = `ledger.charge: the servers have not answered within ${timeoutMs} ms; nothing is charged`;
    const late = (): void => leave(new KeylaneError("KEYLANE_ERR_TIMEOUT", message, { outcome: "not-sent" }));
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, Math.min(timeoutMs, LONGEST_MS));
    const unwatch = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    this.answer.then(unwatch, unwatch);
  }
}

/** What this process holds of one budget. Minor units, all below 2^53. */
interface Lease {
  readonly name: string;
  limit: number;
  /** Ever spent by this holder. */
  spent: number;
  may: number;
  keep: number;
  /** Number of its last request. */
  n: number;
  /** The servers may have set something aside for it. */
  held: boolean;
  /** Spent when the lease was last renewed. */
  renewed: number;
  /** Charges since the last renewal. */
  charges: number;
  readonly waiting: Set<Waiting>;
  asking: Promise<unknown> | null;
}

export class Budgets {
  readonly #spool: Spool;
  readonly #policy: LedgerPolicy;
  readonly #script: Script;
  readonly #leases = new Map<string, Lease>();
  readonly #timer: NodeJS.Timeout;
  #closed = false;

  constructor(spool: Spool, policy: LedgerPolicy, script: Script) {
    this.#spool = spool;
    this.#policy = policy;
    this.#script = script;
    this.#timer = setInterval(() => this.#renew(), policy.leaseMs / RENEWALS).unref();
    // What an earlier life of this spool was allowed to spend and did not, goes back.
    for (const name of spool.budgets.keys()) void this.#return(this.#lease(name), "return").catch(() => undefined);
  }

  /** Takes an amount out of a budget. False when there is not enough left. */
  async take({ name, limit }: Budget, amount: bigint, call: CallOptions): Promise<boolean> {
    if (this.#closed) throw this.#closedFault();
    if (call.signal?.aborted === true) throw aborted(call.signal);
    const lease = this.#lease(name);
    lease.limit = Number(limit);
    const value = Number(amount);
    if (lease.waiting.size === 0 && spend(lease, value)) {
      if (lease.may - lease.spent < value && lease.keep > 0 && lease.asking === null) this.#serve(lease);
      return true;
    }
    const waiting = new Waiting(value, call, () => lease.waiting.delete(waiting));
    lease.waiting.add(waiting);
    this.#serve(lease);
    return waiting.answer;
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
    const leases = [...this.#leases.values()];
    if (this.#policy.mode === "fast") await Promise.allSettled(leases.map((lease) => this.#return(lease, "end")));
    else await Promise.allSettled(leases.filter(({ held }) => held).map((lease) => this.#return(lease, "return")));
  }

  /** Ends it at once. */
  end(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    const fault = this.#closedFault();
    for (const lease of this.#leases.values()) failAll(lease, fault);
  }

  #closedFault(): KeylaneError {
    return new KeylaneError("KEYLANE_ERR_CLOSED", "the ledger is closed", { domain: this.#policy.domain });
  }

  #lease(name: string): Lease {
    let lease = this.#leases.get(name);
    if (lease === undefined) {
      const spent = Number(this.#spool.budgets.get(name) ?? 0n);
      // Requests of an earlier life have lower numbers, as its entries have.
      const n = this.#spool.first;
      const fresh = { keep: 0, held: false, charges: 0, waiting: new Set<Waiting>(), asking: null };
      lease = { name, limit: 0, spent, may: spent, n, renewed: spent, ...fresh };
      this.#leases.set(name, lease);
    }
    return lease;
  }

  /** Asks for more while somebody waits. */
  #serve(lease: Lease): void {
    if (lease.asking !== null) return;
    const asking = this.#askAll(lease).finally(() => {
      // A return may have begun to wait for it.
      if (lease.asking !== asking) return;
      lease.asking = null;
      if (lease.waiting.size > 0) this.#serve(lease);
    });
    lease.asking = asking;
  }

  /** One request for all that wait when it is sent; the first of them tells what is needed. */
  async #askAll(lease: Lease): Promise<void> {
    const asked = [...lease.waiting];
    const [first] = asked;
    let left: number;
    try {
      left = await this.#ask(lease, first?.amount ?? 0, "lease");
    } catch (error) {
      // All wait for the same answer; none of them was charged.
      failAll(lease, error as KeylaneError);
      return;
    }
    for (const waiting of asked) {
      if (!lease.waiting.has(waiting)) continue;
      const charged = spend(lease, waiting.amount);
      // What is left may be enough for this one: it asks next.
      if (!charged && waiting !== first && lease.spent + waiting.amount <= lease.may + lease.keep + left) continue;
      lease.waiting.delete(waiting);
      waiting.settle(charged);
    }
  }

  /** Gives what is left of the budget for all. */
  async #ask(lease: Lease, need: number, how: "lease" | "return" | "end"): Promise<number> {
    const { leaseMs, prefix } = this.#policy;
    lease.n += 1;
    lease.held = true;
    const spentSince = lease.spent - lease.renewed;
    const wish = Math.max(need * LEAST_CHARGES, 2 * spentSince, how === "lease" ? lease.keep : 0);
    const { n, spent, may, limit } = lease;
    const numbers = [n, spent, may, need, wish, limit, leaseMs, IDLE_MS];
    const reply = await this.#script.run(budgetKey(prefix, lease.name), [this.#spool.id, ...numbers, how]);
    const [allowed, keep, left] = (reply as string[]).map(Number) as [number, number, number];
    if (how === "lease") lease.may = allowed;
    else lease.held = false;
    lease.keep = keep;
    return left;
  }

  /** Gives back what is not spent. Nothing can be spent meanwhile: `may` is lowered first. */
  #return(lease: Lease, how: "return" | "end"): Promise<unknown> {
    lease.may = lease.spent;
    lease.keep = 0;
    const asked = (lease.asking ?? Promise.resolve()).then(() => {
      lease.may = lease.spent;
      return this.#ask(lease, 0, how);
    });
    const done = asked.finally(() => {
      if (lease.asking === marker) lease.asking = null;
      if (!this.#closed && lease.waiting.size > 0) this.#serve(lease);
    });
    const marker = done.catch(() => undefined);
    lease.asking = marker;
    return done;
  }

  /** Tells what was spent, keeps leases in use alive, and returns those that are not, until the servers have heard it. */
  #renew(): void {
    for (const lease of this.#leases.values()) {
      if (lease.asking !== null || !lease.held) continue;
      const { charges } = lease;
      lease.charges = 0;
      if (charges === 0) void this.#return(lease, "return").catch(() => undefined);
      else this.#serve(lease);
      lease.renewed = lease.spent;
    }
  }
}

function failAll({ waiting }: Lease, fault: KeylaneError): void {
  for (const { fail } of waiting) fail(fault);
  waiting.clear();
}

function aborted({ reason }: AbortSignal): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_ABORTED", "the caller aborted", { outcome: "not-sent", cause: reason });
}

/** Spends when it may. */
function spend(lease: Lease, amount: number): boolean {
  if (lease.spent + amount > lease.may) return false;
  lease.spent += amount;
  lease.charges += 1;
  return true;
}
