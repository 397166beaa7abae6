/**
 * A Lua script that is sent by its digest: one round trip a call. A node that does not hold it gets the source once, with
 * that call (see the refusal table), and holds it from then on.
 */
import { createHash } from "node:crypto";
import { KeylaneError } from "../errors.js";
import type { CallOptions, CommandArg, Key, Reply } from "../types.js";

/** Sends one EVALSHA; given by the facade. */
export type RunScript = (
  script: { readonly sha: string; readonly source: string },
  keys: readonly Key[],
  args: readonly CommandArg[],
  options: CallOptions | undefined,
) => Promise<Reply>;

/** A script, made by `Keylane.script`. */
export class Script {
  readonly source: string;
  /** SHA-1 of the source, as SCRIPT LOAD gives it. */
  readonly sha: string;
  readonly #run: RunScript;

  /** @internal */
  constructor(source: string, run: RunScript) {
    if (typeof source !== "string" || source === "") {
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "a script's source must be a non-empty string");
    }
    this.source = source;
    this.sha = createHash("sha1").update(source).digest("hex");
    this.#run = run;
  }

  /** Runs it. The keys (at least one) must share one slot and domain. */
  run(keys: Key | readonly Key[], args: readonly CommandArg[] = [], options?: CallOptions): Promise<Reply> {
    const list = typeof keys === "string" || keys instanceof Uint8Array ? [keys] : keys;
    return this.#run(this, list, args, options);
  }
}
