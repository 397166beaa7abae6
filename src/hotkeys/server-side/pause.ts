/** Waiting that an abort ends. */
import { setTimeout as sleep } from "node:timers/promises";
import { KeylaneError } from "../../errors.js";

/** @throws KeylaneError `KEYLANE_ERR_ABORTED` */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted !== true) return;
  throw new KeylaneError("KEYLANE_ERR_ABORTED", "the search for hot keys was aborted", { cause: signal.reason });
}

/** Waits. @throws KeylaneError `KEYLANE_ERR_ABORTED`, at once when the signal fires */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  throwIfAborted(signal);
  if (ms <= 0) return;
  await sleep(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
  throwIfAborted(signal);
}

/** Waits, and tells how far it is, four times a second. @throws KeylaneError `KEYLANE_ERR_ABORTED` */
export async function watch(ms: number, signal: AbortSignal | undefined, told: (done: number) => void): Promise<void> {
  const began = performance.now();
  for (let left = ms; left > 0; left = began + ms - performance.now()) {
    told(ms - left);
    await pause(Math.min(left, 250), signal);
  }
  told(ms);
}
