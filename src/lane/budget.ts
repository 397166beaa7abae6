/**
 * Retry budget of one lane: a sick cluster must not be hammered by its own clients. Every success earns a tenth of a retry
 * up to a cap, and time earns a few; a retry that finds no token is not made and the refusal is surfaced. MOVED and ASK are
 * redirects, not retries, and cost nothing.
 */
const EARNED_PER_SUCCESS = 0.1;
const EARNED_PER_MS = 0.05;
const CAP = 2000;

export class RetryBudget {
  #tokens = CAP;
  #seenSuccesses = 0;
  #seenAt = 0;

  /** Takes a token if there is one. `successes` is the lane's running count, `now` its clock in milliseconds. */
  take(successes: number, now: number): boolean {
    const earned = (successes - this.#seenSuccesses) * EARNED_PER_SUCCESS + (now - this.#seenAt) * EARNED_PER_MS;
    this.#seenSuccesses = successes;
    this.#seenAt = now;
    this.#tokens = Math.min(CAP, this.#tokens + earned);
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}
