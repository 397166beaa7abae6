/** Watching one operation from outside: an abort signal, a diagnostics subscriber. Only operations that need it pay. */
import { commandChannel } from "../diagnostics.js";
import type { KeylaneError, KeylaneErrorCode } from "../errors.js";
import type { Op } from "./op.js";

/** Calls `abort` when the signal fires before the operation is settled; takes the listener off when it is. */
export function watchSignal(op: Op, signal: AbortSignal, abort: (reason: unknown) => void): void {
  const { settle } = op;
  const listener = (): void => abort(signal.reason);
  op.settle = (value) => {
    signal.removeEventListener("abort", listener);
    settle.call(op, value);
  };
  signal.addEventListener("abort", listener, { once: true });
}

/** Publishes the operation on `keylane:command` when it is settled. */
export function traceCommand(op: Op, domain: string): void {
  const { settle, command } = op;
  const began = performance.now();
  const publish = (error: KeylaneErrorCode | null): void =>
    commandChannel.publish({ domain, command, durationMs: performance.now() - began, error });
  op.settle = (value) => {
    settle.call(op, value);
    if (value instanceof Promise) value.catch((error: KeylaneError) => publish(error.code));
    else publish(null);
  };
}
