/**
 * A domain's replicated hot keys, as one thread reads and writes them. Copies of a hot key's value lie on other primaries than
 * its own: reads take original and copies in turn. The invariant: a copy that can be read is never older than the last write
 * that was acknowledged to a caller of this process.
 *
 * ```text
 * read    original │ copy 1 │ copy 2 │ original │ …        absent, failed, or no longer where it was put: the original
 * write   original → acknowledged → DEL copy, fence on every node → the caller hears of it
 * fill    SET fence → read the original → fill.lua stores the copy if the fence is still there     (src/hotkeys)
 * ```
 *
 * A copy that could not be dropped is read by no thread until it has died by its time to live. A write that failed may have run,
 * so copies are dropped then, too.
 */
import type { KeylaneError, KeylaneErrorCode } from "../errors.js";
import type { CallLimits, Lane, WriteGate } from "../lane/contract.js";
import { HEAD_GET, HEAD_UNCOUNTED, headOf } from "../lane/op.js";
import type { Op } from "../lane/op.js";
import { FLAG_SHAPE } from "../lane/replies.js";
import { deadlineIn } from "../lane/turn.js";
import { native } from "../native/index.js";
import { Opcode } from "../native/types.js";
import type { HotEntry, HotSet } from "../shared/hot-set.js";

/** Longest life of a copy that is not renewed, in milliseconds. */
export const REPLICA_LIFE_MS = 5000;
/** Added to what is waited for copies to die: their life is counted by a server. */
const LIFE_SLACK_MS = 200;
/** Least time that dropping the copies may take a write that came in late. */
const LEAST_DROP_MS = 20;
/** A copy whose node failed to answer is not asked for so long. */
const SHUN_MS = 1000;
/** Reads that go to the original after a copy was absent; twice as many each time in a row. */
const FIRST_REST = 32;
const LONGEST_REST = 1024;

const NO_LIMITS: CallLimits = {};
const HEAD_READ = HEAD_GET | HEAD_UNCOUNTED;
const HEAD_DROP = headOf(Opcode.DEL, 0, false);

/** Failures that the original would give as well. */
const FINAL: ReadonlySet<KeylaneErrorCode> = new Set([
  "KEYLANE_ERR_ABORTED",
  "KEYLANE_ERR_ARGUMENT",
  "KEYLANE_ERR_CLOSED",
  "KEYLANE_ERR_CODEC",
  "KEYLANE_ERR_TOO_LARGE",
]);

/** The fence of a copy: who fills it must find it there. Same tag, so same slot and node. */
export function fenceOf(name: string): string {
  return `${name}~fence`;
}

/** The copies of one key, as this thread uses them. */
class Copies {
  readonly key: string;
  readonly cached: boolean;
  readonly names: readonly string[];
  readonly homes: readonly number[];
  readonly slots: readonly number[];
  readonly #shunned: number[];
  #turn: number;
  #rest = 0;
  #nextRest = FIRST_REST;

  constructor({ key, cached, replicas, homes }: HotEntry) {
    this.key = key;
    this.cached = cached;
    this.names = replicas;
    this.homes = homes;
    this.slots = replicas.map((name) => native.slot(name));
    this.#shunned = replicas.map(() => 0);
    // Threads begin anywhere, so that not all go to the same node at once.
    this.#turn = Math.floor(Math.random() * (replicas.length + 1));
  }

  /** Whose turn it is: a copy, or, with the number of copies, the original. */
  next(): number {
    const { length } = this.names;
    if (this.#rest > 0) {
      this.#rest -= 1;
      return length;
    }
    const at = this.#turn;
    this.#turn = at === length ? 0 : at + 1;
    const until = this.#shunned[at] ?? 0;
    if (until === 0) return at;
    if (performance.now() < until) return length;
    this.#shunned[at] = 0;
    return at;
  }

  /** The copy was there. */
  found(): void {
    this.#nextRest = FIRST_REST;
  }

  /** It was not: it is being filled, or written faster than that. */
  missed(): void {
    if (this.#rest > 0) return;
    this.#rest = this.#nextRest;
    this.#nextRest = Math.min(LONGEST_REST, this.#nextRest * 2);
  }

  /** Its node did not answer. */
  shun(at: number): void {
    this.#shunned[at] = performance.now() + SHUN_MS;
  }

  same({ cached, replicas, homes }: HotEntry): boolean {
    const { names } = this;
    return (
      cached === this.cached &&
      names.length === replicas.length &&
      names.every((name, i) => name === replicas[i] && this.homes[i] === homes[i])
    );
  }
}

/** Where hits are counted. */
export interface HitTaker {
  add(key: string, weight: number): void;
}

export class HotReplicas implements WriteGate {
  readonly #set: HotSet;
  readonly #versions: Int32Array;
  readonly #lane: Lane;
  readonly #hits: HitTaker | null;
  readonly #domain: number;
  #version = 0;
  #byKey: ReadonlyMap<string, Copies> = new Map();
  #bySlot: ReadonlyMap<number, readonly Copies[]> = new Map();
  #any = false;

