/**
 * Whether a history could have come from keys that do one thing at a time: whether there is an order of the operations, in
 * which each has the output that it had, and none comes before one that had ended when it was called.
 *
 * The search is Wing and Gong's ("Testing and Verifying Concurrent Objects", 1993) with Lowe's memory of configurations already
 * tried ("Testing for Linearizability", 2017), key by key, since linearizability is local (Herlihy and Wing, 1990):
 *
 * ```text
 * events in time   call a · call b · end a · call c · end c · end b
 *                  └──────────────┘
 *                  calls before the first end: one of them comes next in the order; it is taken out with its end, and so on
 * ```
 *
 * A call of unknown outcome has no end in there, and need not be taken; known ones are tried before. What spares choices:
 *
 * - a read that fits is taken at once, since it changes nothing;
 * - of unknown calls that are alike the earliest goes first, and an unknown SET that nobody may have seen is left out;
 * - where only one SET can have led to what an operation saw, no other SET comes between the two (`origins.ts`).
 */
import { describe, step } from "./operation.js";
import { UNSURE, originsOf } from "./origins.js";
import type { Origins } from "./origins.js";
import type { Operation, State } from "./operation.js";

/** The search of one key gives up after so many configurations. */
const MOST_CONFIGURATIONS = 2_000_000;

/** What is known of a key's history. */
export interface Verdict {
  readonly linearizable: boolean;
  /** Configurations tried. */
  readonly explored: number;
  /** Where the longest order found ends: the state, and what would have to come next. Empty when there is an order of all. */
  readonly stuck: string;
}

/** A place in the order found so far. */
interface Frame {
  /** What could come next here, in the order in which it is tried. */
  readonly choices: readonly number[];
  readonly state: State;
  /** The SET that led to it, or the number of operations for the value at first. */
  readonly origin: number;
  /** How many choices have been tried; the last one of them is taken. */
  tried: number;
}

/** The calls of one key, and which of them are in the order so far. */
class Search {
  /** Known operations in the order of their calls, then the unknown ones likewise. */
  readonly #operations: readonly Operation[];
  readonly #known: number;
  /** The events in time: the operation called, or -1 - the operation that ended. A list, linked by indices; 0 is its head. */
  readonly #events: Int32Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #callOf: Int32Array;
  readonly #endOf: Int32Array;
  readonly #taken: Uint8Array;
  readonly #origins: Origins;
  /** By SET, and last for the value at first: untaken operations that only it can have led to. */
  readonly #owed: Int32Array;
  /** Known operations below are all taken. */
  #low = 0;
  #left: number;
  readonly #tried = new Set<string>();

