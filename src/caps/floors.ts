/**
 * Counts that a failover may have lost. A replica that takes over lacks the last writes of its primary; what this thread saw
 * counted in the last minute is raised again by the user's next call. The invariant: counts only go up by it, and what was
 * given back by this thread is not raised.
 *
 * ```text
 * ring    [ user hash | slot | at | n | n × ( field hash | used | until | end ) ] …     n = 0: counts were given back
 * ```
 *
 * The ring holds no object, so that what is remembered costs the garbage collector nothing.
 */
import type { Topology } from "../routing/topology.js";
import type { Plan } from "./plan.js";

/** Words of the ring: 16,384 decisions about three caps. */
const WORDS = 1 << 18;
const HEAD = 4;
const PER_CAP = 4;
/** Age beyond which a decision is not used. */
const SEEN_MS = 60_000;
const SLOTS = 16_384;
/** Users whose counts wait to be raised; the oldest leave first. */
const MAX_USERS = 65_536;

interface Floor {
  used: number;
  until: number;
  readonly end: number;
}

export class Floors {
  readonly #topology: Topology;
  readonly #ring = new Float64Array(WORDS);
  /** Where the next entry goes, and where the oldest one that still stands begins; both only grow. */
  #head = 0;
  #tail = 0;
  #version = 0;
  /** Node of each slot when last looked, and its address. */
  readonly #owners = new Int32Array(SLOTS).fill(-1);
  readonly #names = new Map<number, string>();
  /** By hash of user, then of field. */
  #pending: Map<number, Map<number, Floor>> | null = null;

  constructor(topology: Topology) {
    this.#topology = topology;
  }

  /** Notes the figures of a decision that counted. Times are on the clock of `Denials`. */
  note(user: string, slot: number, plan: Plan, figures: readonly number[], now: number): void {
    this.#begin(user, slot, now, plan.length);
    const at = figures[1]!;
    for (let i = 0; i < plan.length; i += 1) {
      this.#put(plan[i]!.hash);
      this.#put(figures[2 + 3 * i]!);
      this.#put(at + figures[3 + 3 * i]!);
      this.#put(at + figures[4 + 3 * i]!);
    }
  }

  /** Notes that counts of a user were given back: what was seen before says nothing any more. */
  forget(user: string, now: number): void {
    this.#begin(user, 0, now, 0);
    this.#pending?.delete(hashUser(user));
  }

  /** Looks whether slots have changed hands. O(1) while the topology is the same. */
  look(now: number): void {
    const { version } = this.#topology;
    if (version !== this.#version) this.#follow(version, now);
  }

  /** Words for the script, three a cap; null when there is nothing to raise. */
  of(user: string, plan: Plan): string[] | null {
    if (this.#pending === null) return null;
    const floors = this.#pending.get(hashUser(user));
    if (floors === undefined) return null;
    return plan.flatMap(({ hash }) => {
      const floor = floors.get(hash);
      return floor === undefined ? ["0", "0", "0"] : [String(floor.used), String(floor.end), String(floor.until)];
    });
  }

  /** The script has raised the caps of a plan. */
  raised(user: string, plan: Plan): void {
    const hash = hashUser(user);
    const floors = this.#pending?.get(hash);
    if (floors === undefined) return;
    for (const cap of plan) floors.delete(cap.hash);
    if (floors.size > 0) return;
    this.#pending!.delete(hash);
    if (this.#pending!.size === 0) this.#pending = null;
  }

  #begin(user: string, slot: number, now: number, caps: number): void {
    const length = HEAD + PER_CAP * caps;
    while (this.#head + length - this.#tail > WORDS) this.#tail += HEAD + PER_CAP * this.#at(this.#tail + 3);
    this.#put(hashUser(user));
    this.#put(slot);
    this.#put(now);
    this.#put(caps);
  }

  #put(word: number): void {
    this.#ring[this.#head % WORDS] = word;
    this.#head += 1;
  }

  #at(index: number): number {
    return this.#ring[index % WORDS]!;
  }

  #follow(version: number, now: number): void {
    this.#version = version;
    const names = new Map(this.#topology.nodes().map(({ index, host, port }) => [index, `${host}:${port}`]));
    const moved = new Set<number>();
    for (let slot = 0; slot < SLOTS; slot += 1) {
      const owner = this.#topology.nodeOf(slot);
      // A slot that nobody serves still waits for its heir.
      if (owner === -1) continue;
      const before = this.#owners[slot]!;
      if (before !== -1 && this.#names.get(before) !== names.get(owner)) moved.add(slot);
      this.#owners[slot] = owner;
    }
    for (const [index, name] of names) this.#names.set(index, name);
    if (moved.size > 0) this.#raise(moved, now);
  }

  /** Collects what was seen of users in the slots, the oldest first. */
  #raise(moved: ReadonlySet<number>, now: number): void {
    const pending = this.#pending ?? new Map<number, Map<number, Floor>>();
    for (let at = this.#tail; at < this.#head; at += HEAD + PER_CAP * this.#at(at + 3)) {
      const user = this.#at(at);
      const caps = this.#at(at + 3);
      if (caps === 0) pending.delete(user);
      if (now - this.#at(at + 2) > SEEN_MS || !moved.has(this.#at(at + 1))) continue;
      let floors = pending.get(user);
      if (floors === undefined) {
        if (pending.size >= MAX_USERS) pending.delete(pending.keys().next().value!);
        pending.set(user, (floors = new Map()));
      }
      for (let i = 0; i < caps; i += 1) this.#merge(floors, at + HEAD + PER_CAP * i);
    }
    this.#pending = pending.size > 0 ? pending : null;
  }

  #merge(floors: Map<number, Floor>, at: number): void {
    const [field, used, until, end] = [this.#at(at), this.#at(at + 1), this.#at(at + 2), this.#at(at + 3)];
    const known = floors.get(field);
    if (known?.end === end) {
      known.until = used >= known.used ? until : known.until;
      known.used = Math.max(known.used, used);
    } else floors.set(field, { used, until, end });
  }
}

/** 53 bits of two hashes. */
function hashUser(user: string): number {
  let one = 0x811c9dc5;
  let other = 0x9e3779b9;
  for (let i = 0; i < user.length; i += 1) {
    const unit = user.charCodeAt(i);
    one = Math.imul(one ^ unit, 0x01000193);
    other = Math.imul(other ^ unit, 0x85ebca6b) ^ (other >>> 15);
  }
  return (one >>> 0) * 0x20_0000 + (other >>> 11);
}
