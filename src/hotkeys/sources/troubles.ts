/**
 * What is wrong with a source. The invariant: the last word is true. A cause is told once when it begins; when nothing is
 * wrong any more null is told once; when a cause ends while others last, one of those is told.
 */
import { KeylaneError } from "../../errors.js";

/** Causes beyond that are not kept apart. */
const MAX_CAUSES = 64;
/** Longest part of a foreign message that is passed on. */
const MAX_MESSAGE = 300;

export class Troubles {
  readonly #tell: (error: Error | null) => void;
  readonly #name: string;
  readonly #secrets: () => readonly string[];
  readonly #causes = new Map<string, KeylaneError>();
  #last: KeylaneError | null = null;

  /** `secrets` gives what must never be in a message. */
  constructor(name: string, secrets: () => readonly string[], tell: (error: Error | null) => void) {
    this.#name = name;
    this.#secrets = secrets;
    this.#tell = tell;
  }

  /** Something is wrong; told unless its cause is known already. */
  add(cause: string, reason: string): void {
    if (this.#causes.has(cause) || this.#causes.size >= MAX_CAUSES) return;
    const text = redact(reason, this.#secrets()).slice(0, MAX_MESSAGE);
    const error = new KeylaneError("KEYLANE_ERR_SOURCE", `hot key source ${this.#name}: ${text}`);
    this.#causes.set(cause, error);
    this.#say(error);
  }

  /** A cause is over. */
  end(cause: string): void {
    const error = this.#causes.get(cause);
    if (error === undefined) return;
    this.#causes.delete(cause);
    const [left] = this.#causes.values();
    if (left === undefined) this.#say(null);
    else if (this.#last === error) this.#say(left);
  }

  #say(error: KeylaneError | null): void {
    this.#last = error;
    this.#tell(error);
  }
}

/** The text without the secrets, also where they are escaped for an address. */
export function redact(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret === "") continue;
    clean = clean.replaceAll(secret, "***").replaceAll(encodeURIComponent(secret), "***");
  }
  return clean;
}
