/**
 * What one thread does in a coherence run: at every tick some reads (`peek` and `get`) and now and then a write, each of a
 * random key. Reads are recorded with the moment they began; the verdict is left to whoever knows what the servers did.
 *
 * ```text
 * tag i   r:{i} register: SET with a text never used before   c:{i} counter: INCRBY of a large random amount    one slot
 * ```
 *
 * Sums of random amounts repeat as rarely as texts do, so a value tells which write made it, deletions or not.
 */
import type { Keylane, Script } from "keylane";
import { Random } from "../chaos/random.js";

/** Distance of ticks, in milliseconds. */
const TICK_MS = 4;
const READS_PER_TICK = 12;
/** One read in so many is a `get`, the others are `peek`. */
const GET_EVERY = 4;
/** Part of the ticks that write. */
const WRITING = 0.5;
/** A tick that is late by more than this, in milliseconds, is recorded as a stall of the event loop. */
const STALL_MS = 10;
const LIFE_MS = [50, 400] as const;
const MAX_AMOUNT = 2 ** 31 - 1;

const BOTH = `redis.call('SET', KEYS[1], ARGV[1])
return redis.call('INCRBY', KEYS[2], ARGV[2])`;

type Write = "set" | "set for a while" | "del" | "incrBy" | "expire" | "multi" | "script";
const WRITES: readonly Write[] = [
  "set",
  "set",
  "set for a while",
  "del",
  "incrBy",
  "incrBy",
  "expire",
  "multi",
  "script",
];

/** Milliseconds of CLOCK_MONOTONIC: one clock for all threads and processes of the machine. */
export function clock(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The key pair of a tag. */
export function pairOf(tag: number): [register: string, counter: string] {
  return [`r:{${tag}}`, `c:{${tag}}`];
}

/** All keys of a run, in the order in which `keys` of a log counts them. */
export function keysOf(tags: number): string[] {
  return Array.from({ length: tags }, (_, tag) => pairOf(tag)).flat();
}

/** What a thread saw. Moments in milliseconds of `clock`. */
export interface PlayerLog {
  /** By read: when it began and ended, which key it asked, and which of `texts` it was given. */
  readonly began: Float64Array;
  readonly ended: Float64Array;
  readonly keys: Uint16Array;
  readonly values: Uint32Array;
  /** Values seen; null for an absent key. */
  readonly texts: readonly (string | null)[];
  /** `peek` calls that found nothing cached. */
  readonly unknown: number;
  /** Texts written, and when their writes were acknowledged. */
  readonly acknowledged: readonly (readonly [text: string, at: number])[];
  readonly writes: number;
  readonly stalls: readonly (readonly [from: number, to: number])[];
  readonly errors: readonly string[];
}

/** A key at rest as one thread sees it; undefined where nothing is cached. */
export type KeyAtRest = readonly [
  before: string | null | undefined,
  got: string | null,
  after: string | null | undefined,
];

export class Player {
  readonly #lanes: Keylane;
  readonly #name: string;
  readonly #keys: readonly string[];
  readonly #random: Random;
  readonly #script: Script;
  readonly #began: number[] = [];
  readonly #ended: number[] = [];
  readonly #read: number[] = [];
  readonly #values: number[] = [];
  readonly #texts = new Map<string | null, number>();
  readonly #acknowledged: [string, number][] = [];
  readonly #stalls: [number, number][] = [];
  readonly #errors: string[] = [];
  readonly #pending = new Set<Promise<void>>();
  #unknown = 0;
  #writes = 0;
  #last = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `name` begins the texts that this player writes. */
  constructor(lanes: Keylane, name: string, tags: number, seed: number) {
    this.#lanes = lanes;
    this.#name = name;
    this.#keys = keysOf(tags);
    this.#random = new Random(seed);
    this.#script = lanes.script(BOTH);
  }

  start(): void {
    this.#last = clock();
    this.#timer = setTimeout(() => this.#tick(), TICK_MS);
  }

  /** Ends the load; resolves when all of it is settled. */
  async stop(): Promise<PlayerLog> {
    clearTimeout(this.#timer);
    await Promise.all(this.#pending);
    return {
      began: Float64Array.from(this.#began),
      ended: Float64Array.from(this.#ended),
      keys: Uint16Array.from(this.#read),
      values: Uint32Array.from(this.#values),
      texts: [...this.#texts.keys()],
      unknown: this.#unknown,
      acknowledged: this.#acknowledged,
      writes: this.#writes,
      stalls: this.#stalls,
      errors: this.#errors,
    };
  }

  /** Every key as it is when nobody writes. */
  rest(): Promise<KeyAtRest[]> {
    return Promise.all(
      this.#keys.map(async (key) => {
        const before = this.#lanes.peek(key) as string | null | undefined;
        const got = (await this.#lanes.get(key)) as string | null;
        return [before, got, this.#lanes.peek(key) as string | null | undefined] as const;
      }),
    );
  }

  #tick(): void {
    const now = clock();
    if (now - this.#last > TICK_MS + STALL_MS) this.#stalls.push([this.#last, now]);
    this.#last = now;
    this.#timer = setTimeout(() => this.#tick(), TICK_MS);
    for (let i = 0; i < READS_PER_TICK; i += 1) {
      const at = this.#random.between(0, this.#keys.length - 1);
      const key = this.#keys[at]!;
      const began = clock();
      if (i % GET_EVERY !== 0) this.#peeked(at, began, this.#lanes.peek(key) as string | null | undefined);
      else this.#watch(this.#got(at, key, began));
    }
    if (this.#random.next() < WRITING) this.#watch(this.#write());
  }

  #peeked(key: number, began: number, value: string | null | undefined): void {
    if (value === undefined) this.#unknown += 1;
    else this.#saw(key, began, began, value);
  }

  async #got(at: number, key: string, began: number): Promise<void> {
    const value = (await this.#lanes.get(key)) as string | null;
    this.#saw(at, began, clock(), value);
  }

  #saw(key: number, began: number, ended: number, value: string | null): void {
    let text = this.#texts.get(value);
    if (text === undefined) {
      text = this.#texts.size;
      this.#texts.set(value, text);
    }
    this.#began.push(began);
    this.#ended.push(ended);
    this.#read.push(key);
    this.#values.push(text);
  }

  #watch(call: Promise<void>): void {
    const watched = call.catch((error: Error) => void this.#errors.push(error.message));
    this.#pending.add(watched);
    void watched.then(() => this.#pending.delete(watched));
  }

  async #write(): Promise<void> {
    const lanes = this.#lanes;
    const random = this.#random;
    this.#writes += 1;
    const [register, counter] = pairOf(random.between(0, this.#keys.length / 2 - 1));
    const either = random.next() < 0.5 ? register : counter;
    const text = `${this.#name}.${this.#writes}`;
    const amount = random.between(1, MAX_AMOUNT);
    const lifeMs = random.between(...LIFE_MS);
    const kind = random.pick(WRITES);
    if (kind === "set") await lanes.set(register, text as never);
    else if (kind === "set for a while") await lanes.set(register, text as never, { ttlMs: lifeMs });
    else if (kind === "multi") await lanes.multi(register).set(register, text).incrBy(counter, amount).exec();
    else if (kind === "script") await this.#script.run([register, counter], [text, amount]);
    else if (kind === "del") await lanes.del(either);
    else if (kind === "expire") await lanes.expire(either, lifeMs);
    else await lanes.incrBy(counter, amount);
    const setting = kind === "set" || kind === "set for a while" || kind === "multi" || kind === "script";
    if (setting) this.#acknowledged.push([text, clock()]);
  }
}
