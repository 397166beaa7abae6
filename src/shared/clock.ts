/** The one clock that all threads of the process share: `performance.now()` has another origin in each. */

const MASK = 0x7fff_ffff;

/** Monotonic milliseconds as a positive 31-bit number; it wraps after 24.8 days. */
export function processMs(): number {
  return Number((process.hrtime.bigint() / 1_000_000n) & 0x7fff_ffffn);
}

/** Milliseconds from one `processMs` to a later one, across a wrap. */
export function elapsed(from: number, to: number): number {
  return (to - from) & MASK;
}

/** Milliseconds until a `processMs` that lies ahead by half the range at most; 0 when it is past. */
export function remaining(until: number, now: number): number {
  const left = (until - now) & MASK;
  return left <= MASK >> 1 ? left : 0;
}

/** The `processMs` that comes `ms` after `now`. Never 0, which a shared word may hold for "none". */
export function later(now: number, ms: number): number {
  return (now + Math.ceil(ms)) & MASK || 1;
}
