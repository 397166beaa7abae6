/**
 * A hot key source on a carrier: what is the same for every kind of place. Invariants: at most one write, one look and one
 * listener are under way; the latest word wins; everything that fails is tried again with a growing distance, so that a place
 * that is down costs a bounded amount; while this process has keys, its document is written anew every beat.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Carrier, Feed } from "./carrier.js";
import { Bell } from "./bell.js";
import { shapeOf, writeDocument } from "./document.js";
import { Roster } from "./roster.js";
import type { HotKeySource, SharedHotKey } from "./source.js";
import { Troubles } from "./troubles.js";

/** How a source is set up. */
export interface SharedSourceOptions {
  readonly beatMs: number;
  /** This process among the others; by default a random id. */
  readonly holder?: string;
  /** A monotonic clock in milliseconds; by default the process's. */
  readonly clock?: () => number;
}

/** Distance of tries after the first failure, and the longest; each is no more than so many beats. */
const FIRST_REST = { ms: 100, beats: 1 / 50 };
const LONGEST_REST = { ms: 5000, beats: 1 };
/** Time is looked at so often in a beat. */
const TICKS = 5;
/** A longer timer would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

const NOBODY: ReadonlySet<string> = new Set();

type Work = "write" | "read" | "listen";

export class SharedSource implements HotKeySource {
  readonly name: string;
  readonly holder: string;
  readonly #carrier: Carrier;
  readonly #beatMs: number;
  readonly #roster: Roster;
  readonly #life = new AbortController();
  readonly #toWrite = new Bell();
  readonly #toLook = new Bell();
  readonly #failing = new Set<Work>();
  /** Whether the listener of now has listened. */
  #listening = false;
  readonly #feed: Feed;
  #troubles: Troubles | undefined;
  #changed: (others: readonly SharedHotKey[]) => void = () => undefined;
  #ticker: NodeJS.Timeout | undefined;
  /** What is to be said, what was said, and whether the place may hold a document of ours. */
  #wanted: readonly SharedHotKey[] = [];
  #said = shapeOf([]);
  #told = false;
  #beat = 0;
  #writing: Promise<unknown> = Promise.resolve();
  #sweeping: Promise<void> = Promise.resolve();
  /** Holders that were heard of while a look was under way, and whether all were. */
  readonly #heard = new Set<string>();
  #heardAll = false;
  /** What was last told of the others. */
  #picture = "[]";
  #ticks = 0;
  #stopped: Promise<void> | undefined;

  constructor(make: (holder: string) => Carrier, options: SharedSourceOptions) {
    this.holder = options.holder ?? randomUUID();
    this.#carrier = make(this.holder);
    this.name = this.#carrier.name;
    this.#beatMs = options.beatMs;
    this.#roster = new Roster({
      own: this.holder,
      beatMs: options.beatMs,
      clock: options.clock ?? (() => performance.now()),
      bad: (name, reason) => this.#bad(name, reason),
    });
    this.#feed = {
      up: () => {
        this.#listening = true;
        this.#works("listen");
        this.#toLook.ring();
      },
      look: () => this.#toLook.ring(),
      all: (texts) => {
        this.#heardAll = true;
        this.#roster.all(texts, NOBODY);
        this.#show(false);
      },
      put: (holder, text) => {
        this.#heard.add(holder);
        this.#roster.put(holder, text);
        this.#show(false);
      },
      remove: (holder) => {
        this.#heard.add(holder);
        this.#roster.remove(holder);
        this.#show(false);
      },
    };
  }

  async start(
    changed: (others: readonly SharedHotKey[]) => void,
    trouble: (error: Error | null) => void,
  ): Promise<void> {
    if (this.#ended) return;
    this.#changed = changed;
    this.#troubles = new Troubles(this.name, () => this.#carrier.secrets(), trouble);
    this.#ticker = setInterval(() => this.#tick(), Math.max(1, this.#beatMs / TICKS)).unref();
    const looked = this.#look().then((fine) => void this.#reads(fine));
    void this.#listens();
    void this.#writes();
    await looked;
  }

  publish(entries: readonly SharedHotKey[]): void {
    this.#wanted = entries;
    // Rates alone wait for the next beat.
    if (shapeOf(entries) !== this.#said) this.#toWrite.ring();
  }

  stop(withinMs: number): Promise<void> {
    return (this.#stopped ??= this.#end(withinMs));
  }

  get #ended(): boolean {
    return this.#stopped !== undefined;
  }

  async #end(withinMs: number): Promise<void> {
    const deadline = performance.now() + withinMs;
    clearInterval(this.#ticker);
    const last = new AbortController();
    const timer = setTimeout(() => last.abort(), Math.min(withinMs, LONGEST_TIMER_MS));
    const given = new Promise<void>((resolve) =>
      last.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
    await Promise.race([this.#writing, given]);
    this.#life.abort();
    this.#toWrite.ring();
    this.#toLook.ring();
    if (this.#told && performance.now() < deadline) {
      await Promise.race([this.#carrier.remove(last.signal).catch(() => undefined), given]);
    }
    clearTimeout(timer);
    last.abort();
    this.#carrier.close();
  }

  /** Looks again and again: when it is told to, and every few beats. */
  async #reads(fine: boolean): Promise<void> {
    let failures = fine ? 0 : 1;
    while (!this.#ended) {
      // While nothing is heard, looking is all there is.
      const beats = this.#failing.has("listen") ? 1 : this.#carrier.pollBeats;
      if (failures === 0) await this.#toLook.wait(beats * this.#beatMs);
      else await this.#rest(failures);
      if (this.#ended) return;
      failures = (await this.#look()) ? 0 : failures + 1;
    }
  }

  async #look(): Promise<boolean> {
    this.#heard.clear();
    this.#heardAll = false;
    try {
      const texts = await this.#carrier.list(this.#life.signal);
      if (this.#ended) return true;
      if (!this.#heardAll) this.#roster.all(texts, this.#heard);
      this.#works("read");
      this.#show(false);
      return true;
    } catch (error) {
      this.#fails("read", error);
      return false;
    }
  }

  async #listens(): Promise<void> {
    let failures = 0;
    while (!this.#ended) {
      const before = performance.now();
      this.#listening = false;
      const error = await this.#carrier.listen(this.#feed, this.#life.signal).catch((error: unknown) => error);
      if (this.#ended) return;
      failures = performance.now() - before > this.#beatMs ? 1 : failures + 1;
      // That one that has listened for a while is cut off happens; it is trouble when the next one fails too.
      if (failures > 1 || !this.#listening) this.#fails("listen", error);
      await this.#rest(failures);
    }
  }

  async #writes(): Promise<void> {
    let failures = 0;
    while (!this.#ended) {
      if (failures > 0) await this.#rest(failures);
      else await this.#toWrite.wait(this.#wanted.length > 0 ? this.#beatMs : Infinity);
      if (this.#ended) return;
      const writing = this.#write().catch((error: unknown) => error);
      this.#writing = writing;
      const error = await writing;
      failures = error === undefined ? 0 : failures + 1;
      if (error === undefined) this.#works("write");
      else this.#fails("write", error);
    }
  }

  /** Says what is wanted now. */
  async #write(): Promise<void> {
    const keys = this.#wanted;
    this.#said = shapeOf(keys);
    if (keys.length > 0) {
      const document = { holder: this.holder, beat: ++this.#beat, beatMs: this.#beatMs, keys };
      this.#told = true;
      await this.#carrier.put(writeDocument(document, this.#carrier.maxBytes), this.#life.signal);
    } else if (this.#told) {
      await this.#carrier.remove(this.#life.signal);
      this.#told = false;
    }
  }

  #tick(): void {
    for (const [holder, text] of this.#roster.tick()) {
      this.#sweeping = this.#sweeping.then(() => this.#sweep(holder, text));
    }
    this.#show(++this.#ticks % TICKS === 0);
  }

  /** One at a time, so that many that die at once are no burden. */
  async #sweep(holder: string, text: string): Promise<void> {
    if (this.#ended) return;
    await this.#carrier.sweep(holder, text, this.#life.signal).catch(() => undefined); // another process may do it
  }

  /** Tells what the others say if it is new; rates alone are told once a beat. */
  #show(rates: boolean): void {
    const others = this.#ended ? null : this.#roster.take(rates);
    if (others === null) return;
    const picture = JSON.stringify(others);
    if (picture === this.#picture) return;
    this.#picture = picture;
    this.#changed(others);
  }

  #bad(name: string, reason: string | null): void {
    const cause = `document ${name}`;
    if (reason === null) this.#troubles?.end(cause);
    else this.#troubles?.add(cause, `${JSON.stringify(name.slice(0, 80))} is passed over: ${reason}`);
  }

  #fails(work: Work, error: unknown): void {
    if (this.#ended) return;
    this.#failing.add(work);
    this.#troubles?.add("place", error instanceof Error ? error.message : String(error));
  }

  #works(work: Work): void {
    if (this.#failing.delete(work) && this.#failing.size === 0 && !this.#ended) this.#troubles?.end("place");
  }

  /** Waits before the next try: twice as long each time, up to a bound, never in step with other processes. */
  async #rest(failures: number): Promise<void> {
    const [first, longest] = [FIRST_REST, LONGEST_REST].map(({ ms, beats }) => Math.min(ms, beats * this.#beatMs));
    const ms = Math.min(longest!, first! * 2 ** Math.min(failures - 1, 16));
    const options = { signal: this.#life.signal, ref: false };
    await sleep(ms * (0.5 + Math.random() / 2), undefined, options).catch(() => undefined); // stopped meanwhile
  }
}
