/** What the ledger needs to know, made once at open from the validated options; and what it needs of the layers around it. */
import type { KeylaneError } from "../errors.js";
import type { Script } from "../lane/script.js";
import type { CallOptions } from "../types.js";

/** Options of the ledger as its parts take them. Times in milliseconds. */
export interface LedgerPolicy {
  /** Domain whose cluster holds the balances. */
  readonly domain: string;
  /** Prefix of that domain, in front of all keys of the ledger. */
  readonly prefix: string;
  /** `durable`: entries are on disk before `add` resolves; `fast`: they are in memory only. */
  readonly mode: "durable" | "fast";
  /** Folder of the spool; null in mode `fast`. */
  readonly directory: string | null;
  /** Ids are remembered for so long at least, at the servers. */
  readonly idRetentionMs: number;
  /** Booked entries stay in the spool for so long, to be booked anew when a failover loses them. */
  readonly keepBookedMs: number;
  /** Entries that may wait to be booked. */
  readonly maxPending: number;
  /** Entries per booking. */
  readonly batchSize: number;
  /** Life of a budget lease that is not renewed, by the server's clock. */
  readonly leaseMs: number;
}

/** Budgets, their holders and spools in memory that nobody has touched for so long are forgotten by the servers. */
export const IDLE_MS = 90 * 86_400_000;

/** Longest time that a timer of Node's takes, in milliseconds. */
export const LONGEST_MS = 2 ** 31 - 1;

/** Sizes and pauses that are no options; tests make them smaller. */
export interface LedgerTuning {
  /** A segment of the spool is closed at this size. */
  readonly segmentBytes: number;
  /** Entries are gathered for so long before they are booked. */
  readonly lingerMs: number;
  /** Longest pause between two attempts to book an account's entries. */
  readonly maxPauseMs: number;
  /** Distance of looks at the connections and at what may leave the spool. */
  readonly tickMs: number;
}

export const TUNING: LedgerTuning = { segmentBytes: 16 << 20, lingerMs: 5, maxPauseMs: 5000, tickMs: 250 };

/** How the ledger reaches the servers; given by the facade. */
export interface LedgerServers {
  script(source: string): Script;
  /** The domain of a key. */
  domainOf(key: string): string;
  /** Changes whenever the servers' roles or connections have changed, so that what was booked may be gone. */
  upheavals(): number;
  /** Tells a fault that belongs to no call. */
  tell(error: KeylaneError): void;
}

/** Options of `ledger.add`. */
export interface AddOptions {
  /** Identifies the entry: of several with one id, whoever adds them, one is booked. 1 to 255 bytes. */
  readonly id: string;
  /** When it happened, milliseconds of the epoch; kept with the entry. Default: now. */
  readonly at?: number | undefined;
}

/** A budget: a name that spenders share, and what they may spend of it in all, in minor units. */
export interface Budget {
  readonly name: string;
  readonly limit: bigint;
}

/** Options of `ledger.charge`. */
export interface ChargeOptions extends AddOptions, CallOptions {
  /** A budget, or the limit of a budget named as the account. */
  readonly budget: Budget | bigint;
}

/** What `ledger.charge` gives. */
export interface ChargeResult {
  /** False when the budget has not enough left; nothing is booked then. */
  readonly charged: boolean;
  /** What this process may still spend of the budget without asking the servers. */
  readonly leased: bigint;
}

/** What `ledger.pending` gives. */
export interface LedgerPending {
  /** Entries accepted and not booked yet. */
  readonly entries: number;
  /** Accounts they belong to. */
  readonly accounts: number;
  /** Entries booked and still kept in the spool. */
  readonly kept: number;
  /** Impressions that are billed and not counted yet, or perhaps not any more. */
  readonly uncounted: number;
  /** Entries booked a second time because a failover had lost them, since `open`. */
  readonly rebooked: number;
  /** Entries dropped because their id was booked before, since `open`. */
  readonly duplicates: number;
  /** Accounts whose last attempt failed, at most 100 of them, with the code of the failure. */
  readonly failing: readonly { readonly account: string; readonly code: string }[];
}
