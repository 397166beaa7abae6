/** Wakes one waiter. The invariant: a ring is heard once, also when nobody waited at the time. */
export class Bell {
  #rung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Resolves when it rings or has rung since the last wait, or after `ms` (Infinity: only when it rings). */
  async wait(ms: number): Promise<void> {
    if (!this.#rung) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (ms !== Infinity) timer = setTimeout(resolve, ms).unref();
      });
      clearTimeout(timer);
      this.#wake = undefined;
    }
    this.#rung = false;
  }
}
