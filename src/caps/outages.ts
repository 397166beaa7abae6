/** Decisions that could not be had, by node, so that `degraded` is told once an outage and not once a call. */

/** A node that answers again has ended its outage when its last failure is so long ago, in milliseconds. */
const QUIET_MS = 1000;

export class Outages {
  /** Node index → when it failed last. */
  readonly #nodes = new Map<number, number>();
  readonly #began: (reason: string) => void;

  constructor(began: (reason: string) => void) {
    this.#began = began;
  }

  get any(): boolean {
    return this.#nodes.size > 0;
  }

  failed(node: number, reason: string, now: number): void {
    const known = this.#nodes.has(node);
    this.#nodes.set(node, now);
    if (!known) this.#began(reason);
  }

  answered(node: number, now: number): void {
    const last = this.#nodes.get(node);
    if (last !== undefined && now - last >= QUIET_MS) this.#nodes.delete(node);
  }
}
