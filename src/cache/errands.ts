/**
 * What a worker does for callers in other threads that missed a key of one domain: it elects who of the process loads the key, as
 * any thread does (`single-flight.ts`), stores the value, and passes the server's bytes on undecoded. The invariant: whoever is
 * told of a value finds its reply in `passed`, at once and no longer.
 */
import type { DomainLane } from "../lane/lane.js";
import { HEAD_UNCOUNTED } from "../lane/op.js";
import type { WireArg } from "../lane/op.js";
import { ReplyRows } from "../lane/replies.js";
import { deadlineIn } from "../lane/turn.js";
import { CacheKind, FLAG_HIGH, INFO_CHECK, INFO_FLAGS, INFO_LENGTH, INFO_WORDS } from "../native/cache-types.js";
import { INFO_PROOF, INFO_PROOF_INDEX } from "../native/cache-types.js";
import { KIND_HIGH, Kind, ROW_WORDS } from "../native/types.js";
import { passed } from "../pool/passed.js";
import type { Asker, Kept } from "../pool/passed.js";
import type { HitCounts } from "../shared/hit-counts.js";
import type { SharedRegion } from "../shared/region.js";
import { Errand, readPassed } from "./errand.js";
import type { ErrandRunner, Passing } from "./errand.js";
import { Load } from "./load.js";
import type { LoadTarget, Loading } from "./load.js";
import { SingleFlight } from "./single-flight.js";

const info = new Int32Array(INFO_WORDS);
/** What was found in the region, as a reply. */
const found = new ReplyRows(Buffer.allocUnsafeSlow(64 << 10), { feeder: 0, healthy: true });

/** What errands need of the domain's cache in this thread. */
export interface ErrandCache {
  readonly closed: boolean;
  /** Stores a load's value; `told` tells where it is. False when it is not kept. */
  keep(load: Loading, bytes: Buffer | null, lifeMs: number, feeder: number, told: Int32Array): boolean;
}

/** A load whose reply is passed on. */
class PassedLoad extends Load {
  override read(rows: ReplyRows): unknown {
    return readPassed(rows, this, this.target);
  }
}

export class Errands implements ErrandRunner {
  readonly target: LoadTarget & ErrandRunner["target"];
  readonly #cache: ErrandCache;
  readonly #lane: DomainLane;
  readonly #region: SharedRegion;
  readonly #flights: SingleFlight<Errand>;
  readonly #hits: HitCounts | null;
  /** The caller of the errand that begins has not been counted. */
  #uncounted = false;

  constructor(cache: ErrandCache, lane: DomainLane, region: SharedRegion) {
    this.#cache = cache;
    this.#lane = lane;
    this.#region = region;
    this.#hits = lane.hits;
    const { domain, commandTimeoutMs } = lane.config;
    this.target = {
      decode: () => undefined,
      store: (load: Passing, bytes, lifeMs, feeder) => {
        if (!cache.keep(load, bytes, lifeMs, feeder, info)) return;
        load.index = info[INFO_PROOF_INDEX]!;
        load.proof = info[INFO_PROOF]!;
        load.check = info[INFO_CHECK]!;
      },
      fetched: () => {},
      value: (rows) => lane.valueShape.read(rows),
    };
    this.#flights = new SingleFlight(region, (key) => this.#find(key), domain, commandTimeoutMs);
  }

  /** Runs an errand: `asker` gets where the reply in `passed` is kept, or an error. */
  run(key: string, timeoutMs: number, asker: Asker, id: number): void {
    this.#uncounted = true;
    this.#flights.take(new Errand(this, key, asker, id), timeoutMs);
    if (!this.#uncounted) return;
    this.#uncounted = false;
    this.#hits?.add(key, 1);
  }

  depart(errand: Errand, timeoutMs: number): void {
    const { words, clock } = this.#region;
    errand.began = words[clock]!;
    errand.deadline = deadlineIn(timeoutMs);
    if (!this.#uncounted) errand.head |= HEAD_UNCOUNTED;
    this.#uncounted = false;
    this.#lane.submitLoad(errand, errand.life, undefined);
  }

  landed(errand: Errand, value: unknown): void {
    this.#flights.landed(errand, value);
  }

  /** Begins a load that a caller in another thread wants for itself; the lane of its own thread has counted it. */
  loadFor(key: WireArg): Load {
    const { session, words, clock } = this.#region;
    return new PassedLoad(this.target, key, session.ticket(key), words[clock]!);
  }

  /** What another thread has stored; undefined when there is nothing. */
  #find(key: string): Kept | undefined {
    const { session } = this.#region;
    if (this.#cache.closed || !session.holds(key)) return undefined;
    let kind = session.lookup(key, 0, 0, found.buffer, info);
    if (kind === CacheKind.NO_ROOM) {
      found.buffer = Buffer.allocUnsafeSlow(info[INFO_LENGTH]! * 2);
      kind = session.lookup(key, 0, 0, found.buffer, info);
    }
    if (kind !== CacheKind.HIT && kind !== CacheKind.ABSENT) return undefined;
    const length = kind === CacheKind.HIT ? info[INFO_LENGTH]! : 0;
    const high = (info[INFO_FLAGS]! & FLAG_HIGH) === 0 ? 0 : KIND_HIGH;
    found.table[0] = kind === CacheKind.HIT ? Kind.BULK | high : Kind.NULL;
    found.table[1] = 0;
    found.table[2] = length;
    found.run += 1;
    found.runEnd = length;
    passed.is(found, 0, ROW_WORDS);
    return { index: info[INFO_PROOF_INDEX]!, proof: info[INFO_PROOF]!, check: info[INFO_CHECK]! };
  }
}
