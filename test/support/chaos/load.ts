/**
 * The mixed load of a storm: workers that keep one operation in flight each, on keys spread over all slots, every one of them
 * entered in the histories. The invariant: whatever is begun is seen to end, or counted as hung.
 *
 * ```text
 * tag i   c:{i} counter by INCRBY   e:{i} counter by EVALSHA   m:{i} counter by MULTI   r:{i} register      all in one slot
 * ```
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { StormClient } from "./client.js";
import { CounterHistory, type Ending } from "./counters.js";
import { Random } from "./random.js";
import { RegisterHistory } from "./registers.js";

export type Kind = "get" | "set" | "incr" | "getMany" | "script" | "multi";
const KINDS: readonly Kind[] = ["get", "get", "get", "set", "incr", "incr", "getMany", "script", "multi"];

/** Keys of one hash tag. */
export interface Tag {
  readonly slot: number;
  readonly counter: string;
  readonly scripted: string;
  readonly multi: string;
  readonly register: string;
}

/** An operation that failed. Moments on the `performance.now` clock. */
export interface Failure {
  readonly kind: Kind;
  readonly slot: number;
  readonly code: string;
  readonly began: number;
  readonly ended: number;
  /** When the slot next served an operation after this one began; 0 when it never did. */
  servedAt: number;
}

/** An operation that succeeded, late. */
export type Delay = Pick<Failure, "slot" | "began" | "ended">;

/** Options of a load. */
export interface LoadOptions {
  readonly tags: readonly Tag[];
  readonly seed: number;
  /** Operations in flight. */
  readonly workers: number;
  /** Mean pause of a worker between two operations, in milliseconds. */
  readonly pauseMs: number;
  /** Deadline of an operation; past it by a second, it hangs. */
  readonly deadlineMs: number;
  /** How old a read may be, in milliseconds; see `RegisterHistory`. */
  readonly staleMs?: number | undefined;
}

export const HANG_GRACE_MS = 1000;
/** An operation that took longer, in milliseconds, waited for something. */
const LATE_MS = 250;
const MAX_FAILURES = 200_000;

interface Open {
  readonly kind: Kind;
  readonly slot: number;
  readonly began: number;
  hung: boolean;
}

export class StormLoad {
  readonly counters = new CounterHistory();
  readonly registers: RegisterHistory;
  readonly failures: Failure[] = [];
  readonly delays: Delay[] = [];
  readonly succeeded: Record<Kind, number> = { get: 0, set: 0, incr: 0, getMany: 0, script: 0, multi: 0 };
  readonly failed: Record<Kind, number> = { get: 0, set: 0, incr: 0, getMany: 0, script: 0, multi: 0 };
  /** Operations that were unsettled a second after their deadline, whether they settled later or not. */
  hung: Omit<Open, "hung">[] = [];
  /** The longest life of an operation, in milliseconds. */
  slowestMs = 0;
  /** By slot: when it last served an operation, and the failures since. */
  readonly #served = new Map<number, { at: number; failures: Failure[] }>();
  readonly #client: StormClient;
  readonly #options: LoadOptions;
  readonly #open = new Set<Open>();
  readonly #watch: NodeJS.Timeout;
  #stopping = false;
  #workers: Promise<void>[] = [];

  constructor(client: StormClient, options: LoadOptions) {
    this.#client = client;
    this.#options = options;
    this.registers = new RegisterHistory(options.staleMs);
    this.#watch = setInterval(() => this.#lookForHangs(), 100);
  }

  /** Starts the workers. */
  start(): void {
    const { workers, seed } = this.#options;
    this.#workers = Array.from({ length: workers }, (_, index) => this.#work(new Random(seed + index)));
  }

