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
import { copyOf, share } from "./share.js";

let grabbed: Settle = () => {};
/** The one executor of all promises: hands its resolver over in a variable, so no closure is made per call. */
const executor = (resolve: Settle): void => {
  grabbed = resolve;
};

/** Places of the table to begin with; a power of two. */
const FIRST_PLACES = 1024;

/** One miss on its way, and all callers of this thread that wait for it. */
class Miss implements Fetch {
  readonly key: string;
  /** The key's hash, and the ticket, as the look that missed told them. */
  readonly hash: number;
  readonly ticket: number;
  /** Another miss that shares its place in the table. */
  next: Miss | null;
  others: Settle[] | null = null;
  readonly settle: Settle;
  /** The key's entry in L0, where it has one. */
  readonly entry: LocalEntry | null;
  readonly #fetches: Fetches;

  constructor(
    fetches: Fetches,
    key: string,
    hash: number,
    ticket: number,
    next: Miss | null,
    settle: Settle,
    entry: LocalEntry | null,
  ) {
    this.#fetches = fetches;
    this.key = key;
    this.hash = hash;
    this.ticket = ticket;
    this.next = next;
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
  /** Misses under way by their keys' hashes: a Map would hash each key three more times, and grow and be copied as they go. */
  #table = tableOf(FIRST_PLACES);
  #count = 0;

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
    const table = this.#table;
    const place = hash & (table.length - 1);
    const first = table[place] as Miss | null;
    for (let flying = first; flying !== null; flying = flying.next) {
      // A younger miss of the key stands before one that was overtaken.
      if (flying.hash !== hash || flying.ticket !== ticket || flying.key !== key) continue;
      flying.others ??= [];
      flying.others.push(settle);
      this.#hits?.add(key, 1);
      return promise;
    }
    const miss = new Miss(this, key, hash, ticket, first, settle, entry);
    table[place] = miss;
    this.#count += 1;
    if (this.#count > table.length) this.#grow();
    this.#fetcher.fetch(miss);
    return promise;
  }

  landed(miss: Miss, value: unknown, index: number, proof: number, check: number): void {
    this.#remove(miss);
    const { entry, others } = miss;
    if (typeof value === "object" && value !== null && !(value instanceof Promise)) {
      if (share(value, this.#codec) && index !== -1 && entry !== null) {
        this.#local.renew(entry, value, index, proof, check);
      }
    } else if (index !== -1 && entry !== null) this.#local.renew(entry, value, index, proof, check);
    miss.settle(value);
    if (others === null) return;
    for (const settle of others) settle(value instanceof Promise ? value : this.#copied(value));
  }

  #remove(miss: Miss): void {
    const table = this.#table;
    const place = miss.hash & (table.length - 1);
    const first = table[place] as Miss | null;
    if (first === miss) table[place] = miss.next;
    else {
      let before = first!;
      while (before.next !== miss) before = before.next!;
      before.next = miss.next;
    }
    // Else one that has grown old would keep those behind it.
    miss.next = null;
    this.#count -= 1;
  }

  #grow(): void {
    const old = this.#table;
    this.#table = tableOf(old.length * 2);
    for (const first of old) {
      // From the last on, so that their order stays.
      const chain: Miss[] = [];
      for (let miss = first; miss !== null; miss = miss.next) chain.push(miss);
      for (const miss of chain.toReversed()) {
        const place = miss.hash & (this.#table.length - 1);
        miss.next = this.#table[place] as Miss | null;
        this.#table[place] = miss;
      }
    }
  }

  #copied(value: unknown): unknown {
    try {
      return copyOf(value, this.#codec);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }
}

function tableOf(places: number): (Miss | null)[] {
  return Array.from({ length: places }, () => null);
}
