/** What a loop probe (`loop-probe.ts`) and its thread share: a word that it sleeps on, and how many messages it has sent. */
const CLOSED = 0;
const OPEN = 1;
/** Place of the number. */
const SENT = 1;

export class Gate {
  readonly words: Int32Array<SharedArrayBuffer>;

  constructor(words = new Int32Array(new SharedArrayBuffer(8))) {
    this.words = words;
  }

  get sent(): number {
    return Atomics.load(this.words, SENT);
  }

  count(): void {
    Atomics.add(this.words, SENT, 1);
  }

  open(): void {
    Atomics.store(this.words, 0, OPEN);
    Atomics.notify(this.words, 0);
  }

  close(): void {
    Atomics.store(this.words, 0, CLOSED);
    Atomics.notify(this.words, 0);
  }

  /** Blocks until it is open. */
  passed(): void {
    Atomics.wait(this.words, 0, CLOSED);
  }

  /** Blocks for some time, while it is open. */
  pause(ms: number): void {
    Atomics.wait(this.words, 0, OPEN, ms);
  }
}
