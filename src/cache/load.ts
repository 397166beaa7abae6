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
const UNKNOWN_LIFE = -3;

/** What a load needs of its cache. */
export interface LoadTarget {
  decode(bytes: Buffer, high: boolean): unknown;
  /** `bytes` is null for an absent key; `lifeMs` is positive, `Infinity` without end, counted from the load's beginning. */
  store(load: Load, bytes: Buffer | null, lifeMs: number, feeder: number, value: unknown): void;
  /** Another thread loaded the value and keeps it in way `index` of the region (-1: nowhere). */
  fetched(load: Load, value: unknown, index: number, proof: number, check: number): void;
  /** Reads a reply as the domain's values are read, and stores nothing. */
  value(rows: ReplyRows): unknown;
}

/** Reads the reply of a load's PTTL. */
class LifeShape implements Shape {
  readonly #load: Load;

  constructor(load: Load) {
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
export class Load implements Shape, LoadShapes {
  readonly target: LoadTarget;
  readonly key: WireArg;
  readonly ticket: number;
  /** When it began, on the region's clock. */
  readonly began: number;
  /** Whether the lane counts the key. */
  counted = false;
  /** What PTTL said. */
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
    const kind = rows.kind();
    const high = (rows.table[rows.at]! & KIND_HIGH) !== 0;
    const { feeder, healthy } = rows.feed;
    if (kind === Kind.NULL) {
      rows.skip();
      // What a replica lacks is asked of its primary; only a primary's word is kept.
      if (healthy) this.target.store(this, null, Infinity, feeder, null);
      return null;
    }
    if (kind !== Kind.BULK) return this.target.value(rows);
    const bytes = rows.bytes();
    const value = this.target.decode(bytes, high);
    const life = this.lifeMs === WITHOUT_END ? Infinity : this.lifeMs;
    if (life > 0) this.target.store(this, bytes, life, feeder, value);
    return value;
  }
}
