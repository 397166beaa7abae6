/**
 * How often a watched key changes. A server tells of one change after each read, so nothing is heard between word of a change and
 * the answer to the next read. The invariant: only time in which a change would have been told is counted, so that slow rounds
 * do not make a key look calmer than it is. It has no clock of its own; times are milliseconds that do not go back.
 */

/** A key that changes so many times within `SPAN_MS` is restless: copies of it are dropped before they are read often. */
const BOUND = 20;
const SPAN_MS = 1000;
/** Time that must have been listened before a key can be called steady. */
const LEAST_MS = 250;
const LOOK_MS = 25;

export class Unrest {
  /** When the last changes were, in time listened; a ring. */
  readonly #at = new Float64Array(BOUND).fill(-Infinity);
  #changes = 0;
  #listenedMs = 0;
  /** Time listened between looks, and when the last one was. */
  #lookedMs = 0;
  #lookedAt = 0;
  /** Since when changes are told; null when they are not. */
  #since: number | null = null;
  /** A change was told since the read that is under way began. */
  #spoiled = false;

  /** Whether the next change would go unheard. */
  get deaf(): boolean {
    return this.#since === null;
  }

  /** A read begins. */
  asked(): void {
    this.#spoiled = false;
  }

  /** It was answered. */
  answered(now: number): void {
    if (!this.#spoiled) this.#since ??= now;
  }

  /** Changes are not told until the next read. */
  lost(now: number): void {
    this.#listenedMs = this.#listened(now);
    this.#since = null;
    this.#spoiled = true;
  }

  /** A change was told. True when there were too many. */
  changed(now: number): boolean {
    this.lost(now);
    const at = this.#changes % BOUND;
    const earliest = this.#at[(at + 1) % BOUND]!;
    this.#at[at] = this.#listenedMs;
    this.#changes += 1;
    return this.#listenedMs - earliest < SPAN_MS;
  }

  /**
   * A look, while it is not known whether the key is steady: whether it was listened long enough, and told of fewer changes than
   * would be too many. A thread that stood still between two looks has heard nothing, so each counts for `LOOK_MS` at most.
   */
  steady(now: number): boolean {
    if (this.#since !== null) this.#lookedMs += Math.min(LOOK_MS, now - Math.max(this.#since, this.#lookedAt));
    this.#lookedAt = now;
    return this.#lookedMs >= LEAST_MS && this.#changes * SPAN_MS < BOUND * this.#lookedMs;
  }

  #listened(now: number): number {
    return this.#since === null ? this.#listenedMs : this.#listenedMs + now - this.#since;
  }
}
