/**
 * The misses of one domain in a thread whose lanes are in workers: who loads a key is decided there (`errands.ts`), so a miss costs
 * its caller one look at the region, one entry among those under way, and one in the message to the worker. The invariant: a miss is
 * joined only by callers that looked while no invalidation had overtaken it.
 */
import type { Codec } from "../lane/codec.js";
import type { Fetch, Fetcher } from "../lane/contract.js";
import type { Settle } from "../lane/op.js";
import type { HitCounts } from "../shared/hit-counts.js";
import type { LocalCache, LocalEntry } from "./local.js";
import { copied } from "./callers.js";
import { FlightTable } from "./flight-table.js";
import type { Flying } from "./flight-table.js";
import { copyOf, share } from "./share.js";

let grabbed: Settle = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Settle): void => {
  grabbed = resolve;
};

/** One miss on its way, and all callers of this thread that wait for it. */
class Miss implements Fetch, Flying<Miss> {
  readonly key: string;
  /** The key's hash, and the ticket, as the look that missed told them. */
  readonly hash: number;
  readonly ticket: number;
  next: Miss | null = null;
  others: Settle[] | null = null;
  readonly settle: Settle;
  /** The key's entry in L0, where it has one. */
  readonly entry: LocalEntry | null;
  readonly #fetches: Fetches;

  constructor(fetches: Fetches, key: string, hash: number, ticket: number, settle: Settle, entry: LocalEntry | null) {
    this.#fetches = fetches;
    this.key = key;
    this.hash = hash;
    this.ticket = ticket;
    this.settle = settle;
    this.entry = entry;
  }

  land(value: unknown, index: number, proof: number, check: number): void {
    this.#fetches.landed(this, value, index, proof, check);
  }
}

export class Fetches {
  readonly #fetcher: Fetcher;
  readonly #local: LocalCache;
  readonly #codec: Codec;
  /** Where callers that join are counted; the others' keys are counted by the worker. */
  readonly #hits: HitCounts | null;
  readonly #misses = new FlightTable<Miss>();

  constructor(fetcher: Fetcher, local: LocalCache, codec: Codec, hits: HitCounts | null) {
    this.#fetcher = fetcher;
    this.#local = local;
    this.#codec = codec;
    this.#hits = hits;
  }

  /**
   * The value of a key that is not cached. `hash` and `ticket` are those of the look that found nothing, `entry` the key's stale
   * one in L0.
   */
  get(key: string, hash: number, ticket: number, entry: LocalEntry | null): Promise<unknown> {
    const promise = new Promise<unknown>(executor);
    const settle = grabbed;
    for (let flying = this.#misses.first(hash); flying !== null; flying = flying.next) {
      // A younger miss of the key stands before one that was overtaken.
      if (flying.hash !== hash || flying.ticket !== ticket || flying.key !== key) continue;
      flying.others ??= [];
      flying.others.push(settle);
      this.#hits?.add(key, 1);
      return promise;
    }
    const miss = new Miss(this, key, hash, ticket, settle, entry);
    this.#misses.add(miss);
    this.#fetcher.fetch(miss);
    return promise;
  }

  landed(miss: Miss, value: unknown, index: number, proof: number, check: number): void {
    this.#misses.remove(miss);
    const { entry, others } = miss;
    if (typeof value === "object" && value !== null && !(value instanceof Promise)) {
      if (share(value, this.#codec) && index !== -1 && entry !== null) {
        this.#local.renew(entry, value, index, proof, check);
      }
    } else if (index !== -1 && entry !== null) this.#local.renew(entry, value, index, proof, check);
    miss.settle(value);
    if (others === null) return;
    for (const settle of others) settle(copied(value, this));
  }

  /** What one more caller gets. */
  copy(value: unknown): unknown {
    return copyOf(value, this.#codec);
  }
}
