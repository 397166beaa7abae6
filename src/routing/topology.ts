/**
 * Slot → node of one domain, in shared memory: every thread of the process reads the same words, so one MOVED seen by one
 * thread corrects all of them.
 *
 * ```text
 * header   [ version | nodes used | refresh stamp | refreshes | lock | … 16 words ]
 * slots    [ node of slot 0 | … of slot 16383 ]            -1: no node known
 * nodes    [ flags | port | primary | host bytes | generation | name bytes | … 16 words ] × 512
 * texts    [ host, 240 bytes | TLS server name, 240 bytes ] × 512
 * ```
 *
 * The invariant: a slot word names a record whose host and port were complete before the word was written. Records change
 * only under the lock word; a record of a node that left the cluster is reused with a new generation, never while a slot
 * word names it. Readers that keep a node's address compare generations.
 */
import { elapsed, processMs } from "../shared/clock.js";

const SLOTS = 16_384;
const MAX_NODES = 512;
const HEADER_WORDS = 16;
const RECORD_WORDS = 16;
const TEXT_BYTES = 240;
const STEAL_MS = 500;

const VERSION = 0;
const USED = 1;
const REFRESH_STAMP = 2;
const REFRESHES = 3;
const LOCK = 4;

const FLAGS = 0;
const PORT = 1;
const PRIMARY = 2;
const HOST_LENGTH = 3;
const GENERATION = 4;
const NAME_LENGTH = 5;

const LIVE = 1;
const REPLICA = 2;

const SLOTS_AT = HEADER_WORDS;
const NODES_AT = SLOTS_AT + SLOTS;
const TEXTS_AT = (NODES_AT + MAX_NODES * RECORD_WORDS) * 4;
const BYTES = TEXTS_AT + MAX_NODES * 2 * TEXT_BYTES;

/** An address as a client must dial it (announced addresses already mapped). */
export interface Address {
  readonly host: string;
  readonly port: number;
  /** The host name that the node announces: its certificate speaks of this, whatever is dialled. */
  readonly serverName?: string | undefined;
}

/** One shard of a cluster's own report. */
export interface ShardView {
  readonly ranges: readonly (readonly [first: number, last: number])[];
  readonly primary: Address | null;
  readonly replicas: readonly Address[];
}

/** A node record, as read at one moment. */
export interface NodeView extends Address {
  readonly index: number;
  readonly generation: number;
  readonly replica: boolean;
  /** Index of a replica's primary, -1 for primaries. */
  readonly primary: number;
}

export class Topology {
  /** The shared memory; hand it to another thread and construct from it. */
  readonly buffer: SharedArrayBuffer;
  /** 16,384 words, slot → node index or -1. Read-only for everybody but this class. */
  readonly slots: Int32Array;
  readonly #words: Int32Array;
  readonly #bytes: Uint8Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(BYTES)) {
    const fresh = new Int32Array(buffer, 0, 1)[0] === 0;
    this.buffer = buffer;
    this.#words = new Int32Array(buffer, 0, TEXTS_AT / 4);
    this.#bytes = new Uint8Array(buffer);
    this.slots = new Int32Array(buffer, SLOTS_AT * 4, SLOTS);
    if (fresh) {
      this.slots.fill(-1);
      Atomics.store(this.#words, VERSION, 1);
    }
  }

