/**
 * Impressions as the spool holds them. An intent tells what is to be counted for an entry, and what was answered; a denial tells
 * the answer alone. Both are JSON:
 *
 * ```text
 * intent   [user, server's time of the reservation, [cap, …], [used, resets at, of each cap …]]
 * denial   [denied by, [state of a cap, …]]
 * ```
 */
import { crc32 } from "node:zlib";
import type { Cap, CapState } from "../caps/types.js";
import { KeylaneError } from "../errors.js";
import { badArgument, faultOfMs } from "../lane/arguments.js";
import { checkBudget, checkEntry } from "../ledger/entry.js";
import { IMPRESSION, MAX_MORE } from "../ledger/frame.js";
import type { Recorded } from "../ledger/journal.js";
import type { Budget } from "../ledger/policy.js";
import type { Impression, ImpressionResult } from "./types.js";

/** Bytes that the figures of the answer take at most: 64 caps, two numbers each. */
const FIGURES = 64 * 40;

type IntentText = readonly [user: string, at: number, caps: readonly Cap[], figures: readonly number[]];
type DenialText = readonly [deniedBy: "caps" | "budget", caps: readonly CapState[]];

/** An impression that is asked for, checked. */
export interface Asked {
  readonly request: Impression;
  readonly at: number;
  readonly budget: Budget | null;
  /** Stands for everything but the id. */
  readonly mark: number;
  /** User and caps, as JSON. */
  readonly user: string;
  readonly caps: string;
}

/** Checks an impression, but for its caps and user, which `Caps` does. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function checkImpression(request: Impression): Asked {
  if (typeof request !== "object" || request === null) throw badArgument("impression: an object is needed");
  const { account, amount, budget, timeoutMs } = request;
  const at = checkEntry(account, amount, request);
  const named = budget === undefined ? null : checkBudget(account, amount, budget);
  const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
  if (fault !== null) throw fault;
  if (!Array.isArray(request.caps)) throw badArgument("caps: a list is needed");
  const user = JSON.stringify(request.user) ?? "";
  const caps = JSON.stringify(request.caps.map(plain));
  const bytes = Buffer.byteLength(user) + Buffer.byteLength(caps) + FIGURES;
  if (bytes > MAX_MORE) {
    const message = `impression: user and caps take ${bytes} bytes, ${MAX_MORE} are allowed`;
    throw new KeylaneError("KEYLANE_ERR_TOO_LARGE", message);
  }
  const mark = crc32(`${user}${caps}${JSON.stringify([account, named?.name])}${amount}`);
  return { request, at, budget: named, mark, user, caps };
}

/** What of a cap matters. */
function plain(cap: Cap): unknown {
  if (typeof cap !== "object" || cap === null) return cap;
  const { name, limit, windowMs, sliding, per, timeZone } = cap;
  return { name, limit, windowMs, sliding, per, timeZone };
}

/** The text of an intent; `at` is the server's time. */
export function intentText({ user, caps }: Asked, at: number, states: readonly CapState[]): string {
  return `[${user},${at},${caps},${JSON.stringify(states.flatMap(({ used, resetsAtMs }) => [used, resetsAtMs]))}]`;
}

/** What an intent has counted. */
export function readIntent(text: string): {
  readonly user: string;
  readonly at: number;
  readonly caps: readonly Cap[];
} {
  const [user, at, caps] = JSON.parse(text) as IntentText;
  return { user, at, caps };
}

export function denialText(deniedBy: "caps" | "budget", states: readonly CapState[]): string {
  return JSON.stringify([deniedBy, states] satisfies DenialText);
}

/**
 * The answer that the spool has for an id.
 *
 * @throws KeylaneError `KEYLANE_ERR_ARGUMENT` when it was given to another impression
 */
export function answerOf({ kind, entry, more }: Recorded, { request }: Asked): ImpressionResult {
  if (kind !== IMPRESSION) {
    const [deniedBy, caps] = JSON.parse(more) as DenialText;
    return { allowed: false, caps, booked: false, deniedBy, source: "spool" };
  }
  const [user, , caps, figures] = JSON.parse(more) as IntentText;
  const { account, amount } = request;
  if (user !== request.user || entry.account !== account || entry.amount !== amount) throw otherImpression(entry.id);
  const states = caps.map(({ name, limit }, index): CapState => {
    const [used, resetsAtMs] = figures.slice(2 * index) as [number, number];
    return { name, limit, used, remaining: Math.max(0, limit - used), resetsAtMs };
  });
  return { allowed: true, caps: states, booked: true, deniedBy: null, source: "spool" };
}

export function otherImpression(id: string): KeylaneError {
  return badArgument(`impression: the id ${JSON.stringify(id)} stands for another impression`);
}
