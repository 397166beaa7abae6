/**
 * Denials that still stand, so that a user over a limit costs no call: per thread a map by user, in front of the shared region
 * where there is one. The invariant: a denial is only kept when nothing was given back to its user since the call that
 * brought it was sent (the ticket), and it ends, on this process's own monotonic clock, no later than the server said.
 *
 * What another process gives back is heard of where the connection that brought the denial is told of changed keys: the denial
 * goes under the user's own key, and with that connection. Elsewhere a denial that a refund may end is kept for a bounded time.
 *
 * ```text
 * region    key → [[field, limit, used, resets at, end on the clock], …], hashes of the ids allowed (JSON)
 * ```
 *
 * The ids that a denied user's hash remembers come with the denial: one of them is asked for again, since it was allowed.
 */
import {
  CacheKind,
  CacheStored,
  INFO_CHECK,
  INFO_HASH_HIGH,
  INFO_HASH_LOW,
  INFO_LENGTH,
  INFO_PROOF,
  INFO_PROOF_INDEX,
  INFO_SLOT,
  INFO_TICKET,
  INFO_WORDS,
  STAMP_WORDS,
} from "../native/cache-types.js";
import { native } from "../native/index.js";
import type { SharedRegion } from "../shared/region.js";
import { hashText } from "./plan.js";
import type { Plan, PlannedCap } from "./plan.js";
import type { Figures } from "./reply.js";
import type { CapsResult, CapState } from "./types.js";

/** Users held a thread; the oldest leave first. */
const MAX_USERS = 65_536;
/** Longest that a denial is kept. */
const MOST_MS = 86_400_000;
/**
 * The region's clock, which is one word, decides alone until so long before a denial ends, in milliseconds: it is read in steps,
 * and moves late on a crowded machine, but not this late.
 */
const COARSE_MS = 1000;
/** Farthest that a moment may lie ahead on the region's clock, which wraps. */
const FARTHEST_MS = 2 ** 30;
/** Ids of a user that are kept with a denial. */
const MOST_IDS = 256;

/** The process's monotonic clock at this thread's zero: read between two looks at the thread's own, as close as can be had. */
function originOf(): number {
  let [origin, closest] = [0, Infinity];
  for (let i = 0; i < 32; i += 1) {
    const before = performance.now();
    const clock = Number(process.hrtime.bigint()) / 1e6;
    const apart = performance.now() - before;
    if (apart < closest) [origin, closest] = [clock - before, apart];
  }
  return origin;
}

const ORIGIN = originOf();

const info = new Int32Array(INFO_WORDS);
let scratch = Buffer.allocUnsafeSlow(16 << 10);
let stamped = new Int32Array(1024 * STAMP_WORDS);

/** A cap of one user that is used up. */
class Denial {
  readonly field: string;
  readonly limit: number;
  readonly used: number;
  readonly resetsAtMs: number;
  /** On the clock of `Denials`. */
  readonly end: number;
  constructor(field: string, limit: number, used: number, resetsAtMs: number, end: number) {
    this.field = field;
    this.limit = limit;
    this.used = used;
    this.resetsAtMs = resetsAtMs;
    this.end = end;
  }

  denies({ field, limit }: PlannedCap, now: number): boolean {
    return this.field === field && this.limit === limit && this.end > now;
  }

  state(name: string): CapState {
    const { limit, used, resetsAtMs } = this;
    return Object.freeze({ name, limit, used, remaining: 0, resetsAtMs });
  }
}

/** What is known of one user. */
class UserDenials {
  readonly denials: readonly Denial[];
  /** Null: too many ids were remembered to tell. */
  readonly ids: readonly number[] | null;
  index = 0;
  proof = 0;
  check = 0;
  /** The list last answered without an id, its answer, until when it stands, and until when the region's clock is enough. */
  plan: Plan | null = null;
  answer: Promise<CapsResult> | null = null;
  until = 0;
  sure = 0;

  constructor(denials: readonly Denial[], ids: readonly number[] | null) {
    this.denials = denials;
    this.ids = ids;
  }

  /** Whether an id may have been allowed: then only the script can answer. */
  mayKnow(id: string): boolean {
    return this.ids === null || this.ids.includes(hashText(id));
  }

  /** Finds the answer to a list of caps; null when there is none. */
  ask(plan: Plan, now: number): Promise<CapsResult> | null {
    const states: CapState[] = [];
    let until = Infinity;
    for (const cap of plan.caps) {
      const denial = this.denials.find((one) => one.denies(cap, now));
      if (denial === undefined) continue;
      states.push(denial.state(cap.name));
      until = Math.min(until, denial.end);
    }
    if (states.length === 0) return null;
    this.plan = plan;
    this.until = until;
    this.answer = Promise.resolve(answerOf(states));
    return this.answer;
  }
}

