/**
 * The hot keys as all threads of the process see them: one shared memory that one thread writes and every thread reads. The
 * invariant: a reader sees one published set as a whole, and that a newer one is there costs it one plain read to know.
 *
 * ```text
 * words    [ version | bytes of half 0 | bytes of half 1 | distrusted until, of domains ≡ 0 … 12 (mod 13) ]
 * halves   [ half 0: JSON ] [ half 1: JSON ]      set number v lies in half v mod 2
 * entry    [ key, domain, cached, [ replica, … ], [ its node, … ] ]
 * ```
 * The writer fills the half that is not read and counts the version up. A reader copies its half and then adds 0 to the
 * version: an atomic that writes is ordered behind the copy on every processor, a load alone is not. Unless the version is the
 * one it began with, the copy is made again.
 */
import { later, processMs, remaining } from "./clock.js";

/** A key that all threads treat as hot. */
export interface HotEntry {
  readonly key: string;
  /** Index of its domain in the options. */
  readonly domain: number;
  /** Its misses are loaded through the shared cache also where that holds hot keys only. */
  readonly cached: boolean;
  /** Full names of the keys that hold copies of its value; empty for none. */
  readonly replicas: readonly string[];
  /** Index in the domain's topology of the node that each of them was put on: elsewhere they are not read. */
  readonly homes: readonly number[];
}

/** Most keys in the set. */
export const MAX_HOT_KEYS = 1000;

const HALF_BYTES = 512 << 10;
const WORDS = 16;
const WORDS_BYTES = WORDS * 4;
/** Bytes of the memory. */
export const SET_BYTES = WORDS_BYTES + 2 * HALF_BYTES;
const VERSION = 0;
const LENGTHS = 1;
const DISTRUST = 3;
const DISTRUST_WORDS = WORDS - DISTRUST;

const encoder = new TextEncoder();

export class HotSet {
  readonly buffer: SharedArrayBuffer;
  /** `versions[0]` changes with every set published: one plain read tells whether there is a newer one. */
  readonly versions: Int32Array;
  readonly #words: Int32Array;
  readonly #bytes: Buffer;
  /** Version that `#entries` was read from. */
  #seen = 0;
  #entries: ReadonlyMap<string, HotEntry> = new Map();

  /** A set of its own (1 MiB), or the one that another thread handed over. */
  constructor(buffer = new SharedArrayBuffer(SET_BYTES)) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer, 0, WORDS);
    this.versions = this.#words.subarray(VERSION, VERSION + 1);
    this.#bytes = Buffer.from(buffer, WORDS_BYTES);
  }

  /** Keeps all threads from reading a domain's replicas for `forMs`: one may hold an older value than was acknowledged. */
  distrust(domain: number, forMs: number): void {
    Atomics.store(this.#words, DISTRUST + (domain % DISTRUST_WORDS), later(processMs(), forMs));
  }

  /** Whether replicas of a domain may be read now. */
  trusts(domain: number): boolean {
    const word = DISTRUST + (domain % DISTRUST_WORDS);
    const until = this.#words[word]!;
    if (until === 0) return true;
    if (remaining(until, processMs()) > 0) return false;
    Atomics.compareExchange(this.#words, word, until, 0);
    return true;
  }

  /** Number of keys now. */
  get size(): number {
    return this.#current().size;
  }

  /** The entry of a key, undefined when it is not hot. O(1); O(set) when a newer set was published. */
  find(key: string): HotEntry | undefined {
    if (this.#words[VERSION] !== this.#seen) this.#read();
    return this.#entries.get(key);
  }

  entries(): IterableIterator<HotEntry> {
    return this.#current().values();
  }

  /**
   * Replaces the set; one thread only. Entries come hottest first: after 1,000 of them, or when they fill their 512 KiB, the
   * others are left out. Returns how many are in. O(set).
   */
  publish(entries: Iterable<HotEntry>): number {
    const words = this.#words;
    const version = (words[VERSION]! + 1) | 0;
    const half = version & 1;
    const room = this.#bytes.subarray(half * HALF_BYTES, (half + 1) * HALF_BYTES);
    let length = 0;
    let count = 0;
    for (const { key, domain, cached, replicas, homes } of entries) {
      if (count === MAX_HOT_KEYS) break;
      const text = encoder.encode(
        `${count === 0 ? "[" : ","}${JSON.stringify([key, domain, cached, replicas, homes])}`,
      );
      if (length + text.length >= room.length) break;
      room.set(text, length);
      length += text.length;
      count += 1;
    }
    if (count > 0) room[length++] = CLOSE;
    words[LENGTHS + half] = length;
    Atomics.store(words, VERSION, version);
    return count;
  }

  #current(): ReadonlyMap<string, HotEntry> {
    if (this.#words[VERSION] !== this.#seen) this.#read();
    return this.#entries;
  }

  #read(): void {
    for (;;) {
      const version = Atomics.load(this.#words, VERSION);
      const half = version & 1;
      const length = this.#words[LENGTHS + half]!;
      // A length that is being replaced is at most a wrong copy, which the version tells.
      const copy = Buffer.from(this.#bytes.subarray(half * HALF_BYTES, half * HALF_BYTES + length));
      if (Atomics.add(this.#words, VERSION, 0) !== version) continue;
      this.#seen = version;
      this.#entries = length === 0 ? new Map() : parsed(copy.utf8Slice(0, length));
      return;
    }
  }
}

/** `]` */
const CLOSE = 0x5d;

function parsed(text: string): ReadonlyMap<string, HotEntry> {
  const rows: [string, number, boolean, string[], number[]][] = JSON.parse(text);
  return new Map(rows.map(([key, domain, cached, replicas, homes]) => [key, { key, domain, cached, replicas, homes }]));
}
