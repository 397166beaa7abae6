/** What a storm asks of a client, and keylane behind that face. Peers get adapters of their own beside their runs. */
import { type Keylane, KeylaneError } from "keylane";
import type { Ending } from "./counters.js";

/** Adds ARGV[1] to KEYS[1] and gives the sum. */
export const ADD_SCRIPT = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

/** The client under test. A method rejects when its operation failed. */
export interface StormClient {
  readonly name: string;
  get(key: string): Promise<string | null>;
  set(key: string, value: string): Promise<unknown>;
  /** The sum after adding `by`. */
  incr(key: string, by: number): Promise<number>;
  /** A value, null, or the error of each key. */
  getMany(keys: readonly string[]): Promise<readonly (string | null | Error)[]>;
  /** As `incr`, by `ADD_SCRIPT`. */
  script(key: string, by: number): Promise<number>;
  /** In one transaction: adds 1 to the counter and sets the register. Gives the counter's sum. */
  multi(counter: string, register: string, value: string): Promise<number>;
  /** Whether a failed write may have run. */
  endingOf(error: unknown): Exclude<Ending, "acknowledged">;
  /** A short name of the error, for counting. */
  codeOf(error: unknown): string;
  close(): Promise<unknown>;
}

/** Keylane as a client of storms. */
export function keylaneClient<Domains>(opened: Keylane<Domains>): StormClient {
  const lanes = opened as unknown as Keylane<Record<string, object>>;
  const add = lanes.script(ADD_SCRIPT);
  return {
    name: "keylane",
    get: (key) => lanes.get(key) as Promise<string | null>,
    set: (key, value) => lanes.set(key, value as never),
    incr: async (key, by) => Number(await lanes.incrBy(key, by)),
    getMany: (keys) => lanes.getMany(keys, { onError: "return" }) as Promise<(string | null | Error)[]>,
    script: async (key, by) => Number(await add.run(key, [by])),
    multi: async (counter, register, value) => {
      const results = await lanes.multi(counter).incrBy(counter).set(register, value).exec();
      const [sum, stored] = results;
      if (sum instanceof Error || stored !== true) throw new Error(`a transaction gave ${String(results)}`);
      return Number(sum);
    },
    endingOf: (error) => (error instanceof KeylaneError && error.outcome !== "unknown" ? "rejected" : "unknown"),
    codeOf: (error) => (error instanceof KeylaneError ? `${error.code} ${error.outcome}` : String(error)),
    close: () => lanes.close({ timeoutMs: 2000 }),
  };
}