export class Denials {
  /** To be given to `add` with what a call brought; taken by `fetch`, before the call is sent. So are the two below. */
  ticket = 0;
  slot = 0;
  /** Halves of what stands for the key. */
  low = 0;
  high = 0;
  readonly #region: SharedRegion | null;
  readonly #domain: number;
  readonly #doubtMs: number;
  readonly #users = new Map<string, UserDenials>();
  /** Without a region: grows when something is given back. */
  #epoch = 0;

  /**
   * `domain` is the index that is told to the region; `doubtMs` bounds how long a denial is kept whose end by a refund this
   * process might not hear of.
   */
  constructor(region: SharedRegion | null, domain: number, doubtMs: number) {
    this.#region = region;
    this.#domain = domain;
    this.#doubtMs = doubtMs;
  }

  get hash(): number {
    return hashOf(this.low, this.high);
  }

  /** A time of this thread's own clock (`performance.now`), as `now` would have told it. */
  at(time: number): number {
    return time + ORIGIN;
  }

  /**
   * Milliseconds on a clock that all threads of the process share. The region's own is read in steps, and moves late on a
   * crowded machine: a denial that ends late by it would answer for an id that was allowed meanwhile.
   */
  get now(): number {
    return performance.now() + ORIGIN;
  }

  /** The denial of a list of caps by what this thread knows, or null. */
  find(user: string, plan: Plan, id: string): Promise<CapsResult> | null {
    const known = this.#known(user);
    if (known === null || (id !== "" && known.mayKnow(id))) return null;
    if (known.plan !== plan) return this.#ask(known, plan);
    const region = this.#region;
    if (region !== null && ((region.words[region.clock]! - known.sure) | 0) < 0) return known.answer;
    return this.now < known.until ? known.answer : this.#ask(known, plan);
  }

  /** Whether a denial may be known in the region under a key of which `low` is half a hash; if not, `fetch` would find none. */
  mayHold(low: number): boolean {
    return this.#region!.marked(low);
  }

  /** Tickets, slots and halves of hashes of the keys of packed operations; null once the region is over. */
  stamps(scratch: Uint8Array, desc: Int32Array, count: number): Int32Array | null {
    const region = this.#region;
    if (region === null || region.ended) return null;
    if (stamped.length < count * STAMP_WORDS) stamped = new Int32Array(count * STAMP_WORDS * 2);
    region.session.stamp(scratch, desc, count, stamped);
    return stamped;
  }

  /** Takes what belongs to a key as `fetch` does, without a look at what is known. */
  locate(key: string): void {
    this.ticket = this.#epoch;
    this.slot = native.slot(key);
    this.#hashKey(key);
  }

  /** As `find`, by what other threads know; `key` is the user's in the region. Takes the ticket. */
  fetch(user: string, key: string, plan: Plan, id: string): Promise<CapsResult> | null {
    const known = this.#lookup(user, key);
    return known === null || (id !== "" && known.mayKnow(id)) ? null : this.#ask(known, plan);
  }

