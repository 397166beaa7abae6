/** Waiting in tests: for an event where there is one, else by looking again; always with a deadline and a name. */
import type { EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

/** Options of `until`. */
export interface UntilOptions {
  /** Give up after so many milliseconds (default 10,000). */
  readonly timeoutMs?: number;
  /** Distance between two looks, in milliseconds (default 10). */
  readonly everyMs?: number;
  /** What is awaited, for the error message. */
  readonly what?: string;
}

/**
 * Looks until `predicate` gives something other than false, null or undefined, and resolves to it. A predicate that throws
 * counts as false; its last error becomes the cause.
 */
export async function until<T>(
  predicate: () => T | Promise<T>,
  options: UntilOptions = {},
): Promise<Exclude<T, false | null | undefined>> {
  const { timeoutMs = 10_000, everyMs = 10, what = predicate.toString() } = options;
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  for (;;) {
    try {
      const value = await predicate();
      if (value !== false && value !== null && value !== undefined)
        return value as Exclude<T, false | null | undefined>;
    } catch (error) {
      cause = error;
    }
    if (performance.now() >= deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
    await sleep(everyMs);
  }
}

/** Resolves to the arguments of the next `name` event; unlike `events.once`, an `error` event does not count against it. */
export function nextEvent(emitter: EventEmitter, name: string, timeoutMs = 10_000): Promise<unknown[]> {
  return new Promise((resolve, reject) => {
    const heard = (...args: unknown[]): void => {
      clearTimeout(timer);
      resolve(args);
    };
    const timer = setTimeout(() => {
      emitter.off(name, heard);
      reject(new Error(`no ${name} event within ${timeoutMs} ms`));
    }, timeoutMs);
    emitter.once(name, heard);
  });
}

/** The promise's result, or an error when it has not settled after `timeoutMs`. Says which call hung. */
export async function within<T>(promise: Promise<T>, timeoutMs: number, what = "the call"): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not settle within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
