/**
 * Which nodes of a domain cannot be reached at present, as the loads of this thread find out. While a node is out, values past
 * their expiry are answered at once, and one load at a time, at a distance, asks whether it is back.
 */
import { KeylaneError } from "../errors.js";
import type { KeylaneErrorCode } from "../errors.js";

/** Distance of the loads that ask, in milliseconds. */
const PROBE_MS = 250;

/** Errors that say the server cannot answer now, whatever the key. */
const OUT: ReadonlySet<KeylaneErrorCode> = new Set([
  "KEYLANE_ERR_CONNECT",
  "KEYLANE_ERR_CONNECTION_LOST",
  "KEYLANE_ERR_NO_NODE",
  "KEYLANE_ERR_TIMEOUT",
  "KEYLANE_ERR_PROTOCOL",
  "KEYLANE_ERR_CLUSTERDOWN",
  "KEYLANE_ERR_LOADING",
  "KEYLANE_ERR_MASTERDOWN",
]);

export class Outages {
  /** Node index → when the next load may ask. */
  readonly #nodes = new Map<number, number>();
  readonly #began: (reason: string) => void;

  /** `began` hears of the first failure of a node that answered before. */
  constructor(began: (reason: string) => void) {
    this.#began = began;
  }

  get any(): boolean {
    return this.#nodes.size > 0;
  }

  has(node: number): boolean {
    return this.#nodes.has(node);
  }

  /** Whether the caller is the one to ask the node again. */
  mayProbe(node: number, now: number): boolean {
    const next = this.#nodes.get(node);
    if (next === undefined || now < next) return false;
    this.#nodes.set(node, now + PROBE_MS);
    return true;
  }

  /** Notes how a load of a key of `node` failed. True when the node is out. */
  failed(node: number, error: unknown, now: number): boolean {
    if (!(error instanceof KeylaneError) || !OUT.has(error.code)) return false;
    if (!this.#nodes.has(node)) this.#began(error.message);
    this.#nodes.set(node, now + PROBE_MS);
    return true;
  }

  answered(node: number): void {
    this.#nodes.delete(node);
  }
}
