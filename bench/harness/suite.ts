/**
 * What a suite is: a name, and a function from settings to rows, ratios and goals. The command line is turned into
 * settings here, so that all suites mean the same by the same option.
 */
import type { Report } from "../report/types.js";

/** Settings of one run. */
export interface Settings {
  /** Tiny rounds: proves that the suite works, its figures mean little. */
  readonly quick: boolean;
  /** Counted rounds per contestant, 1 or more. */
  readonly rounds: number;
  /** Numbers of distinct keys for the flatness rows. */
  readonly keys: readonly number[];
  /** File to replay instead of a uniform stream. */
  readonly trace: string | undefined;
  /** `host:port` list of a running cluster to use instead of a fresh one. The suite writes its keys to it. */
  readonly nodes: readonly string[];
  /** Progress, one short line at a time. */
  note(line: string): void;
}

/** Everything in a report but the name. */
export type Outcome = Omit<Report, "suite">;

/** One benchmark suite. */
export interface Suite {
  readonly name: string;
  /** One line for `--list`. */
  readonly about: string;
  run(settings: Settings): Promise<Outcome>;
}