  /** Grows by one with every change of a slot or node. */
  get version(): number {
    return Atomics.load(this.#words, VERSION);
  }

  /**
   * Whether the version is another one now. A plain read: for a look at every call, to be followed by one at `version` before
   * anything of the new state is read.
   */
  changedSince(version: number): boolean {
    return this.#words[VERSION] !== version;
  }

  /** Node index of a slot, -1 when unknown. */
  nodeOf(slot: number): number {
    return Atomics.load(this.slots, slot);
  }

  /** All live nodes. O(nodes). */
  nodes(): NodeView[] {
    const used = Atomics.load(this.#words, USED);
    const found: NodeView[] = [];
    for (let index = 0; index < used; index += 1) {
      const view = this.node(index);
      if (view !== null) found.push(view);
    }
    return found;
  }

  /** One node, or null when the record is free. */
  node(index: number): NodeView | null {
    if (index < 0 || index >= MAX_NODES) return null;
    const at = NODES_AT + index * RECORD_WORDS;
    const flags = Atomics.load(this.#words, at + FLAGS);
    if ((flags & LIVE) === 0) return null;
    return {
      index,
      generation: Atomics.load(this.#words, at + GENERATION),
      host: this.#host(index),
      port: Atomics.load(this.#words, at + PORT),
      serverName: this.#text(index, 1, NAME_LENGTH) || undefined,
      replica: (flags & REPLICA) !== 0,
      primary: Atomics.load(this.#words, at + PRIMARY),
    };
  }

  /** Number of slots a node serves. O(16,384). */
  slotCount(index: number): number {
    let count = 0;
    for (let slot = 0; slot < SLOTS; slot += 1) if (this.slots[slot] === index) count += 1;
    return count;
  }

  /** Slots without a node. O(16,384). */
  uncovered(): number {
    return this.slotCount(-1);
  }

  /** Points one slot at an address (what a MOVED says). Returns the node's index, or -1 when the directory is full. */
  assign(slot: number, address: Address): number {
    return this.#locked(() => {
      const index = this.#intern(address);
      if (index >= 0 && this.slots[slot] !== index) {
        const at = NODES_AT + index * RECORD_WORDS;
        Atomics.store(this.#words, at + FLAGS, LIVE);
        Atomics.store(this.#words, at + PRIMARY, -1);
        Atomics.store(this.slots, slot, index);
        Atomics.add(this.#words, VERSION, 1);
      }
      return index;
    });
  }

  /**
   * Gives slots to the node that took over from `lost` (-1: from none): those of `ranges` that are still with it, or with
   * nobody. Returns whether there were any. O(slots).
   */
  inherit(ranges: ShardView["ranges"], lost: number, heir: Address): boolean {
    return this.#locked(() => {
      const index = this.#intern(heir);
      if (index < 0) return false;
      let changed = false;
      for (const [first, last] of ranges) {
        for (let slot = first; slot <= last; slot += 1) {
          const owner = this.slots[slot]!;
          if (owner !== -1 && (owner !== lost || owner === index)) continue;
          Atomics.store(this.slots, slot, index);
          changed = true;
        }
      }
      if (changed) {
        this.#setRole(index, LIVE, -1);
        Atomics.add(this.#words, VERSION, 1);
      }
      return changed;
    });
  }

  /** A record's node has another address now (what Sentinels tell); connections to it are not concerned. */
  rename(index: number, { host, port }: Address): void {
    this.#locked(() => {
      const at = NODES_AT + index * RECORD_WORDS;
      if (this.#host(index) === host && this.#words[at + PORT] === port) return;
      this.#write(index, 0, HOST_LENGTH, Buffer.from(host));
      Atomics.store(this.#words, at + PORT, port);
      Atomics.add(this.#words, VERSION, 1);
    });
  }

  /** Ensures an address has a record without giving it slots (an ASK target, a seed). */
  intern(address: Address): number {
    return this.#locked(() => this.#intern(address));
  }

  /**
   * Replaces the whole map by a cluster's report. Slots outside the report lose their node, and nodes outside it their
   * record. Returns whether anything changed. O(slots + nodes).
   */
  apply(shards: readonly ShardView[]): boolean {
    return this.#locked(() => this.#apply(shards));
  }

  /**
   * Claims the right to refresh now. False when any thread began a refresh less than `minimumMs` ago: its result is coming.
   */
  claimRefresh(minimumMs: number): boolean {
    const now = processMs();
    const last = Atomics.load(this.#words, REFRESH_STAMP);
    if (last !== 0 && elapsed(last, now) < minimumMs) return false;
    if (Atomics.compareExchange(this.#words, REFRESH_STAMP, last, now === 0 ? 1 : now) !== last) return false;
    Atomics.add(this.#words, REFRESHES, 1);
    return true;
  }

  /** Milliseconds until `claimRefresh(minimumMs)` can succeed. */
  refreshDelay(minimumMs: number): number {
    const last = Atomics.load(this.#words, REFRESH_STAMP);
    return last === 0 ? 0 : Math.max(0, minimumMs - elapsed(last, processMs()));
  }

  /** Refreshes begun by all threads of the process. */
  get refreshes(): number {
    return Atomics.load(this.#words, REFRESHES);
  }

  #apply(shards: readonly ShardView[]): boolean {
    const keep = new Set<number>();
    let changed = false;
    const owner = new Int32Array(SLOTS).fill(-1);
    for (const shard of shards) {
      const primary = shard.primary === null ? -1 : this.#intern(shard.primary);
      if (primary >= 0) {
        keep.add(primary);
        changed = this.#setRole(primary, LIVE, -1) || changed;
        for (const [first, last] of shard.ranges) owner.fill(primary, first, last + 1);
      }
      for (const address of shard.replicas) {
        const replica = this.#intern(address);
        if (replica < 0 || keep.has(replica)) continue;
        keep.add(replica);
        changed = this.#setRole(replica, LIVE | REPLICA, primary) || changed;
      }
    }
    for (let slot = 0; slot < SLOTS; slot += 1) {
      if (this.slots[slot] === owner[slot]) continue;
      Atomics.store(this.slots, slot, owner[slot]!);
      changed = true;
    }
    for (let index = 0; index < this.#words[USED]!; index += 1) {
      const at = NODES_AT + index * RECORD_WORDS;
      if (keep.has(index) || this.#words[at + FLAGS] === 0) continue;
      Atomics.store(this.#words, at + FLAGS, 0);
      Atomics.add(this.#words, at + GENERATION, 1);
      changed = true;
    }
    if (changed) Atomics.add(this.#words, VERSION, 1);
    return changed;
  }

  #setRole(index: number, flags: number, primary: number): boolean {
    const at = NODES_AT + index * RECORD_WORDS;
    if (this.#words[at + FLAGS] === flags && this.#words[at + PRIMARY] === primary) return false;
    Atomics.store(this.#words, at + PRIMARY, primary);
    Atomics.store(this.#words, at + FLAGS, flags);
    return true;
  }

  #intern(address: Address): number {
    const index = this.#find(address);
    const { serverName } = address;
    if (index >= 0 && serverName !== undefined && serverName !== this.#text(index, 1, NAME_LENGTH)) {
      this.#write(index, 1, NAME_LENGTH, Buffer.from(serverName));
    }
    return index;
  }

  /** The record of an address, made when there is none. */
  #find({ host, port }: Address): number {
    const words = this.#words;
    const used = words[USED]!;
    let free = used < MAX_NODES ? used : -1;
    for (let index = 0; index < used; index += 1) {
      const at = NODES_AT + index * RECORD_WORDS;
      if (words[at + FLAGS] === 0) free = free === used || free === -1 ? index : free;
      else if (words[at + PORT] === port && this.#host(index) === host) return index;
    }
    const encoded = Buffer.from(host);
    if (free === -1 || encoded.length > TEXT_BYTES) return -1;
    const at = NODES_AT + free * RECORD_WORDS;
    this.#write(free, 0, HOST_LENGTH, encoded);
    Atomics.store(words, at + NAME_LENGTH, 0);
    Atomics.store(words, at + PORT, port);
    Atomics.store(words, at + PRIMARY, -1);
    Atomics.add(words, at + GENERATION, 1);
    Atomics.store(words, at + FLAGS, LIVE);
    if (free === used) Atomics.store(words, USED, used + 1);
    return free;
  }

  #host(index: number): string {
    return this.#text(index, 0, HOST_LENGTH);
  }

  /** Text `which` of a record; the word at `lengthAt` tells its bytes. */
  #text(index: number, which: 0 | 1, lengthAt: number): string {
    const length = this.#words[NODES_AT + index * RECORD_WORDS + lengthAt]!;
    return Buffer.from(this.#bytes.buffer, textAt(index, which), length).toString("utf8");
  }

  #write(index: number, which: 0 | 1, lengthAt: number, text: Uint8Array): void {
    if (text.length > TEXT_BYTES) return;
    this.#bytes.set(text, textAt(index, which));
    Atomics.store(this.#words, NODES_AT + index * RECORD_WORDS + lengthAt, text.length);
  }

  #locked<T>(change: () => T): T {
    // The lock is held for microseconds. A holder still there after STEAL_MS was terminated inside; what it left half
    // written is only a map, and the next refresh writes it whole.
    for (let waited = 0; Atomics.compareExchange(this.#words, LOCK, 0, 1) !== 0 && waited < STEAL_MS; waited += 1) {
      Atomics.wait(this.#words, LOCK, 1, 1);
    }
    try {
      return change();
    } finally {
      Atomics.store(this.#words, LOCK, 0);
      Atomics.notify(this.#words, LOCK, 1);
    }
  }
}

/** Byte offset of a record's host (0) or server name (1). */
function textAt(index: number, which: 0 | 1): number {
  return TEXTS_AT + (index * 2 + which) * TEXT_BYTES;
}
