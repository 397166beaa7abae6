/**
 * The copies of one hot key, kept by the process that governs it. All that is done about them is done in rounds, one at a time:
 * look where they should be, tell all threads, read the original, fill. The invariant: a copy is filled only under a name that
 * all threads of the process know (so that their writes drop it), with a value read after its fence was put there. A key that is
not copied whatever its changes is listened to before it gets its first copy (see `unrest.ts`).
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { REPLICA_LIFE_MS, fenceOf } from "../cache/hot-replicas.js";
import type { KeylaneError } from "../errors.js";
import type { DomainLane } from "../lane/lane.js";
import { HEAD_UNCOUNTED, headOf } from "../lane/op.js";
import { FLAG_SHAPE, INTEGER_SHAPE, RAW_SHAPE, STORED_SHAPE } from "../lane/replies.js";
import { Opcode } from "../native/types.js";
import type { Place } from "./places.js";
import { Unrest } from "./unrest.js";

/** Age at which copies are filled anew, and at which an original that cannot be copied is looked at again. */
const RENEW_MS = 2000;
const RECHECK_MS = 10_000;
/** Life of a fence: a round that takes longer fills nothing. */
const FENCE_MS = 3000;
/** Least distance of two rounds, and the pause after one that failed. */
const ROUND_MS = 10;
const RETRY_MS = 200;
/** Longest wait for copies that are given up to be gone; they die by themselves otherwise. */
const GIVE_UP_MS = 500;
/** Longer values are not copied. */
const MAX_VALUE_BYTES = 8 << 20;

const HEAD_SET = headOf(Opcode.SET, 0, false) | HEAD_UNCOUNTED;
const HEAD_DEL = headOf(Opcode.DEL, 0, false) | HEAD_UNCOUNTED;
const HEAD_FILL = headOf(Opcode.EVALSHA, 2, false) | HEAD_UNCOUNTED;
// Not marked as reads: a primary answers them, whatever reads are scaled to.
const HEAD_GET = headOf(Opcode.GET, 0, false) | HEAD_UNCOUNTED;
const HEAD_PTTL = headOf(Opcode.PTTL, 0, false) | HEAD_UNCOUNTED;

const FILL = readFileSync(new URL("fill.lua", import.meta.url), "utf8");
const FILL_SHA = createHash("sha1").update(FILL).digest("hex");

/** What a round needs of the domain. */
export interface CopiesDomain {
  readonly lane: DomainLane;
  /** Where the copies should be: `kept` as far as they can stay, and others up to `count`. */
  choose(key: string, count: number, kept: readonly Place[]): Place[];
  /** Has all threads know what `places` are now, before it returns. */
  publish(): void;
  /** A node failed to do its part. */
  failed(home: number, error: KeylaneError): void;
  /** A key changes too often for copies. Told once. */
  restless(key: string): void;
}

/** The original as it was read. */
interface Original {
  readonly bytes: Buffer;
  readonly lifeMs: number;
}

export class KeyCopies {
  readonly key: string;
  /** Copies that threads may read, and drop when they write. */
  places: readonly Place[] = [];
  /** Bytes of the value when last read; null before, and when it is no string. */
  bytes: number | null = null;
  readonly #domain: CopiesDomain;
  readonly #unrest = new Unrest();
  #count: number;
  /** Copied however often it changes. */
  #always: boolean;
  #restless = false;
  #due = true;
  #dueAt = 0;
  #round: Promise<void> | null = null;
  #ended = false;

  constructor(key: string, count: number, always: boolean, domain: CopiesDomain) {
    this.key = key;
    this.#count = count;
    this.#always = always;
    this.#domain = domain;
  }

  /** How many copies are wanted from now on, and whether that is so however often it changes. */
  resize(count: number, always: boolean): void {
    this.#always = always;
    if (count === this.#count) return;
    this.#count = count;
    this.stir();
  }

  /** Someone changed the original. */
  changed(): void {
    const tooOften = this.#unrest.changed(performance.now());
    this.#renew();
    if (!tooOften || this.#always || this.#restless || this.#ended) return;
    this.#restless = true;
    this.#domain.restless(this.key);
  }

  /** Someone may have changed the original, unheard of. */
  doubted(): void {
    this.#unrest.lost(performance.now());
    this.#renew();
  }

  /** Begins a round soon. */
  stir(): void {
    this.#due = true;
    this.#round ??= this.#rounds().finally(() => {
      this.#round = null;
    });
  }

