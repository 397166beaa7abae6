/**
 * The way to the scripts of one domain, and what happens when it fails: `onError` decides, counted, and told as `degraded` once
 * an outage. The invariant: a fault of the caller's is always thrown, and an error is never read as a count.
 */
import type { Domain } from "../cache/domain.js";
import { KeylaneError } from "../errors.js";
import type { KeylaneErrorCode } from "../errors.js";
import type { WireArg } from "../lane/op.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import type { CallOptions } from "../types.js";
import { Outages } from "./outages.js";
import { Replicas } from "./replicas.js";
import { HEAD_SCRIPT } from "./scripts.js";
import type { CapScript } from "./scripts.js";
import type { CapsResult } from "./types.js";

/** Errors that say nothing of the servers. */
const CALLERS: ReadonlySet<KeylaneErrorCode> = new Set([
  "KEYLANE_ERR_ARGUMENT",
  "KEYLANE_ERR_TOO_LARGE",
  "KEYLANE_ERR_ABORTED",
  "KEYLANE_ERR_CLOSED",
]);

const ANSWERS: Readonly<Record<"allow" | "deny", CapsResult>> = {
  allow: Object.freeze({ allowed: true, caps: Object.freeze([]), source: "degraded" }),
  deny: Object.freeze({ allowed: false, caps: Object.freeze([]), source: "degraded" }),
};

/** Counters of one thread. */
export interface Counts {
  allowed: number;
  denied: number;
  cached: number;
  degraded: number;
  repaired: number;
}

/** A shape that reads a `T`. */
interface ShapeOf<T> extends Shape {
  read(rows: ReplyRows): T;
}

export class Decider {
  readonly domain: Domain;
  readonly replicas: Replicas;
  readonly #onError: "allow" | "deny" | "throw";
  readonly #counts: Counts;
  readonly #outages: Outages;

  constructor(
    domain: Domain,
    onError: "allow" | "deny" | "throw",
    counts: Counts,
    degraded: (domain: string, reason: string) => void,
  ) {
    this.domain = domain;
    this.replicas = new Replicas(domain.lane);
    this.#onError = onError;
    this.#counts = counts;
    const { domain: name } = domain.lane.config;
    const what = onError === "throw" ? "caps cannot be decided" : `caps are answered by onError: "${onError}"`;
    this.#outages = new Outages((reason) => degraded(name, `${what}: ${reason}`));
  }

  /** `rest` begins with the number of keys and the keys. */
  run<T>({ sha, source }: CapScript, rest: readonly WireArg[], shape: ShapeOf<T>, options: CallOptions): Promise<T> {
    return this.domain.lane.call(HEAD_SCRIPT, sha, rest, shape, options, source) as Promise<T>;
  }

  answered(slot: number): void {
    if (this.#outages.any) this.#outages.answered(this.#node(slot), performance.now());
  }

  /** The answer to a decision that could not be had. @throws the error, when it is the caller's or `onError` says so */
  failed(slot: number, error: unknown): CapsResult {
    if (!(error instanceof KeylaneError) || CALLERS.has(error.code)) throw error;
    this.#counts.degraded += 1;
    this.#outages.failed(this.#node(slot), error.message, performance.now());
    if (this.#onError === "throw") throw error;
    return ANSWERS[this.#onError];
  }

  #node(slot: number): number {
    return this.domain.lane.topology.nodeOf(slot);
  }
}

/** A reply that is none of a script's. */
export function noDecision(domain: Domain): KeylaneError {
  const { domain: name } = domain.lane.config;
  return new KeylaneError("KEYLANE_ERR_PROTOCOL", "the server's answer is no decision", {
    command: "EVALSHA",
    domain: name,
  });
}

export function noDomain(): KeylaneError {
  const message = 'caps: no domain has the prefix "fc:"; name the one that holds them: caps: { domain }';
  return new KeylaneError("KEYLANE_ERR_OPTIONS", message);
}

export function otherCaps(): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_ARGUMENT", "the id stands for other caps", { outcome: "rejected" });
}
