/**
 * Error reply → what it means and what to do about it, in one table; `redirect.ts` does it. Every reply is judged alone; a kind that is not in the table
 * is surfaced as `KEYLANE_ERR_REPLY`. The invariant: an action other than `surface` is only given for refusals after which
 * the command certainly did not run, so sending it again cannot run it twice.
 */
import { KeylaneError } from "../errors.js";
import type { ErrorContext, KeylaneErrorCode } from "../errors.js";
import { parseAddress } from "../options/servers.js";
import type { Address } from "../routing/topology.js";

/**
 * What the lane does with a refused command: `moved` — fix the slot, resend there; `ask` — resend once to the target with
 * ASKING; `wait` — hold the slot back and retry inside the deadline; `refresh` — as `wait`, and ask for the topology;
 * `primary` — as `wait` for a replica's answer: send to the primary next; `eval` — resend as EVAL; `surface` — tell.
 */
export type Action = "moved" | "ask" | "wait" | "refresh" | "primary" | "eval" | "surface";

interface Rule {
  readonly code: KeylaneErrorCode;
  readonly action: Action;
}

const TABLE = new Map<string, Rule>([
  ["MOVED", { code: "KEYLANE_ERR_REDIRECTS", action: "moved" }],
  ["ASK", { code: "KEYLANE_ERR_REDIRECTS", action: "ask" }],
  ["TRYAGAIN", { code: "KEYLANE_ERR_TRYAGAIN", action: "wait" }],
  ["CLUSTERDOWN", { code: "KEYLANE_ERR_CLUSTERDOWN", action: "refresh" }],
  ["LOADING", { code: "KEYLANE_ERR_LOADING", action: "primary" }],
  ["MASTERDOWN", { code: "KEYLANE_ERR_MASTERDOWN", action: "primary" }],
  ["READONLY", { code: "KEYLANE_ERR_READONLY", action: "refresh" }],
  ["BUSY", { code: "KEYLANE_ERR_BUSY", action: "wait" }],
  ["NOSCRIPT", { code: "KEYLANE_ERR_NOSCRIPT", action: "eval" }],
  ["CROSSSLOT", { code: "KEYLANE_ERR_CROSSSLOT", action: "surface" }],
  ["NOREPLICAS", { code: "KEYLANE_ERR_NOREPLICAS", action: "surface" }],
  ["MISCONF", { code: "KEYLANE_ERR_MISCONF", action: "surface" }],
  ["OOM", { code: "KEYLANE_ERR_OOM", action: "surface" }],
  ["NOPERM", { code: "KEYLANE_ERR_NOPERM", action: "surface" }],
  ["NOAUTH", { code: "KEYLANE_ERR_AUTH", action: "surface" }],
  ["WRONGPASS", { code: "KEYLANE_ERR_AUTH", action: "surface" }],
  ["WRONGTYPE", { code: "KEYLANE_ERR_WRONGTYPE", action: "surface" }],
  ["EXECABORT", { code: "KEYLANE_ERR_EXECABORT", action: "surface" }],
]);

const SURFACE: Rule = { code: "KEYLANE_ERR_REPLY", action: "surface" };

/** The rule for an error reply's text. */
export function ruleFor(message: string): Rule {
  const space = message.indexOf(" ");
  return TABLE.get(space === -1 ? message : message.slice(0, space)) ?? SURFACE;
}

/** The typed error for an error reply. */
export function replyError(message: string, context: ErrorContext): KeylaneError {
  return new KeylaneError(ruleFor(message).code, message, { outcome: "rejected", ...context });
}

/** Slot and target of a MOVED or ASK. */
export interface Redirect {
  readonly slot: number;
  /** `host` is empty when the server says "the host you asked". */
  readonly address: Address;
}

/**
 * Reads `MOVED 3999 127.0.0.1:6381`. Only a decimal slot 0–16383 and a port 1–65535 are accepted, and the address is split
 * at its last colon (IPv6 has more); null for anything else, and then the reply is surfaced unchanged.
 */
export function parseRedirect(message: string): Redirect | null {
  const parts = message.split(" ");
  if (parts.length < 3) return null;
  const [, slotText, target] = parts as [string, string, string];
  if (!/^\d{1,5}$/.test(slotText) || Number(slotText) > 16_383) return null;
  const address = parseAddress(target);
  return address === null ? null : { slot: Number(slotText), address };
}
