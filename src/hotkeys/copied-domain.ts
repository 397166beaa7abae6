/**
 * Copied keys of one domain, in the process that governs them: the lane that hears of changes, open while there are any, the
 * nodes that can take copies, and the keys. The invariant: a key that is given up stays known to all threads until its copies
 * are gone.
 */
import type { KeylaneError } from "../errors.js";
import type { LaneConfig } from "../lane/config.js";
import type { DomainLane } from "../lane/lane.js";
import { native } from "../native/index.js";
import type { Router } from "../routing/router.js";
import type { Topology } from "../routing/topology.js";
import { KeyCopies } from "./copies.js";
import type { CopiesDomain } from "./copies.js";
import { isCopyOf, primariesOf, stemOf } from "./places.js";
import type { Place, Places } from "./places.js";
import { WatchLane } from "./watch-lane.js";
import type { Watcher } from "./watch-lane.js";

/** Distance of the looks at nodes and keys, in milliseconds. */
const BEAT_MS = 250;
/** A node that failed to do its part gets no copies for so long. */
const AVOID_MS = 2000;
/** Pause before a lane that could not be opened is tried again. */
const REOPEN_MS = 2000;
/** The home of a copy whose node is not known: no node's index. */
const NOWHERE = -2;

/** A domain that keys may be copied in. */
export interface ReplicaDomain {
  readonly config: LaneConfig;
  readonly topology: Topology;
}

/** Who is told. */
export interface ReplicasListener {
  /** Copies have changed for some keys: all threads must know before this returns. */
  publish(): void;
  /** A domain's keys cannot be copied. Told once for each reason. */
  degraded(domain: string, reason: string): void;
  /** A key (of a domain, by index) changes too often for copies; its copies are to be released. */
  restless(domain: number, key: string): void;
}

/** The copies of a key, side by side: names, and nodes by index. */
export interface ReplicaNames {
  readonly replicas: readonly string[];
  readonly homes: readonly number[];
}

export const NO_NAMES: ReplicaNames = { replicas: [], homes: [] };

export class CopiedDomain implements CopiesDomain, Watcher {
  readonly #config: LaneConfig;
  readonly #topology: Topology;
  readonly #router: Router;
  readonly #places: Places;
  readonly #listener: ReplicasListener;
  readonly #keys = new Map<string, KeyCopies>();
  /** Given up, and not gone yet. */
  readonly #leaving = new Set<KeyCopies>();
  readonly #adopted = new Map<string, ReplicaNames>();
  /** Node → until when it gets no copies. */
  readonly #avoided = new Map<number, number>();
  readonly #told = new Set<string>();
  #watch: WatchLane | null = null;
  #opened = false;
  #refused = false;
  #ended = false;
  #reopenAt = 0;
  /** Version of the topology that was looked at last, and its primaries. */
  #version = 0;
  /** The version that copies were last told of. */
  #settled = 0;
  #primaries: readonly number[] = [];
  #timer: NodeJS.Timeout | null = null;

  constructor({ config, topology }: ReplicaDomain, router: Router, places: Places, listener: ReplicasListener) {
    this.#config = config;
    this.#topology = topology;
    this.#router = router;
    this.#places = places;
    this.#listener = listener;
  }

  // ── what the governor wants ──────────────────────────────────────────────────────────────────────────────────────

