/**
 * Counts that a failover may have lost. A replica that takes over lacks the last writes of its primary; what this thread saw
 * counted in the last minute is raised again by the user's next call. The invariant: counts only go up by it, and what was
 * given back by this thread is not raised.
 *
 * ```text
 * ring    [ key hash | slot | at | n | n × ( field hash | used | until | end ) ] …     n = 0: counts were given back
 * ```
 *
 * The ring holds no object, so that what is remembered costs the garbage collector nothing.
 */
import type { Topology } from "../routing/topology.js";
import type { Plan } from "./plan.js";
import type { Figures } from "./reply.js";

/** Words of the ring: 16,384 decisions about three caps. */
const WORDS = 1 << 18;
const MASK = WORDS - 1;
/** Positions are put back by this, a multiple of `WORDS`, so that they stay small integers. */
const FARTHEST = 1 << 29;
const HEAD = 4;
const PER_CAP = 4;
/** Age beyond which a decision is not used. */
const SEEN_MS = 60_000;
const SLOTS = 16_384;
const NOTHING = new Float64Array(0);
/** Keys whose counts wait to be raised; the oldest leave first. */
const MAX_KEYS = 65_536;

interface Floor {
  used: number;
  until: number;
  readonly end: number;
}

export class Floors {
  readonly #topology: Topology;
  /** Made when there is something to note. */
  #ring = NOTHING;
  /** Where the next entry goes, and where the oldest one that still stands begins; negative ones are the same modulo `WORDS`. */
  #head = 0;
  #tail = 0;
  #version = 0;
  /** Node of each slot when last looked, and its address. */
  readonly #owners = new Int32Array(SLOTS).fill(-1);
  readonly #names = new Map<number, string>();
  /** By hash of key, then of field. */
  #pending: Map<number, Map<number, Floor>> | null = null;

  constructor(topology: Topology) {
    this.#topology = topology;
  }

  /** Notes the figures of a decision that counted; `key` is a hash. Times are on the clock of `Denials`. */
  note(key: number, slot: number, { caps }: Plan, figures: Figures, now: number): void {
    let at = this.#begin(key, slot, now, caps.length);
    const ring = this.#ring;
    for (let i = 0; i < caps.length; i += 1, at += PER_CAP) {
      ring[at & MASK] = caps[i]!.hash;
      ring[(at + 1) & MASK] = figures.used(i);
      ring[(at + 2) & MASK] = figures.now + figures.resetsInMs(i);
      ring[(at + 3) & MASK] = figures.now + figures.endsInMs(i);
    }
  }

  /** Notes that counts of a key were given back: what was seen before says nothing any more. */
  forget(key: number, now: number): void {
    this.#begin(key, 0, now, 0);
    this.#pending?.delete(key);
  }

  /** Whether any key has something to raise. */
  get waiting(): boolean {
    return this.#pending !== null;
  }

  /** Looks whether slots have changed hands. O(1) while the topology is the same. */
  look(now: number): void {
    if (this.#topology.changedSince(this.#version)) this.#follow(this.#topology.version, now);
  }

  /** Words for the script, three a cap; null when there is nothing to raise. */
  of(key: number, plan: Plan): string[] | null {
    if (this.#pending === null) return null;
    const floors = this.#pending.get(key);
    if (floors === undefined) return null;
    return plan.caps.flatMap(({ hash }) => {
      const floor = floors.get(hash);
      return floor === undefined ? ["0", "0", "0"] : [String(floor.used), String(floor.end), String(floor.until)];
    });
  }

  /** The script has raised the caps of a plan. */
  raised(key: number, plan: Plan): void {
    const floors = this.#pending?.get(key);
    if (floors === undefined) return;
    for (const cap of plan.caps) floors.delete(cap.hash);
    if (floors.size > 0) return;
    this.#pending!.delete(key);
    if (this.#pending!.size === 0) this.#pending = null;
  }

  /** Makes room, writes the head of an entry, and gives where its caps go. */
  #begin(key: number, slot: number, now: number, caps: number): number {
    if (this.#ring === NOTHING) this.#ring = new Float64Array(WORDS);
    const ring = this.#ring;
    if (this.#head > FARTHEST) {
      this.#head -= FARTHEST;
      this.#tail -= FARTHEST;
    }
    const at = this.#head;
    this.#head = at + HEAD + PER_CAP * caps;
    while (this.#head - this.#tail > WORDS) this.#tail += HEAD + PER_CAP * this.#at(this.#tail + 3);
    ring[at & MASK] = key;
    ring[(at + 1) & MASK] = slot;
    ring[(at + 2) & MASK] = now;
    ring[(at + 3) & MASK] = caps;
    return at + HEAD;
  }

  #at(index: number): number {
    return this.#ring[index & MASK]!;
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

  /** Collects what was seen of keys in the slots, the oldest first. */
  #raise(moved: ReadonlySet<number>, now: number): void {
    const pending = this.#pending ?? new Map<number, Map<number, Floor>>();
    for (let at = this.#tail; at < this.#head; at += HEAD + PER_CAP * this.#at(at + 3)) {
      const key = this.#at(at);
      const caps = this.#at(at + 3);
      if (caps === 0) pending.delete(key);
      if (now - this.#at(at + 2) > SEEN_MS || !moved.has(this.#at(at + 1))) continue;
      let floors = pending.get(key);
      if (floors === undefined) {
        if (pending.size >= MAX_KEYS) pending.delete(pending.keys().next().value!);
        pending.set(key, (floors = new Map()));
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