  /** `sent` is the clock when the call was sent. `final`: nothing but time can end it. `low` is marked, see `mayHold`. */
  add(
    user: string,
    key: string,
    { caps }: Plan,
    figures: Figures,
    ticket: number,
    sent: number,
    low: number | null = null,
    final = figures.ids !== null && figures.ids.length === 0,
  ): void {
    const fresh: Denial[] = [];
    const { now } = this;
    const { ids, feeder } = figures;
    const most = final || feeder !== 0 ? MOST_MS : Math.min(MOST_MS, this.#doubtMs);
    let longest = 0;
    for (let i = 0; i < caps.length; i += 1) {
      const { field, limit } = caps[i]!;
      const used = figures.used(i);
      if (used < limit) continue;
      // The server tells whole milliseconds of a time that it has cut to whole ones.
      const life = Math.min(most, figures.resetsInMs(i) - 1);
      if (sent + life <= now) continue;
      longest = Math.max(longest, sent + life - now);
      fresh.push(new Denial(field, limit, used, figures.now + figures.resetsInMs(i), sent + life));
    }
    if (fresh.length === 0) return;
    // A denial goes with every id that its own reply told, whichever of two replies came first.
    const old = this.#known(user) ?? this.#lookup(user, key);
    let hashes = ids === null ? null : ids.map(hashText);
    let carried = false;
    for (const denial of old?.denials ?? []) {
      const left = denial.end - now;
      if (left <= 0 || fresh.some(({ field, limit }) => field === denial.field && limit === denial.limit)) continue;
      longest = Math.max(longest, left);
      fresh.push(denial);
      carried = true;
    }
    if (carried) hashes = hashes === null || old!.ids === null ? null : [...new Set([...hashes, ...old!.ids])];
    if (hashes !== null && hashes.length > MOST_IDS) hashes = null;
    this.#keep(user, key, new UserDenials(fresh, hashes), longest, ticket, feeder, low);
  }

  /** Forgets a user in every thread; denials under way are not kept. Gives the key's hash. */
  drop(user: string, key: string): number {
    this.#epoch += 1;
    this.#lookup(user, key);
    const { hash } = this;
    this.#users.delete(user);
    const region = this.#region;
    if (region !== null && !region.ended) region.session.invalidate(key);
    return hash;
  }

  #keep(
    user: string,
    key: string,
    known: UserDenials,
    life: number,
    ticket: number,
    feeder: number,
    low: number | null,
  ): void {
    const region = this.#region;
    if (region === null) {
      if (ticket === this.#epoch) this.#hold(user, known);
      return;
    }
    if (region.ended) return;
    const rows = known.denials.map(({ field, limit, used, resetsAtMs, end }) => [field, limit, used, resetsAtMs, end]);
    const bytes = Buffer.from(JSON.stringify([rows, known.ids]));
    if (low !== null) region.mark(low, life);
    const stored = region.session.store(key, bytes, Math.ceil(life), 0, feeder, this.#domain, ticket, info);
    if (stored === CacheStored.KEPT) this.#proven(user, known);
  }

  /** What this thread knows of a user and can prove. */
  #known(user: string): UserDenials | null {
    const known = this.#users.get(user);
    if (known === undefined) return null;
    const region = this.#region;
    if (region === null) return known;
    const proven =
      !region.ended &&
      region.proofs[known.index] === known.proof &&
      ((region.words[region.clock]! - known.check) | 0) < 0;
    if (proven) return known;
    this.#users.delete(user);
    return null;
  }

  #ask(known: UserDenials, plan: Plan): Promise<CapsResult> | null {
    const { now } = this;
    const answer = known.ask(plan, now);
    const region = this.#region;
    if (answer === null || region === null) return answer;
    const ahead = Math.min(FARTHEST_MS, Math.max(0, Math.floor(known.until - now - COARSE_MS)));
    known.sure = (region.words[region.clock]! + ahead) | 0;
    return answer;
  }

  /** What the region knows of a user; takes the ticket, and what else the probe tells. */
  #lookup(user: string, key: string): UserDenials | null {
    const region = this.#region;
    if (region === null || region.ended) {
      this.locate(key);
      return null;
    }
    let kind = region.session.probe(key, scratch, info);
    if (kind === CacheKind.NO_ROOM) {
      scratch = Buffer.allocUnsafeSlow(info[INFO_LENGTH]! * 2);
      kind = region.session.probe(key, scratch, info);
    }
    this.ticket = info[INFO_TICKET]!;
    this.slot = info[INFO_SLOT]!;
    this.low = info[INFO_HASH_LOW]!;
    this.high = info[INFO_HASH_HIGH]!;
    if (kind !== CacheKind.HIT) return null;
    const [rows, ids] = JSON.parse(scratch.toString("utf8", 0, info[INFO_LENGTH]!)) as [
      [string, number, number, number, number][],
      number[] | null,
    ];
    const known = new UserDenials(
      rows.map((row) => new Denial(...row)),
      ids,
    );
    this.#proven(user, known);
    return known;
  }

  /** Holds what `info` tells of. */
  #proven(user: string, known: UserDenials): void {
    known.index = info[INFO_PROOF_INDEX]!;
    known.proof = info[INFO_PROOF]!;
    known.check = info[INFO_CHECK]!;
    this.#hold(user, known);
  }

  /** Two hashes, as halves of one. */
  #hashKey(key: string): void {
    let low = 0x811c9dc5;
    let high = 0x9e3779b9;
    for (let i = 0; i < key.length; i += 1) {
      const unit = key.charCodeAt(i);
      low = Math.imul(low ^ unit, 0x01000193);
      high = Math.imul(high ^ unit, 0x85ebca6b) ^ (high >>> 15);
    }
    this.low = low | 0;
    this.high = high | 0;
  }

  #hold(user: string, known: UserDenials): void {
    if (this.#users.size >= MAX_USERS && !this.#users.has(user)) this.#users.delete(this.#users.keys().next().value!);
    this.#users.set(user, known);
  }
}

function answerOf(caps: CapState[]): CapsResult {
  return Object.freeze({ allowed: false, caps: Object.freeze(caps), source: "cache" });
}

/** 53 bits of the halves of a hash. */
export function hashOf(low: number, high: number): number {
  return (low >>> 0) * 0x20_0000 + (high >>> 11);
}
