/**
 * Every error keylane gives, in one table. The invariant: a caller can tell from `code` what happened, from `outcome`
 * whether the server may have executed the command, and from `retryable` whether asking again can help. Errors keep these
 * fields across a thread boundary (`toJSON`/`from`), and `instanceof` works between duplicate copies of the package.
 */

/**
 * What became of the command at the server: `not-sent` — certainly not executed, no byte left; `rejected` — the server
 * refused it and did not execute it; `unknown` — it may or may not have been executed.
 */
export type Outcome = "not-sent" | "rejected" | "unknown";

interface Row {
  readonly outcome: Outcome;
  readonly retryable: boolean;
  readonly text: string;
}

const row = (outcome: Outcome, retryable: boolean, text: string): Row => ({ outcome, retryable, text });

/** The table: code → default outcome, whether a retry can help, and the meaning. */
export const ERRORS = {
  KEYLANE_ERR_OPTIONS: row("not-sent", false, "the options given to open() are not valid"),
  KEYLANE_ERR_ARGUMENT: row("not-sent", false, "an argument is not valid"),
  KEYLANE_ERR_TOO_LARGE: row("not-sent", false, "a key, value or argument list is over a limit"),
  KEYLANE_ERR_ROUTE: row("not-sent", false, "no prefix matches the key and the fallback rejects it"),
  KEYLANE_ERR_CROSSSLOT: row("not-sent", false, "the keys of one command are in different slots or domains"),
  KEYLANE_ERR_COMMAND: row("not-sent", false, "the command is unknown, or cannot run on a shared lane"),
  KEYLANE_ERR_CODEC: row("not-sent", false, "a value cannot be encoded or decoded by the domain's codec"),
  KEYLANE_ERR_CONNECT: row("not-sent", true, "a node could not be reached before the connect deadline"),
  KEYLANE_ERR_AUTH: row("not-sent", false, "the server refused the credentials"),
  KEYLANE_ERR_NOT_CLUSTER: row("not-sent", false, "the server does not run in cluster mode"),
  KEYLANE_ERR_UNMAPPED: row("not-sent", false, "the cluster announces an address that natMap does not hold"),
  KEYLANE_ERR_NO_NODE: row("not-sent", true, "no node is known to serve the slot"),
  KEYLANE_ERR_OVERLOADED: row("not-sent", true, "a bounded queue is full"),
  KEYLANE_ERR_TIMEOUT: row("unknown", true, "the deadline passed"),
  KEYLANE_ERR_ABORTED: row("unknown", false, "the caller's signal was aborted"),
  KEYLANE_ERR_CLOSED: row("not-sent", false, "keylane was closed"),
  KEYLANE_ERR_CONNECTION_LOST: row("unknown", true, "the connection broke while the command was in flight"),
  KEYLANE_ERR_WORKER_LOST: row("unknown", true, "the worker thread that had the command ended"),
  KEYLANE_ERR_PROTOCOL: row("unknown", true, "the server sent bytes that are not a valid reply"),
  KEYLANE_ERR_REDIRECTS: row("rejected", true, "the command was redirected too often"),
  KEYLANE_ERR_CLUSTERDOWN: row("rejected", true, "the cluster does not serve the slot"),
  KEYLANE_ERR_TRYAGAIN: row("rejected", true, "the keys of the command are between two nodes"),
  KEYLANE_ERR_LOADING: row("rejected", true, "the server is loading its data"),
  KEYLANE_ERR_MASTERDOWN: row("rejected", true, "the replica has lost its primary"),
  KEYLANE_ERR_READONLY: row("rejected", true, "the server is a replica and refuses writes"),
  KEYLANE_ERR_BUSY: row("rejected", true, "the server is busy running a script"),
  KEYLANE_ERR_NOREPLICAS: row("rejected", true, "the primary has too few replicas to accept writes"),
  KEYLANE_ERR_MISCONF: row("rejected", true, "the server refuses writes because it cannot persist"),
  KEYLANE_ERR_OOM: row("rejected", true, "the server is out of memory"),
  KEYLANE_ERR_NOPERM: row("rejected", false, "the user may not run the command or touch the key"),
  KEYLANE_ERR_WRONGTYPE: row("rejected", false, "the key holds another type"),
  KEYLANE_ERR_NOSCRIPT: row("rejected", false, "the script is not loaded and its source is not known"),
  KEYLANE_ERR_EXECABORT: row("rejected", false, "the transaction was discarded"),
  KEYLANE_ERR_REPLY: row("rejected", false, "the server answered with an error"),
  KEYLANE_ERR_SPOOL: row("not-sent", false, "the ledger's spool is in use, damaged, or cannot be written"),
  KEYLANE_ERR_OVERFLOW: row("rejected", false, "a balance would leave the range of 64 bits"),
  KEYLANE_ERR_LOST: row("unknown", false, "billing entries were lost"),
  KEYLANE_ERR_UNSUPPORTED: row("not-sent", false, "the server has no way to do what was asked"),
  KEYLANE_ERR_SOURCE: row("unknown", true, "a source of shared hot keys cannot be used, or holds what cannot be read"),
  KEYLANE_ERR_SANDBOX: row("not-sent", false, "a local cluster could not be started"),
  KEYLANE_ERR_INTERNAL: row("unknown", false, "keylane broke an invariant of its own"),
} as const satisfies Record<string, Row>;

/** A stable error code. */
export type KeylaneErrorCode = keyof typeof ERRORS;

/** Where an error happened; every field is optional. */
export interface ErrorContext {
  readonly command?: string | undefined;
  readonly domain?: string | undefined;
  readonly slot?: number | undefined;
  readonly node?: string | undefined;
  readonly outcome?: Outcome | undefined;
  readonly retryable?: boolean | undefined;
  readonly cause?: unknown;
}

const BRAND = Symbol.for("keylane.error");

/** The one error class. Compare `code`, not the message. */
export class KeylaneError extends Error {
  override readonly name = "KeylaneError";
  readonly code: KeylaneErrorCode;
  /** Name of the command, upper case, without arguments. */
  readonly command: string | undefined;
  readonly domain: string | undefined;
  readonly slot: number | undefined;
  /** `host:port` of the node concerned. */
  readonly node: string | undefined;
  readonly retryable: boolean;
  readonly outcome: Outcome;

  constructor(code: KeylaneErrorCode, message: string, context: ErrorContext = {}) {
    super(message, context.cause === undefined ? undefined : { cause: context.cause });
    const defaults: Row = ERRORS[code];
    this.code = code;
    this.command = context.command;
    this.domain = context.domain;
    this.slot = context.slot;
    this.node = context.node;
    this.retryable = context.retryable ?? defaults.retryable;
    this.outcome = context.outcome ?? defaults.outcome;
    Object.defineProperty(this, BRAND, { value: true });
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === "object" && value !== null && (value as Record<symbol, unknown>)[BRAND] === true;
  }

  /** A structured-cloneable picture of the error. */
  toJSON(): SerializedError {
    const { code, message, command, domain, slot, node, retryable, outcome } = this;
    const cause = this.cause instanceof Error ? this.cause.message : undefined;
    return { code, message, command, domain, slot, node, retryable, outcome, cause };
  }

  /** The error again, on the other side of a thread or process boundary. */
  static from(data: SerializedError): KeylaneError {
    return new KeylaneError(data.code, data.message, data);
  }
}

/** What `KeylaneError.toJSON` gives and `KeylaneError.from` takes. */
export interface SerializedError extends Required<Omit<ErrorContext, "cause">> {
  readonly code: KeylaneErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly outcome: Outcome;
  readonly cause: string | undefined;
}
