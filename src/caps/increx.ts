/**
 * One key's cap by INCREX instead of a script, where the servers have it (Redis from 8.8, Valkey from 9.2): the count, its bound
 * and its TTL are one command, and two reads behind it on the same connection tell the window. The invariant: what it decides
 * is what `key.lua` would; whatever INCREX cannot say in full is left to the script before anything is counted.
 *
 * ```text
 * INCREX key …      [ value, applied ]     applied 0: the bound was reached, value and TTL are untouched
 * PTTL, PEXPIRETIME                        their difference is the server's time
 * ```
 */
import type { Domain } from "../cache/domain.js";
import { KeylaneError } from "../errors.js";
import { headOf } from "../lane/op.js";
import { RAW_SHAPE } from "../lane/replies.js";
import { KEY_NONE, Opcode } from "../native/types.js";
import type { CallOptions, Reply } from "../types.js";
import { Figures, Status } from "./reply.js";

const HEAD_KEYLESS = headOf(Opcode.GENERIC, KEY_NONE, true);
/** The key is the argument behind the name. None is marked as a read: a replica may know nothing of the count yet. */
const HEAD_KEYED = headOf(Opcode.GENERIC, 1, false);
/** Without these the command cannot keep a cap. */
const NEEDED = ["BYINT", "LBOUND", "UBOUND", "PX", "ENX"];
/** Only Valkey's has conditions; its expiration comes first. */
const VALKEYS = "XX";

type Syntax = (limit: string, windowMs: string) => readonly string[];

/** In the order that each server documents. */
const REDIS: Syntax = (limit, ms) => ["BYINT", "1", "LBOUND", "1", "UBOUND", limit, "PX", ms, "ENX"];
const VALKEY: Syntax = (limit, ms) => ["PX", ms, "ENX", "BYINT", "1", "LBOUND", "1", "UBOUND", limit];

export class Increx {
  readonly #domain: Domain;
  #asked = false;
  #syntax: Syntax | null = null;

  constructor(domain: Domain) {
    this.#domain = domain;
  }

  /** Whether a call may go by INCREX. The first one asks the servers, and does not wait for the answer. */
  get ready(): boolean {
    if (!this.#asked) {
      this.#asked = true;
      void this.#ask();
    }
    return this.#syntax !== null;
  }

  /**
   * Counts one, or tells that the limit is reached. Null: the script must decide, nothing was counted.
   *
   * @throws (rejects) whatever INCREX was answered
   */
  async take(key: string, limit: number, windowMs: number, options: CallOptions): Promise<Figures | null> {
    const { lane } = this.#domain;
    const read = (name: string): Promise<Reply> =>
      lane.call(HEAD_KEYED, name, [key], RAW_SHAPE, options) as Promise<Reply>;
    const words = [key, ...this.#syntax!(String(limit), String(windowMs))];
    const [counted, left, end] = await Promise.allSettled([
      lane.call(HEAD_KEYED, "INCREX", words, RAW_SHAPE, options) as Promise<Reply>,
      read("PTTL"),
      read("PEXPIRETIME"),
    ]);
    if (counted.status === "rejected") return this.#refused(counted.reason);
    const [value, applied] = Array.isArray(counted.value) ? counted.value : [];
    if (typeof value !== "number" || typeof applied !== "number") {
      throw new KeylaneError("KEYLANE_ERR_PROTOCOL", "INCREX: the server's answer is no count", { command: "INCREX" });
    }
    const ms = left.status === "fulfilled" ? left.value : null;
    const at = end.status === "fulfilled" ? end.value : null;
    const timed = typeof ms === "number" && typeof at === "number" && ms >= 0 && at >= 0;
    if (applied === 0) {
      // Below the limit it is no count; without a TTL it is to get one.
      if (value < limit || !timed) return null;
      return Figures.of(Status.DENIED, at - ms, value, Math.max(ms, 1));
    }
    // The count is made. When its window is over by now, it ends at once.
    if (timed) return Figures.of(Status.ALLOWED, at - ms, value, Math.max(ms, 1));
    for (const read of [left, end]) if (read.status === "rejected" && isRefusal(read.reason)) this.#syntax = null;
    return Figures.of(Status.ALLOWED, Date.now(), value, ms === null ? windowMs : 1);
  }

  /** A server of an older version, or one that takes other arguments or not from this user, did nothing. */
  #refused(error: unknown): null {
    if (!isRefusal(error)) throw error;
    this.#syntax = null;
    return null;
  }

  async #ask(): Promise<void> {
    const { lane } = this.#domain;
    try {
      const docs = await lane.call(HEAD_KEYLESS, "COMMAND", ["DOCS", "INCREX"], RAW_SHAPE);
      // A map or a list, by the protocol; tokens stand in quotes either way.
      const told = JSON.stringify(docs);
      if (!NEEDED.every((token) => told.includes(`"${token}"`))) return;
      this.#syntax = told.includes(`"${VALKEYS}"`) ? VALKEY : REDIS;
    } catch (error) {
      // What was refused will be again (no COMMAND DOCS before Redis 7); anything else is asked again.
      this.#asked = (error as KeylaneError).outcome === "rejected";
    }
  }
}

/** Whether a server does not run such a command at all. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof KeylaneError) || error.outcome !== "rejected") return false;
  return error.code === "KEYLANE_ERR_NOPERM" || /unknown command|syntax error/i.test(error.message);
}
