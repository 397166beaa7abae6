/**
 * The program of an ad server that is killed at any moment: asks for impressions `from`, `from + 1`, … at a steady pace, each again
 * until it has an answer, and tells the answers. Impression n has the id `n`; user, caps, account and amount follow from n.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane } from "keylane";
import type { Impression, KeylaneError } from "keylane";
import { DAY } from "./impressions.js";

/** What the writer is told. */
export interface ImpressionOrder {
  readonly frequency: readonly string[];
  readonly billing: readonly string[];
  readonly directory: string;
  readonly from: number;
  readonly to: number;
  /** Impressions a second. */
  readonly rate: number;
  readonly users: number;
  readonly keepBookedMs: number;
}

/** What it tells: numbers of impressions by answer, and `done` once all are answered, counted and booked. */
export interface ImpressionReport {
  readonly allowed: readonly number[];
  readonly denied: readonly number[];
  readonly rebooked: number;
  readonly failed: number;
  readonly done: boolean;
  /** Faults that no retry mends, and errors that belong to no call. */
  readonly errors: readonly string[];
}

const ACCOUNTS = 40;
/** Of 50 impressions a user is asked for, so many are allowed. */
export const CAMPAIGN_LIMIT = 40;
export const PER_USER = 50;
const MOST_IN_FLIGHT = 1000;
const STEP_MS = 5;

export const userOf = (n: number, users: number): string => `user:${n % users}`;
export const creativeOf = (n: number): string => `creative:${n % 3}`;
export const accountOf = (n: number): string => `advertiser:${n % ACCOUNTS}`;
export const amountOf = (n: number): bigint => BigInt(((n * 7919) % 100_003) + 1);

export function impressionAt(n: number, users: number): Impression {
  const caps = [
    { name: "campaign", limit: CAMPAIGN_LIMIT, windowMs: 30 * DAY },
    { name: creativeOf(n), limit: CAMPAIGN_LIMIT, windowMs: 30 * DAY, sliding: true },
  ];
  return { user: userOf(n, users), caps, account: accountOf(n), amount: amountOf(n), id: `${n}` };
}

type Lanes = Pick<Keylane, "impression" | "ledger">;

class Writer {
  readonly #order: ImpressionOrder;
  #allowed: number[] = [];
  #denied: number[] = [];
  #failed = 0;
  readonly #errors: string[] = [];
  #inFlight = 0;

  constructor(order: ImpressionOrder) {
    this.#order = order;
  }

  async run(): Promise<void> {
    const { frequency, billing, directory, from, to, rate, keepBookedMs } = this.#order;
    const lanes = await Keylane.open({
      domains: {
        freq: { prefixes: ["fc:"], nodes: frequency },
        billing: { prefixes: ["rb:"], nodes: billing },
      },
      caps: { onError: "throw" },
      ledger: { directory, keepBookedMs },
      connectTimeoutMs: 60_000,
    });
    lanes.on("error", ({ code, message, retryable }) => {
      // Connections break and time runs out; a commit that a kill cut short was never acknowledged.
      if (!retryable && !message.includes("was cut short")) this.#errors.push(`${code} ${message}`);
    });
    const began = performance.now();
    for (let next = from; next < to || this.#inFlight > 0;) {
      const due = Math.min(to, from + Math.ceil(((performance.now() - began) / 1000) * rate));
      for (; next < due && this.#inFlight < MOST_IN_FLIGHT; next += 1) void this.#ask(lanes, next);
      await sleep(STEP_MS);
      this.#tell(lanes, false);
    }
    await lanes.ledger.flush();
    this.#tell(lanes, true);
    await lanes.close();
  }

  async #ask(lanes: Lanes, n: number): Promise<void> {
    this.#inFlight += 1;
    for (let answered = false; !answered;) {
      try {
        const { allowed } = await lanes.impression(impressionAt(n, this.#order.users));
        (allowed ? this.#allowed : this.#denied).push(n);
        answered = true;
      } catch (error) {
        const { retryable, code, message } = error as KeylaneError;
        this.#failed += 1;
        if (!retryable) this.#errors.push(`${n}: ${code} ${message}`);
        await sleep(20);
      }
    }
    this.#inFlight -= 1;
  }

  #tell(lanes: Lanes, done: boolean): void {
    const [allowed, denied, failed] = [this.#allowed, this.#denied, this.#failed];
    [this.#allowed, this.#denied, this.#failed] = [[], [], 0];
    const { rebooked } = lanes.ledger.pending();
    const errors = this.#errors.splice(0);
    process.send!({ allowed, denied, failed, rebooked, done, errors } satisfies ImpressionReport);
  }
}

process.once("disconnect", () => process.exit());
process.on("message", (order: ImpressionOrder) => {
  void new Writer(order).run().then(() => process.disconnect());
});
