/** What `decide.lua` answers, as the caller gets it. */
import type { Reply } from "../types.js";
import type { Plan } from "./plan.js";
import type { CapState } from "./types.js";

/** First word of a reply. */
export const Status = {
  DENIED: 0,
  ALLOWED: 1,
  /** The id was allowed before. */
  REMEMBERED: 2,
  /** The same, and it is billed: nothing is left to do. */
  SETTLED: 3,
  /** The boundaries sent do not hold the server's time. */
  OTHER_TIME: -1,
  /** The id stands for other caps. */
  OTHER_CAPS: -2,
} as const;

/** Words before the figures of the caps: status and the server's time. */
export const HEAD_WORDS = 2;
/** Words a cap: used, milliseconds until it resets, milliseconds until the count ends. */
export const CAP_WORDS = 3;

/** A reply whose head is numbers; anything else is not taken for a decision. */
export function isDecision(reply: Reply, words: number): reply is number[] {
  if (!Array.isArray(reply) || typeof reply[0] !== "number" || typeof reply[1] !== "number") return false;
  if (reply[0] < 0) return true;
  if (reply.length < words) return false;
  for (let i = HEAD_WORDS; i < words; i += 1) if (typeof reply[i] !== "number") return false;
  return true;
}

export function statesOf(plan: Plan, figures: readonly number[]): CapState[] {
  const at = figures[1]!;
  const states: CapState[] = [];
  for (let i = 0; i < plan.length; i += 1) {
    const { name, limit } = plan[i]!;
    const word = HEAD_WORDS + CAP_WORDS * i;
    const used = figures[word]!;
    states.push({ name, limit, used, remaining: used < limit ? limit - used : 0, resetsAtMs: at + figures[word + 1]! });
  }
  return states;
}