  want(key: string, count: number, always: boolean): void {
    const known = this.#keys.get(key);
    if (known !== undefined) {
      known.resize(count, always);
      return;
    }
    if (!this.#mayCopy(key)) return;
    const copies = new KeyCopies(key, count, always, this);
    this.#keys.set(key, copies);
    this.#timer ??= setInterval(() => this.#beat(), BEAT_MS).unref();
    if (this.#opened) copies.stir();
    else if (this.#watch === null) void this.#open();
  }

  async release(key: string): Promise<void> {
    const copies = this.#keys.get(key);
    if (copies === undefined) return;
    this.#keys.delete(key);
    this.#leaving.add(copies);
    await copies.end();
    this.#leaving.delete(copies);
    if (this.#ended) return;
    this.publish();
    if (this.#keys.size === 0 && this.#leaving.size === 0) this.#shut();
  }

  async releaseAll(): Promise<void> {
    const leaving = [...this.#leaving].map((copies) => copies.end());
    await Promise.all([...leaving, ...[...this.#keys.keys()].map((key) => this.release(key))]);
  }

  /** Names that are none of a copy of this key are left out: they would be dropped at the next write. */
  adopt(key: string, names: readonly string[]): void {
    const proper = names.filter((name) => isCopyOf(name, key, this.#router));
    const known = this.#adopted.get(key)?.replicas ?? [];
    if (known.length === proper.length && proper.every((name, at) => name === known[at])) return;
    if (proper.length === 0) this.#adopted.delete(key);
    else {
      const homes = proper.map((name) => this.#homeOf(name));
      this.#adopted.set(key, { replicas: proper, homes });
    }
    this.publish();
  }

  of(key: string): ReplicaNames {
    const adopted = this.#adopted.get(key) ?? NO_NAMES;
    const places = this.#placesOf(key);
    if (places.length === 0) return adopted;
    return {
      replicas: [...places.map(({ name }) => name), ...adopted.replicas],
      homes: [...places.map(({ home }) => home), ...adopted.homes],
    };
  }

  made(key: string): readonly string[] {
    return this.#placesOf(key).map(({ name }) => name);
  }

  most(key: string): number {
    if (!this.#mayCopy(key)) return 0;
    this.#look();
    return Math.max(0, this.#primaries.length - 1);
  }

  /** Whether there are copies to be given up. */
  get any(): boolean {
    return this.#keys.size > 0 || this.#leaving.size > 0;
  }

  bytesOf(key: string): number | null {
    return this.#keys.get(key)?.bytes ?? null;
  }

  destroy(): void {
    this.#ended = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#watch?.close();
  }

  // ── what rounds need ─────────────────────────────────────────────────────────────────────────────────────────────

  get lane(): DomainLane {
    return this.#watch!.lane;
  }

  choose(key: string, count: number, kept: readonly Place[]): Place[] {
    const now = performance.now();
    const own = this.#homeOf(key);
    const usable = (home: number): boolean =>
      home !== own && (this.#avoided.get(home) ?? 0) <= now && this.#watch!.usable(home, now);
    const stay = kept.filter(({ slot, home }) => this.#topology.nodeOf(slot) === home && usable(home)).slice(0, count);
    const taken = new Set(stay.map(({ home }) => home));
    const free = this.#primaries.filter((home) => usable(home) && !taken.has(home));
    // Different keys begin at different nodes.
    const first = free.length === 0 ? 0 : native.slot(key) % free.length;
    const homes = [...free.slice(first), ...free.slice(0, first)].slice(0, count - stay.length);
    return [...stay, ...this.#places.find(key, this.#config.index, this.#topology, homes)];
  }

  publish(): void {
    if (!this.#ended) this.#listener.publish();
  }

  failed(home: number, { code, message }: KeylaneError): void {
    if (code === "KEYLANE_ERR_NOPERM") this.refused(message);
    this.#avoided.set(home, performance.now() + AVOID_MS);
  }

  restless(key: string): void {
    if (!this.#ended) this.#listener.restless(this.#config.index, key);
  }

  // ── what is heard ────────────────────────────────────────────────────────────────────────────────────────────────

  changed(key: string | null): void {
    if (key !== null) this.#keys.get(key)?.changed();
    else for (const copies of this.#keys.values()) copies.changed();
  }

  /** What changed since it was lost will not be told. */
  deaf(): void {
    if (this.#ended) return;
    for (const copies of this.#keys.values()) copies.doubted();
  }

  shaken(): void {
    if (!this.#opened || this.#ended) return;
    this.#settled = this.#topology.version;
    this.#look();
    for (const copies of this.#keys.values()) copies.stir();
  }

  refused(reason: string): void {
    if (this.#refused) return;
    this.#refused = true;
    this.#tell(`hot keys are not copied: ${reason}`);
    void this.releaseAll();
  }

  // ── own ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  async #open(): Promise<void> {
    const watch = new WatchLane(this.#config, this.#topology, this);
    this.#watch = watch;
    try {
      await watch.open();
    } catch (error) {
      watch.close();
      if (this.#watch !== watch || this.#ended) return;
      this.#watch = null;
      this.#reopenAt = performance.now() + REOPEN_MS;
      this.#tell(`hot keys are not copied: ${(error as KeylaneError).message}`);
      return;
    }
    if (this.#watch !== watch || this.#ended) {
      watch.close();
      return;
    }
    this.#opened = true;
    this.shaken();
  }

  #shut(): void {
    this.#watch?.close();
    this.#watch = null;
    this.#opened = false;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #beat(): void {
    const now = performance.now();
    if (!this.#opened) {
      if (this.#watch === null && now >= this.#reopenAt && this.#keys.size > 0) void this.#open();
      return;
    }
    if (this.#topology.version !== this.#settled) this.shaken();
    const watch = this.#watch!;
    for (const copies of this.#keys.values()) {
      if (!copies.places.every(({ home }) => watch.usable(home, now))) copies.stir();
      else copies.beat(now);
      for (const { home } of copies.places) watch.ask(home);
    }
  }

  #mayCopy(key: string): boolean {
    if (this.#ended || this.#refused || this.#config.mode !== "cluster") return false;
    return stemOf(key, this.#router) !== null;
  }

  /** Places of a key's copies, and of those being given up. */
  #placesOf(key: string): readonly Place[] {
    const kept = this.#keys.get(key)?.places ?? [];
    if (this.#leaving.size === 0) return kept;
    return [...this.#leaving].flatMap((copies) => (copies.key === key ? copies.places : [])).concat(kept);
  }

  #look(): void {
    const { version } = this.#topology;
    if (version === this.#version) return;
    this.#version = version;
    this.#primaries = primariesOf(this.#topology);
  }

  #homeOf(key: string): number {
    const home = this.#topology.nodeOf(native.slot(key));
    return home === -1 ? NOWHERE : home;
  }

  #tell(reason: string): void {
    if (this.#told.has(reason)) return;
    this.#told.add(reason);
    this.#listener.degraded(this.#config.domain, reason);
  }
}
