/**
 * Counters of hot keys side by side: each is given a second of hits, drawn by Zipf's law, and then tells the keys that were hit
 * often. The invariant: all get the same hits in the same order and turns, and what they tell is held against the true counts.
 *
 * Time counts while a turn's keys are counted, not while they are got ready. Ready is as one who counts finds them: just used.
 * A lane has the keys of a turn in its scratch memory, where it has packed them to be encoded; whoever counts strings has just
 * been given them.
 */
import { Random } from "#dist/cli/demo/random.js";
import { Zipf } from "#dist/cli/demo/zipf.js";
import { HOT_KEPT, HOT_KEPT_MAX, HOT_LOWER, HOT_MAX, HOT_WORDS, MERGED_WORDS } from "#dist/native/hits-types.js";
import { HEAD_GET } from "#dist/lane/op.js";
import { hitsCore } from "#dist/native/index.js";
import { HeavyKeeper } from "../baselines/heavy-keeper.js";
import { flat } from "./cache-keys.js";

/** Keys of one turn of a lane. */
const BATCH = 256;
/** Merges in a second. */
const MERGES = 10;
/** A key is told from this part of a threshold on, as the detector does. */
const TOLD_FROM = 0.95;
/** What is told may be so much below the threshold. */
const TRUE_FROM = 0.9;

/** How many hits of how many keys. */
export interface StreamSpec {
  readonly keys: number;
  /** Turns of 256 between two merges; ten merges are a second. */
  readonly batches: number;
  /** Exponent of Zipf's law. */
  readonly exponent: number;
}

/** A second of hits. */
export interface Stream {
  readonly hits: readonly string[];
  readonly counts: ReadonlyMap<string, number>;
}

/** The stream of a spec; the same each time. */
export function streamOf({ keys, batches, exponent }: StreamSpec): Stream {
  const zipf = new Zipf(new Random(20_261_130), keys, exponent);
  const names = Array.from({ length: keys }, (_, i) => flat(`up:user_${String(i).padStart(10, "0")}`));
  const hits = Array.from({ length: batches * MERGES * BATCH }, () => names[zipf.next() - 1]);
  const counts = new Map<string, number>();
  for (const key of hits) counts.set(key, (counts.get(key) ?? 0) + 1);
  return { hits, counts };
}

/** Something that counts. */
export interface HitCounter {
  /** Forgets the second before, where that is not done turn by turn. */
  begin(): void;
  /** Has the keys of a turn at hand. */
  ready(turn: number): void;
  /** Counts them, and does what else is to be done in a second. */
  count(turn: number): void;
  /** The keys whose rate is at least `least` by what it knows, with that rate. */
  told(least: number): [key: string, rate: number][];
}

/** Milliseconds between two looks at the clock with nothing between them. */
function look(): number {
  const looks = 20_000;
  let sum = 0;
  for (let i = 0; i < looks; i += 1) {
    const began = performance.now();
    sum += performance.now() - began;
  }
  return sum / looks;
}

/** Counts the stream once. Gives the milliseconds that it took, without those to get ready and to look at the clock. */
export function second({ hits }: Stream, counter: HitCounter): number {
  const turns = hits.length / BATCH;
  let began = performance.now();
  counter.begin();
  let taken = performance.now() - began;
  for (let turn = 0; turn < turns; turn += 1) {
    counter.ready(turn);
    began = performance.now();
    counter.count(turn);
    taken += performance.now() - began;
  }
  return taken - look() * turns;
}

/** The keys of a turn as strings, every one just read. */
class Turn {
  readonly keys: string[] = Array.from({ length: BATCH }, () => "");
  /** Something of each key, so that none is left unread. */
  seen = 0;
  readonly #hits: readonly string[];

  constructor({ hits }: Stream) {
    this.#hits = hits;
  }

  take(turn: number): void {
    const { keys } = this;
    for (let i = 0; i < BATCH; i += 1) {
      const key = this.#hits[turn * BATCH + i];
      keys[i] = key;
      this.seen ^= key.charCodeAt(0) ^ key.charCodeAt(key.length - 1);
    }
  }
}

/** The keys of a turn as a lane packs GETs of them (`FrameEncoder`). */
export class PackedTurn {
  readonly scratch = Buffer.allocUnsafeSlow(256 << 10);
  readonly desc = new Int32Array(3 * 8192);
  readonly #turn: Turn;

  constructor(stream: Stream) {
    this.#turn = new Turn(stream);
  }

  take(turn: number): void {
    this.#turn.take(turn);
    const { keys } = this.#turn;
    let words = 0;
    for (let i = 0; i < BATCH; i += 1) {
      this.desc[words++] = HEAD_GET;
      this.desc[words++] = 1;
      this.desc[words++] = keys[i].length;
    }
    this.scratch.utf8Write(keys.join(""), 0);
  }
}

