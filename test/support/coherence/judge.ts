/** Holds what the threads saw against what the servers did, and puts it in figures. */
import { History } from "./history.js";
import type { Ran } from "./monitor.js";
import type { PlayerLog } from "./player.js";

/** How old some reads were, in milliseconds. */
export interface Ages {
  readonly reads: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** A read whose value the servers had replaced before it began. */
export interface StaleRead {
  readonly process: number;
  readonly thread: number;
  readonly key: string;
  readonly staleMs: number;
  readonly expired: boolean;
  /** For how long of that time a thread of the process stood still (the one that stood longest), in milliseconds. */
  readonly stalledMs: number;
  /** How long after the change the monitor heard of it, in milliseconds; 0 for the end of a life. */
  readonly heardMs: number;
}

export interface Judgement {
  readonly reads: number;
  readonly unknown: number;
  readonly writes: number;
  /** All reads but those of values whose life was over. */
  readonly all: Ages;
  /** Of these, the ones that were stale at all. */
  readonly stale: Ages;
  /** … while all threads of their process were seen to run. */
  readonly awake: Ages;
  /** Reads of values whose life was over. */
  readonly expired: Ages;
  readonly worst: readonly StaleRead[];
  /** Stalls of all threads, in milliseconds. */
  readonly stalls: Ages;
  readonly errors: readonly string[];
  /** Values that the servers never held by the time they were read. */
  readonly foreign: readonly string[];
  /** Reads of a value that a write of the same process, acknowledged before, had replaced. */
  readonly unseen: readonly string[];
}

const WORST = 10;

/** `logs` by process and thread; `offsetMs` is the servers' wall clock less the threads' clock. */
export function judge(
  keys: readonly string[],
  ran: readonly Ran[],
  logs: readonly (readonly PlayerLog[])[],
  offsetMs: number,
): Judgement {
  const history = new History(keys, ran);
  const ages: number[] = [];
  const awake: number[] = [];
  const expired: number[] = [];
  const found: StaleRead[] = [];
  const foreign: string[] = [];
  const unseen: string[] = [];
  for (const [process, threads] of logs.entries()) {
    const acknowledged = new Map(threads.flatMap((log) => log.acknowledged));
    for (const [thread, log] of threads.entries()) {
      for (let i = 0; i < log.began.length; i += 1) {
        const began = log.began[i]!;
        const key = keys[log.keys[i]!]!;
        const value = log.texts[log.values[i]!]!;
        const verdict = history.judge(key, value, began + offsetMs, log.ended[i]! + offsetMs);
        if (verdict === null) foreign.push(`${key} was read as ${value}`);
        else (verdict.expired ? expired : ages).push(verdict.staleMs);
        if (verdict === null || verdict.staleMs === 0) continue;
        const { staleMs, next, heard } = verdict;
        const heardMs = heard === undefined ? 0 : heard - (began - staleMs);
        const stalledMs = longestStall(threads, began - staleMs, began);
        if (!verdict.expired && stalledMs === 0) awake.push(staleMs);
        found.push({ process, thread, key, staleMs, expired: verdict.expired, stalledMs, heardMs });
        if (typeof next === "string" && acknowledged.get(next)! < began) {
          unseen.push(`${key} was read as ${value} after ${next} was acknowledged`);
        }
      }
    }
  }
  const all = logs.flat();
  return {
    reads: ages.length + expired.length,
    unknown: all.reduce((sum, log) => sum + log.unknown, 0),
    writes: all.reduce((sum, log) => sum + log.writes, 0),
    all: agesOf(ages),
    stale: agesOf(ages.filter((age) => age > 0)),
    awake: agesOf(awake),
    expired: agesOf(expired),
    worst: found.toSorted((a, b) => b.staleMs - a.staleMs).slice(0, WORST),
    stalls: agesOf(all.flatMap(({ stalls }) => stalls.map(([from, to]) => to - from))),
    errors: all.flatMap(({ errors }) => errors),
    foreign,
    unseen,
  };
}

/** The figures as text. */
export function report(judgement: Judgement, seconds: number, offsets: string): string {
  const { reads, unknown, writes, all, stale, awake, expired, worst, stalls } = judgement;
  const lines = [
    `coherence: ${seconds} s, ${writes} writes, ${reads} reads answered, ${unknown} looks at what was not cached`,
    `  age of what was read, after its invalidation was sent   ${agesText(all)}`,
    `  … of reads that were late at all                        ${agesText(stale)}`,
    `  … of these, while all threads of the process ran        ${agesText(awake)}`,
    `  … after the end of its life                             ${agesText(expired)}`,
    `  stalls of the threads' event loops                      ${agesText(stalls)}`,
    `  clocks: ${offsets}`,
    ...worst.map(
      ({ process, thread, key, staleMs, stalledMs, heardMs, expired: over }) =>
        `  late by ${staleMs.toFixed(2)} ms: ${key} in thread ${thread} of process ${process}` +
        `${over ? ", its life over" : ""}; a thread stood still for ${stalledMs.toFixed(2)} ms of it, ` +
        `and the monitor heard of it after ${heardMs.toFixed(2)} ms`,
    ),
  ];
  return lines.join("\n");
}

/** How long the threads stood still between two moments; of the one that did longest. */
function longestStall(threads: readonly PlayerLog[], from: number, to: number): number {
  const overlaps = threads.map(({ stalls }) =>
    stalls.reduce((sum, [begin, end]) => sum + Math.max(0, Math.min(to, end) - Math.max(from, begin)), 0),
  );
  return Math.max(...overlaps);
}

function agesOf(values: readonly number[]): Ages {
  const sorted = Float64Array.from(values).toSorted();
  const at = (share: number): number => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
  return { reads: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

function agesText({ reads, p50, p99, max }: Ages): string {
  return `p50 ${p50.toFixed(2)}, p99 ${p99.toFixed(2)}, max ${max.toFixed(2)} ms (${reads})`;
}
