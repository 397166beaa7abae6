/**
 * One load under way: PTTL and GET in one run of frames, so that the value's life in the cache never exceeds the key's own.
 * PTTL comes first: with tracking on, a change between the two is told and refuses the store. What PTTL says is counted from
 * before it was sent.
 */
import type { LoadShapes } from "../lane/contract.js";
import type { WireArg } from "../lane/op.js";
import type { ReplyRows, Shape } from "../lane/replies.js";
import { KIND_HIGH, Kind } from "../native/types.js";
import { KEPT_WORDS } from "../pool/protocol.js";

/** What PTTL says of a key that never expires. */
const WITHOUT_END = -1;
export const UNKNOWN_LIFE = -3;

/** A load as those see it who store what it gives. */
export interface Loading {
  readonly key: WireArg;
  /** What was stored after an invalidation that came later is refused; null before it is known. */
  readonly ticket: number | null;
  /** When it began, on the region's clock. */
  readonly began: number;
  /** What PTTL said. */
  lifeMs: number;
}

/** Where a load's replies are stored. */
export interface Storing<L extends Loading> {
  decode(bytes: Buffer, high: boolean): unknown;
  /** `bytes` is null for an absent key; `lifeMs` is positive, `Infinity` without end, counted from the load's beginning. */
  store(load: L, bytes: Buffer | null, lifeMs: number, feeder: number, value: unknown): void;
  /** Reads a reply as the domain's values are read, and stores nothing. */
  value(rows: ReplyRows): unknown;
}

/** What a load needs of its cache. */
export interface LoadTarget extends Storing<Load> {
  /** Another thread loaded the value and keeps it in way `index` of the region (-1: nowhere). */
  fetched(load: Load, value: unknown, index: number, proof: number, check: number): void;
}

/** Reads the reply of a load's GET, and stores it. */
export function readLoaded<L extends Loading>(rows: ReplyRows, load: L, target: Storing<L>): unknown {
  const kind = rows.kind();
  const high = (rows.table[rows.at]! & KIND_HIGH) !== 0;
  const { feeder, healthy } = rows.feed;
  if (kind === Kind.NULL) {
    rows.skip();
    // What a replica lacks is asked of its primary; only a primary's word is kept.
    if (healthy) target.store(load, null, Infinity, feeder, null);
    return null;
  }
  if (kind !== Kind.BULK) return target.value(rows);
  const bytes = rows.bytes();
  const value = target.decode(bytes, high);
  const life = load.lifeMs === WITHOUT_END ? Infinity : load.lifeMs;
  if (life > 0) target.store(load, bytes, life, feeder, value);
  return value;
}

/** Reads the reply of a load's PTTL. */
export class LifeShape implements Shape {
  readonly #load: Loading;

  constructor(load: Loading) {
    this.#load = load;
  }

  read(rows: ReplyRows): unknown {
    const lifeMs = Number(rows.value());
    this.#load.lifeMs = lifeMs;
    return lifeMs;
  }
}

/** Reads what a worker made of both replies: three words and the value. */
class FetchedShape implements Shape {
  readonly #load: Load;

  constructor(load: Load) {
    this.#load = load;
  }

  read(rows: ReplyRows): unknown {
    const { table, at } = rows;
    rows.at = at + KEPT_WORDS;
    const load = this.#load;
    const value = load.target.value(rows);
    load.target.fetched(load, value, table[at]!, table[at + 1]!, table[at + 2]!);
    return value;
  }
}

/** What a load leaves to read: itself the reply of GET, `life` that of PTTL, `fetched` what a worker made of both. */
export class Load implements Shape, Loading, LoadShapes {
  readonly target: LoadTarget;
  readonly key: WireArg;
  readonly ticket: number;
  readonly began: number;
  /** Whether the lane counts the key. */
  counted = false;
  lifeMs = UNKNOWN_LIFE;
  /** Where a load for another thread was stored: index of the proof word (-1: nowhere), proof, and when to look again. */
  index = -1;
  proof = 0;
  check = 0;

  constructor(target: LoadTarget, key: WireArg, ticket: number, began: number) {
    this.target = target;
    this.key = key;
    this.ticket = ticket;
    this.began = began;
  }

  get life(): Shape {
    return new LifeShape(this);
  }

  get fetched(): Shape {
    return new FetchedShape(this);
  }

  /** The load as the shape of its GET. */
  get value(): Shape {
    return this;
  }

  read(rows: ReplyRows): unknown {
    return readLoaded(rows, this, this.target);
  }
}