  /** `hits` counts reads of copies as hits of their original. */
  constructor(set: HotSet, lane: Lane, hits: HitTaker | null) {
    this.#set = set;
    this.#versions = set.versions;
    this.#lane = lane;
    this.#hits = hits;
    this.#domain = lane.config.index;
  }

  /** Whether any key of the domain has copies now. One plain read, unless a newer set was published. */
  get active(): boolean {
    if (this.#versions[0] !== this.#version) this.#follow();
    return this.#any;
  }

  /**
   * Reads a key from one of its copies; null when the original is to be asked, as it always is for what can be cached. `counted`:
   * that is a hit of the key.
   */
  read(key: string, limits: CallLimits = NO_LIMITS, counted = true): Promise<unknown> | null {
    const copies = this.#byKey.get(key);
    if (copies === undefined || copies.cached) return null;
    const at = copies.next();
    if (at === copies.names.length || !this.#mayRead(copies, at)) return null;
    if (counted) this.#hits?.add(key, 1);
    return this.#ask(copies, at, limits);
  }

  holds(op: Op, value: unknown): boolean {
    const found = this.#writtenBy(op);
    if (found === undefined) return false;
    void this.#dropWithin(op, found).then(() => op.settle(value));
    return true;
  }

  /** What the server refused may have run in part (a script). Where no answer came, nobody is kept waiting any longer. */
  failed(op: Op, error: KeylaneError): boolean {
    const found = error.outcome === "not-sent" ? undefined : this.#writtenBy(op);
    if (found === undefined) return false;
    const dropped = this.#dropWithin(op, found);
    if (error.outcome !== "rejected") return false;
    void dropped.then(() => op.settle(Promise.reject(error)));
    return true;
  }

  /** All keys of an operation lie in one slot. */
  #writtenBy({ key }: Op): readonly Copies[] | undefined {
    return key === null ? undefined : this.#bySlot.get(native.slot(key));
  }

  /** Resolves when no copy can be read any more, by the operation's deadline. */
  async #dropWithin({ deadline }: Op, all: readonly Copies[]): Promise<void> {
    const left = Math.max(LEAST_DROP_MS, deadline - deadlineIn(0));
    const timeoutMs = Math.min(left, this.#lane.config.commandTimeoutMs);
    const drops = all.flatMap(({ names }) =>
      names.map((name) => this.#lane.own(HEAD_DROP, name, [fenceOf(name)], FLAG_SHAPE, { timeoutMs }, false)),
    );
    const results = await Promise.allSettled(drops);
    if (results.every(({ status }) => status === "fulfilled")) return;
    this.#set.distrust(this.#domain, REPLICA_LIFE_MS + LIFE_SLACK_MS);
  }

  async #ask(copies: Copies, at: number, { timeoutMs, signal }: CallLimits): Promise<unknown> {
    const deadline = deadlineIn(timeoutMs ?? this.#lane.config.commandTimeoutMs);
    const half = Math.max(1, (deadline - deadlineIn(0)) >> 1);
    let moved = false;
    try {
      const value = await this.#lane.own(HEAD_GET, copies.names[at]!, null, null, { signal, timeoutMs: half }, true);
      if (value === null) copies.missed();
      else if (this.#atHome(copies, at)) {
        copies.found();
        return value;
      } else moved = true;
    } catch (error) {
      // What the original would fail with as well, it is asked for all the same: that call is the caller's.
      if (!FINAL.has((error as KeylaneError).code)) copies.shun(at);
    }
    const left = Math.max(1, deadline - deadlineIn(0));
    const again = { signal, timeoutMs: left };
    // A value that is not believed stands for the call all the same.
    if (moved) return this.#lane.own(HEAD_GET, copies.key, null, null, again, false);
    return this.#lane.call(HEAD_READ, copies.key, null, null, again);
  }

  #mayRead(copies: Copies, at: number): boolean {
    return this.#atHome(copies, at) && this.#set.trusts(this.#domain);
  }

  /** A node that took the slot over may hold what the other had before it was dropped. */
  #atHome({ slots, homes }: Copies, at: number): boolean {
    return this.#lane.topology.nodeOf(slots[at]!) === homes[at];
  }

  #follow(): void {
    const version = this.#versions[0]!;
    const byKey = new Map<string, Copies>();
    const bySlot = new Map<number, Copies[]>();
    for (const entry of this.#set.entries()) {
      if (entry.domain !== this.#domain || entry.replicas.length === 0) continue;
      const known = this.#byKey.get(entry.key);
      const copies = known?.same(entry) === true ? known : new Copies(entry);
      byKey.set(entry.key, copies);
      const slot = native.slot(entry.key);
      bySlot.set(slot, [...(bySlot.get(slot) ?? []), copies]);
    }
    this.#byKey = byKey;
    this.#bySlot = bySlot;
    this.#any = byKey.size > 0;
    this.#version = version;
  }
}
