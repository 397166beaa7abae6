/**
 * The operations of one turn that go to one worker, and, once they are sent, what is known of them until the last is answered. A
 * plain GET (a text key, the domain's own deadline, nobody who may abort it) is two columns, its key and who waits, so that it costs
 * no object; one that missed the cache is its key and the `Fetch`; anything else is a `PooledOp`. The invariant: who waits is told
 * once; an entry is null (a `PooledOp`: settled) from then on.
 *
 * ```text
 * keys      [ "up:1" | "up:2" | "up:3"   | … ]     "" where the key is not a text
 * entries   [ settle | Fetch  | PooledOp | … ]
 * lanes     null: all of `lane`, else one each
 * id        slot of the batch in its link × 4096 + place
 * ```
 */
import type { Fetch } from "../lane/contract.js";
import type { Settle } from "../lane/op.js";
import { QUEUED, SENT, SETTLED } from "../lane/op.js";
import { NEVER } from "../lane/turn.js";
import type { PooledLane } from "./pooled-lane.js";
import { PooledOp } from "./pooled-op.js";
import { OpKind } from "./protocol.js";

/** Bits of an id that are the place in the batch. */
export const PLACE_BITS = 12;
/** Most operations of a batch. */
export const BATCH_OPS = 1 << PLACE_BITS;

/** A plain GET that waits, without and with a cache, anything else that waits, or what is settled. */
export type Entry = Settle | Fetch | PooledOp | null;

/** `Batch.kind`: there is nothing in it; there are operations of several kinds. */
export const EMPTY = -1;
export const MIXED = -2;

export class Batch {
  readonly keys: string[] = [];
  readonly entries: Entry[] = [];
  /** Of the first entry, or of all. */
  lane: PooledLane | null = null;
  lanes: PooledLane[] | null = null;
  /** `OpKind.GET` or `OpKind.FETCH` where all are plain ones, else `EMPTY` or `MIXED`. */
  kind: number = EMPTY;
  /** Bytes of arguments, where they are not short keys. */
  bytes = 0;
  /** When plain ones are given up; and the first time that anything is. */
  deadline = NEVER;
  earliest = NEVER;
  /** Of what was sent: entries without an answer. */
  left = 0;

  get count(): number {
    return this.entries.length;
  }

  get(lane: PooledLane, key: string, settle: Settle): void {
    if (this.lanes !== null || lane !== this.lane) this.#mix(lane);
    const at = this.entries.length;
    if (this.kind !== OpKind.GET) this.kind = at === 0 ? OpKind.GET : MIXED;
    this.keys[at] = key;
    this.entries[at] = settle;
  }

  fetch(lane: PooledLane, fetch: Fetch): void {
    if (this.lanes !== null || lane !== this.lane) this.#mix(lane);
    const at = this.entries.length;
    if (this.kind !== OpKind.FETCH) this.kind = at === 0 ? OpKind.FETCH : MIXED;
    this.keys[at] = fetch.key;
    this.entries[at] = fetch;
  }

  /** Either of both. */
  put(lane: PooledLane, key: string, entry: Settle | Fetch): void {
    if (typeof entry === "function") this.get(lane, key, entry);
    else this.fetch(lane, entry);
  }

  add(op: PooledOp): void {
    if (this.lanes !== null || op.lane !== this.lane) this.#mix(op.lane);
    this.kind = MIXED;
    const { key } = op;
    this.keys.push(typeof key === "string" ? key : "");
    this.entries.push(op);
    if (op.rest !== null) this.bytes += op.weight;
    if (op.deadline < this.earliest) this.earliest = op.deadline;
  }

  /** For the first entry: when plain ones are given up. */
  begin(deadline: number): void {
    this.deadline = deadline;
    this.earliest = deadline;
  }

  laneOf(place: number): PooledLane {
    return this.lanes === null ? this.lane! : this.lanes[place]!;
  }

  /** What waits at a place, as an operation. */
  held(place: number, entry: Exclude<Entry, null>, state: typeof QUEUED | typeof SENT = SENT): PooledOp {
    if (entry instanceof PooledOp) return entry;
    const lane = this.laneOf(place);
    const op =
      typeof entry === "function"
        ? PooledOp.ofGet(lane, this.keys[place]!, entry, this.deadline)
        : PooledOp.ofFetch(lane, entry, this.deadline);
    op.state = state;
    return op;
  }

  /** All that is not settled, or what a lane has of it, as operations; plain ones are not waited for here any more. O(entries). */
  takeAll(state: typeof QUEUED | typeof SENT, lane: PooledLane | null = null): PooledOp[] {
    const taken: PooledOp[] = [];
    for (let place = 0; place < this.entries.length; place += 1) {
      if (lane === null || this.laneOf(place) === lane) this.#take(place, state, taken);
    }
    return taken;
  }

  /** The same of what is not settled at `limit`. O(entries). */
  takeLate(limit: number, state: typeof QUEUED | typeof SENT): PooledOp[] {
    const taken: PooledOp[] = [];
    this.earliest = NEVER;
    for (let place = 0; place < this.entries.length; place += 1) {
      const entry = this.entries[place]!;
      if (entry === null || (entry instanceof PooledOp && entry.state === SETTLED)) continue;
      const deadline = entry instanceof PooledOp ? entry.deadline : this.deadline;
      if (deadline <= limit) this.#take(place, state, taken);
      else if (deadline < this.earliest) this.earliest = deadline;
    }
    return taken;
  }

  /** The same without what is settled. O(entries). */
  live(): Batch {
    const live = new Batch();
    live.begin(this.deadline);
    for (let place = 0; place < this.entries.length; place += 1) {
      const entry = this.entries[place]!;
      if (entry === null) continue;
      if (!(entry instanceof PooledOp)) live.put(this.laneOf(place), this.keys[place]!, entry);
      else if (entry.state !== SETTLED) live.add(entry);
    }
    return live;
  }

  #take(place: number, state: typeof QUEUED | typeof SENT, taken: PooledOp[]): void {
    const entry = this.entries[place]!;
    if (entry === null) return;
    const op = this.held(place, entry, state);
    if (op !== entry) this.entries[place] = null;
    if (op.state !== SETTLED) taken.push(op);
  }

  /** Another domain's operation: from now on each entry has its lane. */
  #mix(lane: PooledLane): void {
    if (this.lane === null) this.lane = lane;
    else {
      this.lanes ??= this.entries.map(() => this.lane!);
      this.lanes.push(lane);
    }
  }
}
