/**
 * The turn: all operations issued in one event-loop turn leave together. One `setImmediate` a turn flushes every lane that
 * got work (microtask and nextTick flushes measured slower at every load), and one coarse timer a thread, alive only while
 * something is outstanding, looks after deadlines: no timer object belongs to an operation.
 */

/** Distance of the deadline sweeps, in milliseconds; a timeout is late by at most about this. */
export const TICK_MS = 10;

export interface TurnMember {
  /** Sends what was issued in this turn. */
  flush(): void;
  /** Settles what is past its deadline; returns whether anything is still outstanding. */
  sweep(now: number): boolean;
}

const dirty: TurnMember[] = [];
const ticking = new Set<TurnMember>();
let scheduled = false;
let timer: NodeJS.Timeout | null = null;
let coarse = 0;

/** A deadline that never comes. Deadlines are small integers, so that operations hold no boxed number. */
export const NEVER = 0x7fff_ffff;
/** Longest time a deadline may lie ahead, in milliseconds: 12 days. */
const FARTHEST = 2 ** 30;

/** The deadline `timeoutMs` from now, in whole milliseconds of this thread's monotonic clock, which a turn reads once. */
export function deadlineIn(timeoutMs: number): number {
  if (!scheduled) coarse = Math.ceil(performance.now());
  return coarse + (timeoutMs < FARTHEST ? timeoutMs : FARTHEST);
}

/** When this turn began, or now: whole milliseconds of the same clock, never later than now. */
export function turnTime(): number {
  if (!scheduled) coarse = Math.ceil(performance.now());
  return coarse - 1;
}

/** Queues a member for this turn's flush. Call once per member and turn. */
export function joinTurn(member: TurnMember): void {
  dirty.push(member);
  if (scheduled) return;
  scheduled = true;
  coarse = Math.ceil(performance.now());
  setImmediate(flushTurn);
}

/** Keeps the deadline timer alive until the member's `sweep` says that nothing is outstanding. */
export function joinTicks(member: TurnMember): void {
  ticking.add(member);
  timer ??= setTimeout(tick, TICK_MS);
}

function flushTurn(): void {
  scheduled = false;
  const members = dirty.splice(0);
  for (const member of members) member.flush();
}

function tick(): void {
  timer = null;
  const now = performance.now();
  for (const member of ticking) if (!member.sweep(now)) ticking.delete(member);
  if (ticking.size > 0) timer ??= setTimeout(tick, TICK_MS);
}
