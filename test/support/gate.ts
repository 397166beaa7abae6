/** A promise that stays pending until the test opens it. */
export class Gate<T> {
  readonly opened: Promise<T>;
  #open!: (value: T) => void;

  constructor() {
    this.opened = new Promise((resolve) => {
      this.#open = resolve;
    });
  }

  open(value: T): void {
    this.#open(value);
  }
}