  /** Looks at the time: begins a round when one is due. */
  beat(now: number): void {
    if (!this.#ended && this.#round === null && now >= this.#dueAt) this.stir();
  }

  /** Drops the copies for good. Resolves when they are gone, or cannot be reached; threads are told after that. */
  async end(): Promise<void> {
    this.#ended = true;
    await this.#round;
    await this.#give(this.places);
    this.places = [];
  }

  async #rounds(): Promise<void> {
    while (this.#due && !this.#ended) {
      this.#due = false;
      const began = performance.now();
      const next = await this.#run().catch(() => RETRY_MS);
      this.#dueAt = performance.now() + next;
      const pause = ROUND_MS - (performance.now() - began);
      if (this.#due && pause > 0) await sleep(pause, undefined, { ref: false });
    }
  }

  /** One round. Gives when the next one is due at the latest, in milliseconds. */
  async #run(): Promise<number> {
    // An absent or unfit original gets no copies, so it is looked at before any are announced.
    if (this.places.length === 0 && ((await this.#read()) === null || !(await this.#isSteady()))) return RECHECK_MS;
    await this.#settle();
    const { places } = this;
    if (places.length === 0 || this.#ended) return RENEW_MS;
    const nonce = `${process.pid}.${performance.now()}.${Math.random()}`;
    const begun = await this.#each(places, ({ name }) => {
      const flags = [nonce, "PX", String(FENCE_MS)];
      return this.#call(HEAD_SET, fenceOf(name), flags, STORED_SHAPE);
    });
    const original = await this.#read();
    if (original === null) {
      await this.#give(places);
      this.#announce([]);
      return RECHECK_MS;
    }
    const filled = await this.#each(begun, ({ name }) => this.#fill(name, nonce, original));
    // Somebody wrote meanwhile: that is told, or was done by a thread of ours whose word may come late.
    if (filled.length < begun.length) this.#due = true;
    return begun.length === places.length ? RENEW_MS : RETRY_MS;
  }

  /** Listens for as long as it takes to tell how often the original changes. False when it is not to be copied now. */
  async #isSteady(): Promise<boolean> {
    while (!this.#always && !this.#unrest.steady(performance.now())) {
      await sleep(ROUND_MS, undefined, { ref: false });
      if (this.#restless || this.#ended) return false;
      if (this.#unrest.deaf && (await this.#read()) === null) return false;
    }
    return true;
  }

  /** Puts the copies where they should be. */
  async #settle(): Promise<void> {
    const next = this.#domain.choose(this.key, this.#count, this.places);
    const gone = this.places.filter((place) => !next.includes(place));
    if (gone.length === 0 && next.length === this.places.length) return;
    await this.#give(gone);
    if (!this.#ended) this.#announce(next);
  }

  #announce(places: readonly Place[]): void {
    this.places = places;
    this.#domain.publish();
  }

  /**
   * The original, and from now on word of its changes. Null when it is absent, holds another type or is too long. Rejects when
   * it cannot be read.
   */
  async #read(): Promise<Original | null> {
    const life = this.#call(HEAD_PTTL, this.key, null, INTEGER_SHAPE);
    const value = this.#call(HEAD_GET, this.key, null, null);
    this.#unrest.asked();
    const [told, read] = await Promise.allSettled([life, value]);
    if (told.status === "fulfilled") this.#unrest.answered(performance.now());
    if (read.status === "rejected") {
      if ((read.reason as KeylaneError).code !== "KEYLANE_ERR_WRONGTYPE") throw read.reason;
      this.bytes = null;
      return null;
    }
    if (told.status === "rejected") throw told.reason;
    const bytes = read.value as Buffer | null;
    const left = Number(told.value);
    // The life was asked for first: the key may have appeared in between.
    this.bytes = bytes?.length ?? null;
    if (bytes === null || left === -2 || bytes.length > MAX_VALUE_BYTES) return null;
    return { bytes, lifeMs: left === -1 ? REPLICA_LIFE_MS : Math.min(REPLICA_LIFE_MS, left) };
  }

  async #fill(name: string, nonce: string, { bytes, lifeMs }: Original): Promise<boolean> {
    const rest = ["2", name, fenceOf(name), nonce, String(FENCE_MS), bytes, String(lifeMs)];
    const timeoutMs = this.#domain.lane.config.commandTimeoutMs;
    return (await this.#domain.lane.call(HEAD_FILL, FILL_SHA, rest, RAW_SHAPE, { timeoutMs }, FILL)) === 1;
  }

  /** Does something for each place. Gives those for which it was done; nodes that failed are told. */
  async #each(places: readonly Place[], act: (place: Place) => Promise<unknown>): Promise<Place[]> {
    const results = await Promise.allSettled(places.map(act));
    return places.filter((place, at) => {
      const result = results[at]!;
      if (result.status === "rejected") this.#domain.failed(place.home, result.reason as KeylaneError);
      return result.status === "fulfilled" && result.value !== false;
    });
  }

  #renew(): void {
    void this.#drop(this.places);
    this.stir();
  }

  #drop(places: readonly Place[]): Promise<unknown> {
    return this.#each(places, ({ name }) => this.#call(HEAD_DEL, name, [fenceOf(name)], FLAG_SHAPE).then(() => true));
  }

  /** Drops copies that nobody will drop any more, within a bound. */
  #give(places: readonly Place[]): Promise<unknown> {
    if (places.length === 0) return Promise.resolve();
    return Promise.race([this.#drop(places), sleep(GIVE_UP_MS, undefined, { ref: false })]);
  }

  #call(
    head: number,
    first: string,
    rest: readonly string[] | null,
    shape: Parameters<DomainLane["call"]>[3],
  ): Promise<unknown> {
    return this.#domain.lane.call(head, first, rest, shape);
  }
}