  constructor(history: readonly Operation[], initial: State) {
    const known = history.filter(({ outcome }) => outcome === "ok").toSorted(byCall);
    const possible = history.filter(({ outcome, kind }) => outcome === "unknown" && kind !== "get").toSorted(byCall);
    const { seen } = originsOf([...known, ...possible], initial);
    const unknown = possible.filter(({ kind }, at) => kind === "incr" || seen[known.length + at] === 1);
    const operations = [...known, ...unknown];
    this.#operations = operations;
    this.#origins = originsOf(operations, initial);
    this.#owed = new Int32Array(operations.length + 1);
    for (const origin of this.#origins.only) if (origin !== UNSURE) this.#owed[origin] += 1;
    this.#known = known.length;
    this.#left = known.length;
    this.#taken = new Uint8Array(operations.length);
    // At the same moment calls come first: the two may have overlapped.
    const events = [
      ...operations.map(({ began }, index) => ({ at: began, event: index })),
      ...known.map(({ ended }, index) => ({ at: ended, event: -1 - index })),
    ].toSorted((a, b) => a.at - b.at || b.event - a.event);
    const size = events.length + 1;
    this.#events = Int32Array.from([0, ...events.map(({ event }) => event)]);
    this.#next = Int32Array.from({ length: size }, (_, at) => at + 1);
    this.#previous = Int32Array.from({ length: size + 1 }, (_, at) => at - 1);
    this.#callOf = new Int32Array(operations.length);
    this.#endOf = new Int32Array(operations.length);
    for (const [index, { event }] of events.entries()) {
      if (event >= 0) this.#callOf[event] = index + 1;
      else this.#endOf[-1 - event] = index + 1;
    }
  }

  run(initial: State): Verdict {
    const operations = this.#operations;
    const first = operations.length;
    const path: Frame[] = [{ choices: this.#choices(initial, first), state: initial, origin: first, tried: 0 }];
    let explored = 0;
    let least = Infinity;
    let stuck = "";
    while (this.#left > 0) {
      const frame = path.at(-1)!;
      if (frame.tried === frame.choices.length) {
        if (this.#left < least) {
          least = this.#left;
          stuck = this.#describe(frame);
        }
        path.pop();
        const before = path.at(-1);
        if (before === undefined) return { linearizable: false, explored, stuck };
        this.#putBack(before.choices[before.tried - 1]!);
        continue;
      }
      const choice = frame.choices[frame.tried]!;
      frame.tried += 1;
      const state = step(operations[choice]!, frame.state);
      if (state === undefined) continue;
      this.#take(choice);
      const configuration = this.#configuration(state);
      if (this.#tried.has(configuration)) {
        this.#putBack(choice);
        continue;
      }
      this.#tried.add(configuration);
      explored += 1;
      if (explored > MOST_CONFIGURATIONS) throw new Error(`undecided after ${explored} configurations: ${stuck}`);
      const origin = operations[choice]!.kind === "set" ? choice : frame.origin;
      path.push({ choices: this.#choices(state, origin), state, origin, tried: 0 });
    }
    return { linearizable: true, explored, stuck: "" };
  }

  /** Calls that no untaken one has ended before, and that may come next. */
  #choices(state: State, origin: number): number[] {
    const operations = this.#operations;
    const known: number[] = [];
    const unknown: number[] = [];
    for (let at = this.#next[0]!; at < this.#events.length; at = this.#next[at]!) {
      const index = this.#events[at]!;
      if (index < 0) break;
      const operation = operations[index]!;
      if (operation.kind === "set" && this.#owed[origin]! > 0) continue;
      if (index >= this.#known) {
        const alike = ({ kind, input }: Operation): boolean => kind === operation.kind && input === operation.input;
        if (!unknown.some((other) => alike(operations[other]!))) unknown.push(index);
      } else if (operation.kind !== "get") known.push(index);
      else if (operation.output === state) return [index];
    }
    return known.concat(unknown);
  }

  #take(index: number): void {
    this.#taken[index] = 1;
    this.#owe(index, -1);
    this.#unlink(this.#callOf[index]!);
    if (index >= this.#known) return;
    this.#unlink(this.#endOf[index]!);
    this.#left -= 1;
    while (this.#low < this.#known && this.#taken[this.#low] === 1) this.#low += 1;
  }

  #putBack(index: number): void {
    this.#taken[index] = 0;
    this.#owe(index, 1);
    if (index < this.#known) {
      this.#relink(this.#endOf[index]!);
      this.#left += 1;
      if (index < this.#low) this.#low = index;
    }
    this.#relink(this.#callOf[index]!);
  }

  #owe(index: number, change: number): void {
    const origin = this.#origins.only[index]!;
    if (origin !== UNSURE) this.#owed[origin] += change;
  }

  #unlink(at: number): void {
    this.#next[this.#previous[at]!] = this.#next[at]!;
    this.#previous[this.#next[at]!] = this.#previous[at]!;
  }

  #relink(at: number): void {
    this.#next[this.#previous[at]!] = at;
    this.#previous[this.#next[at]!] = at;
  }

  /** Which operations are taken, and the state they left. */
  #configuration(state: State): string {
    const taken = this.#taken;
    const ahead: number[] = [];
    // So many of the known ones beyond `#low` are taken.
    let seen = this.#known - this.#low - this.#left;
    for (let index = this.#low + 1; seen > 0; index += 1) {
      if (taken[index] === 0) continue;
      ahead.push(index);
      seen -= 1;
    }
    for (let index = this.#known; index < taken.length; index += 1) if (taken[index] === 1) ahead.push(index);
    return `${state} ${this.#low} ${ahead.join()}`;
  }

  #describe({ choices, state, origin }: Frame): string {
    const called: string[] = [];
    for (let at = this.#next[0]!; at < this.#events.length && this.#events[at]! >= 0; at = this.#next[at]!) {
      called.push(describe(this.#operations[this.#events[at]!]!));
    }
    const place = `after ${this.#known - this.#left} of ${this.#known} the value is ${state}`;
    const owed = `${this.#owed[origin]} more saw it or its sums`;
    return `${place} and ${owed}; ${choices.length} choices of ${called.join(", ")}`;
  }
}

const byCall = (a: Operation, b: Operation): number => a.began - b.began;

/** Judges the history of one key that held `initial` before. Linear in histories with little overlap, exponential at worst. */
export function checkKey(history: readonly Operation[], initial: State = null): Verdict {
  return new Search(history, initial).run(initial);
}

/** What is known of the history of many keys. */
export interface Report {
  readonly keys: number;
  readonly operations: number;
  readonly unknown: number;
  readonly explored: number;
  /** The most operations that were under way on one key at once. */
  readonly overlap: number;
  /** By key that is not linearizable, where its order ends. */
  readonly faults: ReadonlyMap<string, string>;
}

/** Judges every key by itself; all are absent at first. */
export function check(history: readonly Operation[]): Report {
  const byKey = new Map<string, Operation[]>();
  for (const operation of history) {
    const list = byKey.get(operation.key);
    if (list === undefined) byKey.set(operation.key, [operation]);
    else list.push(operation);
  }
  const faults = new Map<string, string>();
  let explored = 0;
  let overlap = 0;
  for (const [key, list] of byKey) {
    const verdict = checkKey(list);
    explored += verdict.explored;
    overlap = Math.max(overlap, overlapOf(list));
    if (!verdict.linearizable) faults.set(key, verdict.stuck);
  }
  const unknown = history.filter(({ outcome }) => outcome === "unknown").length;
  return { keys: byKey.size, operations: history.length, unknown, explored, overlap, faults };
}

function overlapOf(history: readonly Operation[]): number {
  const moments = history.flatMap(({ began, ended }) => [
    { at: began, change: 1 },
    { at: ended, change: -1 },
  ]);
  let now = 0;
  let most = 0;
  for (const { change } of moments.toSorted((a, b) => a.at - b.at || b.change - a.change)) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}
