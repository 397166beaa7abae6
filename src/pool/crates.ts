/**
 * Memory of messages, used again: a message that was read is the next one to be written. The invariant: a crate is held by one
 * side at a time (transferring it detaches it here), and what was read from it refers to it no more.
 */

/** Larger crates are left to the garbage collector. */
const LARGEST = 1 << 20;
const SMALLEST = 16 << 10;
const KEPT = 8;

export class Crates {
  readonly #idle: ArrayBuffer[] = [];

  /** Memory of at least `bytes`; its content is arbitrary. */
  take(bytes: number): ArrayBuffer {
    for (let at = this.#idle.length - 1; at >= 0; at -= 1) {
      const crate = this.#idle[at]!;
      if (crate.byteLength < bytes) continue;
      this.#idle[at] = this.#idle.at(-1)!;
      this.#idle.pop();
      return crate;
    }
    const size = bytes <= SMALLEST ? SMALLEST : bytes > LARGEST ? roundUp(bytes, 8) : 2 ** Math.ceil(Math.log2(bytes));
    return Buffer.allocUnsafeSlow(size).buffer;
  }

  give(crate: ArrayBuffer): void {
    if (crate.byteLength <= LARGEST && this.#idle.length < KEPT) this.#idle.push(crate);
  }
}

/** `value` up to a multiple of `unit`, a power of two. */
export function roundUp(value: number, unit: number): number {
  return (value + unit - 1) & -unit;
}
