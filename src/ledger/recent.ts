/**
 * Charges of a short while ago, by account and id: a caller that repeats one gets the same answer. Two generations, so that memory
 * is bounded without a list. Only charges that were made are kept: a refusal may be asked again.
 */
import type { ChargeResult } from "./policy.js";

const GENERATION = 65_536;

export class RecentCharges {
  #young = new Map<string, Promise<ChargeResult>>();
  #old = new Map<string, Promise<ChargeResult>>();

  get(account: string, id: string): Promise<ChargeResult> | undefined {
    const key = keyOf(account, id);
    return this.#young.get(key) ?? this.#old.get(key);
  }

  set(account: string, id: string, charge: Promise<ChargeResult>): void {
    const key = keyOf(account, id);
    if (this.#young.size >= GENERATION) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, charge);
    const forget = (): void => {
      for (const map of [this.#young, this.#old]) if (map.get(key) === charge) map.delete(key);
    };
    charge.then(({ charged }) => (charged ? undefined : forget()), forget);
  }
}

/** Accounts may hold any character: their length tells where they end. */
function keyOf(account: string, id: string): string {
  return `${account.length}:${account}${id}`;
}
