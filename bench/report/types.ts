/**
 * The shape of a benchmark's result, the same for every suite: what `--json` writes and what the table and the chart are
 * drawn from. The invariant: every figure in a row is the median over the interleaved rounds, and says how far apart they lay.
 */

/** Measured over one round; a row is the median of several. */
export interface Sample {
  /** Operations completed in a second of wall time. */
  readonly opsPerSec: number;
  /** Microseconds of CPU time (user and system, all threads) the client's process spent per operation. */
  readonly cpuMicrosPerOp: number;
  /** Median latency in milliseconds. */
  readonly p50Ms: number;
  /** 99th percentile of latency in milliseconds. */
  readonly p99Ms: number;
  /** Bytes of memory per entry held, where the suite stores entries. */
  readonly bytesPerEntry?: number;
  /** Figures that only this suite has, by name. */
  readonly more?: { readonly [what: string]: number };
}

/** The figures that every sample has. */
export type Figure = "opsPerSec" | "cpuMicrosPerOp" | "p50Ms" | "p99Ms";

/** How far apart the rounds of a row were: (largest − smallest) ÷ median, one number a figure. */
export type Spread = { readonly [figure in Figure]: number };

/** One contestant under one condition. */
export interface Row extends Sample {
  /** Unique in its report. */
  readonly name: string;
  /** Rows of one condition, compared with each other; the heading of a section of the table and of the chart. */
  readonly group: string;
  /** `peer` and `keylane` are compared; `bound` and `overhead` are there to read the others by. */
  readonly role: Role;
  readonly rounds: number;
  readonly spread: Spread;
}

/** What a row stands for. */
export type Role = "keylane" | "peer" | "bound" | "overhead";

/** A ratio with a target. */
export interface Goal {
  /** Key of the ratio in `Report.ratios`. */
  readonly ratio: string;
  readonly value: number;
  /** Smallest and largest value that meets the goal. */
  readonly atLeast?: number;
  readonly atMost?: number;
  readonly met: boolean;
}

/** What a suite gives. */
export interface Report {
  readonly suite: string;
  readonly environment: Environment;
  readonly rows: readonly Row[];
  readonly ratios: { readonly [what: string]: number };
  readonly goals: readonly Goal[];
  /** Groups without a peer, and ratios without a goal, that the README tells all the same. */
  readonly told?: readonly string[];
}

/** Where the figures were taken: without it they mean nothing. */
export interface Environment {
  readonly date: string;
  readonly node: string;
  readonly platform: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  /** Load average over a minute when the suite began; well above 0 means other work shared the machine. */
  readonly load: number;
  /** Settings that change figures: rounds, keys, trace, server. */
  readonly settings: { readonly [name: string]: string | number | boolean };
  /** Versions of keylane and of every peer. */
  readonly versions: { readonly [name: string]: string };
}
