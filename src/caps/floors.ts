/**
 * Counts that a failover may have lost. A replica that takes over lacks the last writes of its primary; what this thread saw
 * counted in the last minute is raised again by the user's next call. The invariant: counts only go up by it, and what was
 * given back by this thread is not raised.
 */
import { native } from "../native/index.js";
import type { Topology } from "../routing/topology.js";
import type { Plan } from "./plan.js";

/** Decisions remembered a thread. */
const SIZE = 16_384;
/** Age beyond which a decision is not used. */
const SEEN_MS = 60_000;
const SLOTS = 16_384;

interface Seen {
  readonly user: string;
  /** Null: counts were given back. */
  readonly plan: Plan | null;
  readonly figures: readonly number[];
  readonly at: number;
}

interface Floor {
  used: number;
  readonly end: number;
  until: number;
}

export class Floors {
  readonly #topology: Topology;
  readonly #keyOf: (user: string) => string;
  readonly #ring: Seen[] = [];
  #next = 0;
  #version = 0;
  /** Node of each slot when last looked, and its address. */
  readonly #owners = new Int32Array(SLOTS).fill(-1);
  #names = new Map<number, string>();
  #pending: Map<string, Map<string, Floor>> | null = null;

  constructor(topology: Topology, keyOf: (user: string) => string) {
    this.#topology = topology;
    this.#keyOf = keyOf;
  }

  /** Notes the figures of a decision that counted. */
  note(user: string, plan: Plan, figures: readonly number[], now: number): void {
    this.#push({ user, plan, figures, at: now });
  }

  /** Notes that counts of a user were given back: what was seen before says nothing any more. */
  forget(user: string, now: number): void {
    this.#push({ user, plan: null, figures: [], at: now });
    this.#pending?.delete(user);
  }

  /** Looks whether slots have changed hands. O(1) while the topology is the same. */
  look(now: number): void {
    const { version } = this.#topology;
    if (version !== this.#version) this.#follow(version, now);
  }

  /** Words for the script, three a cap; null when there is nothing to raise. */
  of(user: string, plan: Plan): string[] | null {
    const floors = this.#pending?.get(user);
    if (floors === undefined) return null;
    return plan.flatMap(({ field }) => {
      const floor = floors.get(field);
      return floor === undefined ? ["0", "0", "0"] : [floor.used, floor.end, floor.until].map(String);
    });
  }

  /** The script has raised the caps of a plan. */
  raised(user: string, plan: Plan): void {
    const floors = this.#pending?.get(user);
    if (floors === undefined) return;
    for (const { field } of plan) floors.delete(field);
    if (floors.size > 0) return;
    this.#pending!.delete(user);
    if (this.#pending!.size === 0) this.#pending = null;
  }

  #push(seen: Seen): void {
    this.#ring[this.#next] = seen;
    this.#next = (this.#next + 1) % SIZE;
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

  /** Collects what was seen of users in the slots, the newest first. */
  #raise(moved: ReadonlySet<number>, now: number): void {
    const given = new Set<string>();
    const pending = this.#pending ?? new Map<string, Map<string, Floor>>();
    for (let back = 1; back <= this.#ring.length; back += 1) {
      const seen = this.#ring[(this.#next - back + SIZE) % SIZE];
      if (seen === undefined || now - seen.at > SEEN_MS) break;
      const { user, plan, figures } = seen;
      if (plan === null) given.add(user);
      if (plan === null || given.has(user) || !moved.has(native.slot(this.#keyOf(user)))) continue;
      let floors = pending.get(user);
      if (floors === undefined) pending.set(user, (floors = new Map()));
      for (const [i, { field }] of plan.entries()) merge(floors, field, figures, i);
    }
    if (pending.size > 0) this.#pending = pending;
  }
}

function merge(floors: Map<string, Floor>, field: string, figures: readonly number[], i: number): void {
  const at = figures[1]!;
  const used = figures[2 + 3 * i]!;
  const until = at + figures[3 + 3 * i]!;
  const end = at + figures[4 + 3 * i]!;
  const known = floors.get(field);
  if (known === undefined) floors.set(field, { used, end, until });
  else if (known.end === end && used > known.used) {
    known.used = used;
    known.until = Math.min(known.until, until);
  }
}