/** The contestants by name. */
export const COUNTERS = {
  "keylane, keys of a turn": (stream: Stream) => keylane(stream, true),
  "keylane, keys one by one": (stream: Stream) => keylane(stream, false),
  HeavyKeeper: heavyKeeper,
  "Map, no bound": plainMap,
} as const satisfies Record<string, (stream: Stream) => HitCounter>;

export type CounterName = keyof typeof COUNTERS;

function keylane(stream: Stream, packed: boolean): HitCounter {
  const options = {};
  const session = hitsCore!.createHits(new Int32Array(new SharedArrayBuffer(hitsCore!.hitsBytes(options))), options);
  const info = new Int32Array(MERGED_WORDS);
  const rows = new Int32Array(HOT_MAX * HOT_WORDS);
  const names = Buffer.alloc(HOT_MAX * HOT_KEPT_MAX);
  const lengths = new Int32Array(BATCH);
  const perMerge = stream.hits.length / BATCH / MERGES;
  const strings = new Turn(stream);
  const bytes = new PackedTurn(stream);
  let now = 0;
  // From here on time counts.
  session.merge(now, info);
  /** Joins the keys as they come. */
  const gather = (): void => {
    const { keys } = strings;
    for (let i = 0; i < BATCH; i += 1) lengths[i] = keys[i].length;
    session.record(keys.join(""), lengths, BATCH, null);
  };
  return {
    begin: () => {},
    ready: (turn) => (packed ? bytes : strings).take(turn),
    count(turn) {
      if (packed) session.recordFrames(bytes.scratch, bytes.desc, BATCH);
      else gather();
      if ((turn + 1) % perMerge === 0) session.merge((now += 100), info);
    },
    told(least) {
      const count = session.top(HOT_MAX, least, rows, names);
      let at = 0;
      return Array.from({ length: count }, (_, row): [string, number] => {
        const end = at + rows[row * HOT_WORDS + HOT_KEPT];
        const key = names.toString("utf8", at, end);
        at = end;
        return [key, rows[row * HOT_WORDS + HOT_LOWER]];
      }).filter(([, lower]) => lower >= least);
    },
  };
}

function heavyKeeper(stream: Stream): HitCounter {
  // Two rows as in the paper; as many buckets as keylane's summary has counters.
  const keeper = new HeavyKeeper(HOT_MAX, 2, 4096);
  const strings = new Turn(stream);
  return {
    begin: () => keeper.clear(),
    ready: (turn) => strings.take(turn),
    count() {
      const { keys } = strings;
      for (let i = 0; i < BATCH; i += 1) keeper.add(keys[i]);
    },
    told: (least) => keeper.top().filter(([, estimate]) => estimate >= least),
  };
}

function plainMap(stream: Stream): HitCounter {
  const counts = new Map<string, number>();
  const strings = new Turn(stream);
  return {
    begin: () => counts.clear(),
    ready: (turn) => strings.take(turn),
    count() {
      const { keys } = strings;
      for (let i = 0; i < BATCH; i += 1) {
        const key = keys[i];
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    },
    told: (least) => [...counts].filter(([, count]) => count >= least),
  };
}

/** Names of the figures for a threshold. */
export const recallAt = (least: number): string => `recall %, ${least.toLocaleString("en-US")}/s`;
export const precisionAt = (least: number): string => `precision %, ${least.toLocaleString("en-US")}/s`;
export const errorAt = (least: number): string => `mean error %, ${least.toLocaleString("en-US")}/s`;

/** Of all hits of a second, what makes a key hot: 5,000 and 1,000 of 2,000,000. */
export function thresholds({ batches }: StreamSpec): readonly [warn: number, low: number] {
  const hits = batches * MERGES * BATCH;
  return [Math.round(hits / 400 / 10) * 10, Math.round(hits / 2000 / 10) * 10];
}

/**
 * How much of what is hot was told, how much of what was told is hot (from 90 % of the threshold on), and how far the rates told
 * are from the true ones; all in percent.
 */
export function accuracy({ counts }: Stream, counter: HitCounter, least: number): Record<string, number> {
  const told = counter.told(Math.floor(least * TOLD_FROM));
  const hot = [...counts].filter(([, count]) => count >= least);
  const named = new Set(told.map(([key]) => key));
  const found = hot.filter(([key]) => named.has(key)).length;
  const errors = told.map(([key, rate]) => Math.abs(rate / (counts.get(key) ?? Infinity) - 1));
  const right = told.filter(([key]) => (counts.get(key) ?? 0) >= least * TRUE_FROM).length;
  return {
    [recallAt(least)]: share(found, hot.length),
    [precisionAt(least)]: share(right, told.length),
    [errorAt(least)]: told.length === 0 ? 0 : (100 * errors.reduce((sum, error) => sum + error, 0)) / told.length,
  };
}

/** In percent; all of nothing is 100. */
function share(part: number, of: number): number {
  return of === 0 ? 100 : (100 * part) / of;
}
