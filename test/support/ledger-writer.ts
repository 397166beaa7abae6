/**
 * The program of a billing writer that is killed at any moment: adds entries `from`, `from + 1`, … at a steady pace and tells how
 * many were acknowledged. Entry n has the id `n`, and account and amount that follow from n.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane } from "keylane";

/** What the writer is told. */
export interface WriterOrder {
  readonly nodes: readonly string[];
  readonly directory: string;
  readonly from: number;
  readonly to: number;
  /** Entries a second. */
  readonly rate: number;
  readonly keepBookedMs: number;
}

/** What it tells: entries below `acknowledged` are safe; `done` once all are booked. */
export interface WriterReport {
  readonly acknowledged: number;
  readonly rebooked: number;
  readonly done: boolean;
  /** Codes of errors that belong to no call. */
  readonly errors: readonly string[];
}

export const WRITER_ACCOUNTS = 40;
export const accountOf = (n: number): string => `advertiser:${n % WRITER_ACCOUNTS}`;
export const amountOf = (n: number): bigint =>
  BigInt(((n * 7919) % 100_003) - 20_000) * (n % 97 === 0 ? 10n ** 11n : 1n);

const STEP_MS = 5;

async function write({ nodes, directory, from, to, rate, keepBookedMs }: WriterOrder): Promise<void> {
  const lanes = await Keylane.open({
    domains: { billing: { prefixes: ["rb:"], nodes } },
    ledger: { directory, keepBookedMs },
    connectTimeoutMs: 60_000,
  });
  const errors: string[] = [];
  lanes.on("error", ({ code, message }) => errors.push(`${code} ${message}`));
  let acknowledged = from;
  const tell = (done: boolean): void => {
    const { rebooked } = lanes.ledger.pending();
    process.send!({ acknowledged, rebooked, done, errors: errors.splice(0) } satisfies WriterReport);
  };
  const began = performance.now();
  for (let next = from; next < to;) {
    const due = Math.min(to, from + Math.ceil(((performance.now() - began) / 1000) * rate));
    const added: Promise<void>[] = [];
    for (; next < due; next += 1) added.push(lanes.ledger.add(accountOf(next), amountOf(next), { id: `${next}` }));
    await Promise.all(added);
    acknowledged = next;
    tell(false);
    await sleep(STEP_MS);
  }
  await lanes.ledger.flush();
  tell(true);
  await lanes.close();
}

process.once("disconnect", () => process.exit());
process.on("message", (order: WriterOrder) => {
  void write(order).then(() => process.disconnect());
});
