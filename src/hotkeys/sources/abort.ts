/** A promise of a signal's abort that leaves no listener behind. */
export interface Abort {
  /** Resolves when the signal is aborted. */
  readonly aborted: Promise<void>;
  /** Takes the listener back; the promise then stays as it is. */
  readonly forget: () => void;
}

export function untilAborted(signal: AbortSignal): Abort {
  const listener = { handleEvent: (): void => undefined };
  const aborted = new Promise<void>((resolve) => {
    listener.handleEvent = resolve;
    if (signal.aborted) resolve();
  });
  signal.addEventListener("abort", listener, { once: true });
  return { aborted, forget: () => signal.removeEventListener("abort", listener) };
}
