/**
 * Denials that still stand, so that a user over a limit costs no call: per thread a map by user, in front of the shared region
 * where there is one. The invariant: a denial is only kept when nothing was given back to its user since the call that
 * brought it was sent (the ticket), and it ends, on this process's own monotonic clock, no later than the server said.
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
  INFO_LENGTH,
  INFO_PROOF,
  INFO_PROOF_INDEX,
  INFO_WORDS,
} from "../native/cache-types.js";
import type { SharedRegion } from "../shared/region.js";
import { hashText } from "./plan.js";
import type { Plan, PlannedCap } from "./plan.js";
import type { CapsResult, CapState } from "./types.js";

/** Users held a thread; the oldest leave first. */
const MAX_USERS = 65_536;
/** Longest that a denial is kept. */
const MOST_MS = 86_400_000;
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

/** A cap of one user that is used up. */
class Denial {
  readonly field: string;
  readonly limit: number;
  readonly used: number;
  readonly resetsAtMs: number;
  /** On the clock of `Denials`. */
  readonly end: number;
  #result: CapsResult | null = null;

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

  /** The answer when this is all that denies; the field holds the name. */
  alone(name: string): CapsResult {
    this.#result ??= answerOf([this.state(name)]);
    return this.#result;
  }
}

/** What is known of one user. */
export class UserDenials {
  readonly denials: readonly Denial[];
  /** Null: too many ids were remembered to tell. */
  readonly ids: readonly number[] | null;
  index = 0;
  proof = 0;
  check = 0;

  constructor(denials: readonly Denial[], ids: readonly number[] | null) {
    this.denials = denials;
    this.ids = ids;
  }

  /** The denial of a list of caps, or null. */
  answer(plan: Plan, id: string, now: number): CapsResult | null {
    let first: Denial | null = null;
    let name = "";
    let more: CapState[] | null = null;
    const { denials } = this;
    for (let c = 0; c < plan.length; c += 1) {
      const cap = plan[c]!;
      for (let d = 0; d < denials.length; d += 1) {
        const denial = denials[d]!;
        if (!denial.denies(cap, now)) continue;
        if (first === null) {
          first = denial;
          ({ name } = cap);
        } else {
          more ??= [first.state(name)];
          more.push(denial.state(cap.name));
        }
        break;
      }
    }
    if (first === null || (id !== "" && (this.ids === null || this.ids.includes(hashText(id))))) return null;
    return more === null ? first.alone(name) : answerOf(more);
  }
}

export class Denials {
  readonly #region: SharedRegion | null;
  readonly #domain: number;
  readonly #users = new Map<string, UserDenials>();
  /** Without a region: grows when something is given back. */
  #epoch = 0;

  /** `domain` is the index that is told to the region. */
  constructor(region: SharedRegion | null, domain: number) {
    this.#region = region;
    this.#domain = domain;
  }

  /**
   * Milliseconds on a clock that all threads of the process share. The region's own is read in steps, and moves late on a
   * crowded machine: a denial that ends late by it would answer for an id that was allowed meanwhile.
   */
  get now(): number {
    return performance.now() + ORIGIN;
  }

  /** What this thread knows of a user, or null. */
  find(user: string): UserDenials | null {
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

  /** What other threads know of a user, or null; `key` is the user's in the region. */
  fetch(user: string, key: string): UserDenials | null {
    const region = this.#region;
    return region === null || region.ended ? null : this.#lookup(region, user, key);
  }

  /** To be taken before a call is sent, and given to `add` with what it brought. */
  ticket(key: string): number {
    const region = this.#region;
    if (region === null || region.ended) return this.#epoch;
    return region.session.beginLoad(key);
  }

  /** `sent` is the clock when the call was sent; `figures` and `ids` are the reply's. */
  add(
    user: string,
    key: string,
    plan: Plan,
    figures: readonly number[],
    ids: readonly string[] | null,
    ticket: number,
    sent: number,
  ): void {
    const fresh: Denial[] = [];
    const { now } = this;
    const at = figures[1]!;
    let longest = 0;
    for (const [i, { field, limit }] of plan.entries()) {
      const used = figures[2 + 3 * i]!;
      if (used < limit) continue;
      // The server tells whole milliseconds of a time that it has cut to whole ones.
      const life = Math.min(MOST_MS, figures[3 + 3 * i]! - 1);
      if (sent + life <= now) continue;
      longest = Math.max(longest, sent + life - now);
      fresh.push(new Denial(field, limit, used, at + figures[3 + 3 * i]!, sent + life));
    }
    if (fresh.length === 0) return;
    // A denial goes with every id that its own reply told, whichever of two replies came first.
    const old = this.find(user) ?? this.fetch(user, key);
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
    this.#keep(user, key, new UserDenials(fresh, hashes), longest, ticket);
  }

  /** Forgets a user in every thread; denials under way are not kept. */
  drop(user: string, key: string): void {
    this.#epoch += 1;
    this.#users.delete(user);
    const region = this.#region;
    if (region !== null && !region.ended) region.session.invalidate(key);
  }

  #keep(user: string, key: string, known: UserDenials, life: number, ticket: number): void {
    const region = this.#region;
    if (region === null) {
      if (ticket === this.#epoch) this.#hold(user, known);
      return;
    }
    if (region.ended) return;
    const rows = known.denials.map(({ field, limit, used, resetsAtMs, end }) => [field, limit, used, resetsAtMs, end]);
    const bytes = Buffer.from(JSON.stringify([rows, known.ids]));
    const stored = region.session.store(key, bytes, Math.ceil(life), 0, 0, this.#domain, ticket, info);
    if (stored === CacheStored.KEPT) this.#proven(user, known);
  }

  #lookup(region: SharedRegion, user: string, key: string): UserDenials | null {
    let kind = region.session.lookup(key, 0, 0, scratch, info);
    if (kind === CacheKind.NO_ROOM) {
      scratch = Buffer.allocUnsafeSlow(info[INFO_LENGTH]! * 2);
      kind = region.session.lookup(key, 0, 0, scratch, info);
    }
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

  #hold(user: string, known: UserDenials): void {
    if (this.#users.size >= MAX_USERS && !this.#users.has(user)) this.#users.delete(this.#users.keys().next().value!);
    this.#users.set(user, known);
  }
}

function answerOf(caps: CapState[]): CapsResult {
  return Object.freeze({ allowed: false, caps: Object.freeze(caps), source: "cache" });
}