  /** Ends the workers. Resolves when all operations are settled or have hung. */
  async stop(): Promise<void> {
    this.#stopping = true;
    const patience = this.#options.deadlineMs + HANG_GRACE_MS + 500;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, patience);
    });
    await Promise.race([Promise.all(this.#workers), late]);
    clearTimeout(timer);
    this.#lookForHangs();
    clearInterval(this.#watch);
  }

  /** Operations not settled now. */
  get open(): number {
    return this.#open.size;
  }

  /** Excuses the writes of some slots; see the histories. */
  excuse(holds: (slot: number) => boolean, from: number, to: number): void {
    for (const { slot, counter, scripted, multi, register } of this.#options.tags) {
      if (!holds(slot)) continue;
      for (const key of [counter, scripted, multi]) this.counters.excuse(key, from, to);
      this.registers.excuse(register, from, to);
    }
  }

  async #work(random: Random): Promise<void> {
    const { tags, pauseMs } = this.#options;
    while (!this.#stopping) {
      const kind = random.pick(KINDS);
      const some = kind === "getMany" ? Array.from({ length: 8 }, () => random.pick(tags)) : [random.pick(tags)];
      await this.#watched(kind, some, random);
      if (pauseMs > 0) await sleep(random.next() * 2 * pauseMs);
    }
  }

  async #watched(kind: Kind, tags: readonly Tag[], random: Random): Promise<void> {
    const open: Open = { kind, slot: tags[0]!.slot, began: performance.now(), hung: false };
    this.#open.add(open);
    try {
      if (kind === "getMany") await this.#getMany(tags, open.began);
      else {
        await this.#one(kind, tags[0]!, random);
        this.#serve(open.slot, open.began);
      }
      this.succeeded[kind] += 1;
    } catch (error) {
      this.#fail(kind, open.slot, open.began, error);
    }
    this.#open.delete(open);
    this.slowestMs = Math.max(this.slowestMs, performance.now() - open.began);
  }

  async #one(kind: Kind, tag: Tag, random: Random): Promise<void> {
    const client = this.#client;
    const { counter, scripted, multi, register } = tag;
    if (kind === "get") {
      const after = this.registers.read(register);
      const began = performance.now();
      this.registers.saw(register, after, await client.get(register), began);
    } else if (kind === "set") {
      const { number, value } = this.registers.write(register);
      const ended = (ending: Ending): void => this.registers.wrote(register, number, ending);
      await this.#ending(client.set(register, value), ended);
    } else if (kind === "multi") {
      const { number, value } = this.registers.write(register);
      const ticket = this.counters.begin(multi);
      await this.#ending(client.multi(multi, register, value), (ending, sum) => {
        this.counters.end(multi, ticket, ending, 1, sum);
        this.registers.wrote(register, number, ending);
      });
    } else {
      const key = kind === "incr" ? counter : scripted;
      const by = random.between(1, 3);
      const ticket = this.counters.begin(key);
      const call = kind === "incr" ? client.incr(key, by) : client.script(key, by);
      await this.#ending(call, (ending, sum) => this.counters.end(key, ticket, ending, by, sum));
    }
  }

  async #getMany(tags: readonly Tag[], began: number): Promise<void> {
    const keys = tags.map(({ register }) => register);
    const after = keys.map((key) => this.registers.read(key));
    const values = await this.#client.getMany(keys);
    for (const [at, value] of values.entries()) {
      if (value instanceof Error) this.#fail("getMany", tags[at]!.slot, began, value);
      else {
        this.registers.saw(keys[at]!, after[at]!, value, began);
        this.#serve(tags[at]!.slot, began);
      }
    }
  }

  /** Tells how a write ended, and rejects when it failed. */
  async #ending<T>(call: Promise<T>, tell: (ending: Ending, value?: number) => void): Promise<void> {
    let value: T;
    try {
      value = await call;
    } catch (error) {
      tell(this.#client.endingOf(error));
      throw error;
    }
    tell("acknowledged", typeof value === "number" ? value : undefined);
  }

  #serve(slot: number, began: number): void {
    const now = performance.now();
    if (now - began > LATE_MS && this.delays.length < MAX_FAILURES) this.delays.push({ slot, began, ended: now });
    const served = this.#servedOf(slot);
    served.at = now;
    for (const failure of served.failures.splice(0)) failure.servedAt = now;
  }

  #fail(kind: Kind, slot: number, began: number, error: unknown): void {
    this.failed[kind] += 1;
    if (this.failures.length >= MAX_FAILURES) return;
    const served = this.#servedOf(slot);
    const servedAt = served.at > began ? served.at : 0;
    const failure = { kind, slot, code: this.#client.codeOf(error), began, ended: performance.now(), servedAt };
    this.failures.push(failure);
    if (servedAt === 0) served.failures.push(failure);
  }

  #servedOf(slot: number): { at: number; failures: Failure[] } {
    let served = this.#served.get(slot);
    if (served === undefined) {
      served = { at: 0, failures: [] };
      this.#served.set(slot, served);
    }
    return served;
  }

  #lookForHangs(): void {
    const limit = performance.now() - this.#options.deadlineMs - HANG_GRACE_MS;
    for (const open of this.#open) {
      if (open.hung || open.began > limit) continue;
      open.hung = true;
      this.hung.push(open);
    }
  }
}
