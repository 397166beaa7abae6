/**
 * The facade: every public call, handed to the domain of its key (`keylane/calls.ts`), and the life of an instance. The
 * invariant: a call that cannot be made rejects with a typed error without touching a connection, and after `close` or
 * `destroy` nothing of the instance is left.
 */
import { EventEmitter } from "node:events";
import { fileURLToPath } from "node:url";
import { Domain } from "./cache/domain.js";
import type { LocalCache } from "./cache/local.js";
import { CacheStore } from "./cache/store.js";
import { Caps } from "./caps/caps.js";
import { KeylaneError } from "./errors.js";
import { Calls } from "./keylane/calls.js";
import { assertKey, badArgument, faultOfAmount, faultOfMs, ownKey, setFlags } from "./lane/arguments.js";
import { numberText } from "./lane/codec.js";
import type { Lane } from "./lane/contract.js";
import { DomainLane } from "./lane/lane.js";
import { headOf } from "./lane/op.js";
import { openRaw } from "./lane/raw.js";
import type { RawClient } from "./lane/raw.js";
import { FLAG_SHAPE, INTEGER_SHAPE, STORED_SHAPE, TTL_SHAPE } from "./lane/replies.js";
import type { Script } from "./lane/script.js";
import type { Transaction } from "./lane/transaction.js";
import { Ledger } from "./ledger/ledger.js";
import type { LedgerPolicy } from "./ledger/policy.js";
import { native } from "./native/index.js";
import { Opcode } from "./native/types.js";
import { resolveOptions } from "./options.js";
import type { OpenOptions, Resolved } from "./options.js";
import { Board } from "./pool/board.js";
import { PoolClient } from "./pool/client.js";
import { PoolGuest } from "./pool/guest.js";
import { PoolHost } from "./pool/host.js";
import type { PoolListener } from "./pool/host.js";
import { NO_DOMAIN, Router } from "./routing/router.js";
import { Topology } from "./routing/topology.js";
import { HANDLE_VERSION, assertHandle } from "./shared/handle.js";
import type { KeylaneHandle, PoolHandle } from "./shared/handle.js";
import type {
  CallOptions,
  DomainStats,
  Key,
  KeylaneEvents,
  Reply,
  Route,
  SetOptions,
  Stats,
  ValueFor,
} from "./types.js";

/** Keys up to so many UTF-16 units need no look at `maxKeyBytes` (its least value is larger). */
const SHORT_KEY = 4096;
/** Keys that `warm` has under way at once. */
const WARM_WIDTH = 512;
/** How long the workers may take to settle what `close` could not wait for, in milliseconds. */
const STOP_MS = 200;
const WORKER_PROGRAM = fileURLToPath(new URL("./keylane/worker.js", import.meta.url));

const HEAD_SET = headOf(Opcode.SET, 0, false);
const HEAD_DEL = headOf(Opcode.DEL, 0, false);
const HEAD_EXISTS = headOf(Opcode.EXISTS, 0, true);
const HEAD_PEXPIRE = headOf(Opcode.PEXPIRE, 0, false);
const HEAD_PTTL = headOf(Opcode.PTTL, 0, true);
const HEAD_INCRBY = headOf(Opcode.INCRBY, 0, false);

/** An open keylane. `Domains` are the options' domains; with literal prefixes they decide the types of values. */
export class Keylane<Domains = Record<string, object>> extends EventEmitter<KeylaneEvents> {
  /** Frequency caps. */
  readonly caps: Caps;
  readonly #options: OpenOptions;
  readonly #calls: Calls;
  readonly #router: Router;
  readonly #domains: readonly Domain[];
  readonly #names: readonly string[];
  readonly #store: CacheStore | null;
  readonly #local: LocalCache | null;
  readonly #raw = new Map<string, RawClient>();
  #ledger: Ledger | null = null;
  /** The pool where this thread opened one, or its place in another's. */
  readonly #host: PoolHost | null = null;
  readonly #guest: PoolGuest | null = null;
  #closing: Promise<{ lost: number }> | null = null;
  /** Events from before `open` gave the instance away: nobody could listen yet. */
  #early: (() => void)[] | null = [];

  private constructor(options: OpenOptions, resolved: Resolved, handle: KeylaneHandle | null, pool: PoolHandle | null) {
    super();
    this.#options = options;
    this.#names = resolved.lanes.map((config) => config.domain);
    const listener = this.#listener();
    const topologies = resolved.lanes.map((_, index) => new Topology(handle?.topologies[index]));
    const workers = pool?.workers ?? (handle === null ? resolved.threads : 0);
    const board = workers === 0 ? null : new Board(workers, resolved.lanes.length, pool?.board);
    const client = board === null ? null : new PoolClient(resolved.lanes, topologies, workers, board);
    const lanes: readonly Lane[] =
      client?.lanes ?? resolved.lanes.map((config, index) => new DomainLane(config, topologies[index]!, listener));
    this.#store = CacheStore.open(resolved, lanes, handle?.region ?? null, listener);
    this.#local = this.#store?.local ?? null;
    this.#domains = lanes.map((lane, index) => new Domain(lane, this.#store?.caches[index] ?? null));
    this.#router = new Router(resolved.prefixes, resolved.fallback);
    this.#calls = new Calls(this.#router, this.#domains);
    this.caps = new Caps({
      options: resolved.caps,
      domain: this.#domains[resolved.caps.domain] ?? null,
      region: this.#store?.region ?? null,
      domainOf: (key) => this.#calls.domainOf(key),
      prefixOf: (key) => this.#router.route(key).matched,
      degraded: listener.degraded,
    });
    if (client === null || board === null) return;
    const { topologies: maps, region } = this.handle();
    if (pool !== null) this.#guest = new PoolGuest(pool.port, client);
    else {
      const job = { workers, options, topologies: maps, region, board: board.buffer };
      this.#host = new PoolHost(WORKER_PROGRAM, job, client, listener);
    }
  }

  /**
   * Validates the options, contacts every domain's cluster and resolves when all of them can serve.
   *
   * @throws KeylaneError `KEYLANE_ERR_OPTIONS` naming the path of each fault; `KEYLANE_ERR_CONNECT` naming node, domain and
   * reason after `connectTimeoutMs`; `KEYLANE_ERR_AUTH`; `KEYLANE_ERR_NOT_CLUSTER`. Nothing stays open then.
   * Events raised meanwhile are emitted in the turn after it resolves, so listeners added at once hear them.
   */
  static async open<const O extends OpenOptions>(options: O): Promise<Keylane<O["domains"]>> {
    return Keylane.#open<O["domains"]>(options, null, null);
  }

  /**
   * Joins what another thread of this process opened: the same options, slot maps and shared cache. `handle` is what `handle()`
   * gave there. With connections of this thread's own, or, `via: "pool"`, through the workers of the thread that opened; the
   * handle must have been made for that. The cache ends when the thread that opened closes, and so does the way via the pool.
   *
   * @throws KeylaneError as `open`; `KEYLANE_ERR_ARGUMENT` for a handle of another process or version, no handle at all, or one
   * without a pool
   */
  static async attach<Domains = Record<string, object>>(
    handle: KeylaneHandle,
    { via = "own" }: { readonly via?: "own" | "pool" } = {},
  ): Promise<Keylane<Domains>> {
    assertHandle(handle);
    if (via !== "own" && via !== "pool") throw badArgument(`attach: via must be "own" or "pool"`);
    if (via === "own") return Keylane.#open<Domains>(handle.options, handle, null);
    if (handle.pool === null) throw badArgument(`attach: via "pool" needs what handle({ via: "pool" }) gave`);
    return Keylane.#open<Domains>(handle.options, handle, handle.pool);
  }

  static async #open<Domains>(
    options: OpenOptions,
    handle: KeylaneHandle | null,
    pool: PoolHandle | null,
  ): Promise<Keylane<Domains>> {
    const resolved = resolveOptions(options);
    const lanes = new Keylane<Domains>(options, resolved, handle, pool);
    try {
      await lanes.#connect(resolved.lanes[0]!.connectTimeoutMs);
      if (handle === null && resolved.ledger !== null) lanes.#ledger = await lanes.#openLedger(resolved.ledger);
      lanes.#store?.opened();
      setImmediate(() => lanes.#tellEarly());
      return lanes;
    } catch (error) {
      lanes.destroy();
      throw error;
    }
  }

  /**
   * What another thread of this process needs to `attach`: pass it as `workerData` or by `postMessage`. Only shared memory and
   * options, so options that hold functions (`natMap`, callbacks of `tls`) cannot be passed. With `via: "pool"` it serves one
   * thread, holds a port, `handle.pool.port`, which must be in the transfer list, and lets that thread use this one's workers.
   *
   * @throws KeylaneError `KEYLANE_ERR_ARGUMENT` for `via: "pool"` where this thread opened no pool
   */
  handle({ via = "own" }: { readonly via?: "own" | "pool" } = {}): KeylaneHandle {
    if (via === "pool" && this.#host === null) throw badArgument("handle: this thread has opened no pool");
    return {
      keylane: HANDLE_VERSION,
      pid: process.pid,
      options: this.#options,
      topologies: this.#domains.map(({ lane }) => lane.topology.buffer),
      region: this.#store?.handle ?? null,
      pool: via === "pool" ? this.#host!.invite() : null,
    };
  }

  /** Where a key lives now. @throws KeylaneError `KEYLANE_ERR_ROUTE`, `KEYLANE_ERR_ARGUMENT` */
  route(key: Key): Route {
    assertKey(key);
    const { topology } = this.#calls.domainOf(key).lane;
    const { domain, slot, matched } = this.#router.route(key);
    const node = topology.node(topology.nodeOf(slot));
    return { domain: this.#names[domain]!, slot, node: node === null ? null : `${node.host}:${node.port}`, matched };
  }

  /** The value of a key, decoded by its domain's codec; null when absent. */
  get<const K extends Key>(key: K, options?: CallOptions): Promise<ValueFor<Domains, K> | null> {
    if (options === undefined && typeof key === "string" && key.length <= SHORT_KEY) {
      const domain = this.#router.domain(key);
      if (domain !== NO_DOMAIN) return this.#domains[domain]!.get(key) as Promise<ValueFor<Domains, K> | null>;
    }
    return this.#calls.get(key, options) as Promise<ValueFor<Domains, K> | null>;
  }

  /**
   * What the shared cache holds of a key, without waiting: its value, null when the key is known to be absent, undefined when
   * it is not cached. Objects are frozen: they are shared with all callers of the thread.
   *
   * @throws KeylaneError `KEYLANE_ERR_ROUTE`, `KEYLANE_ERR_ARGUMENT`
   */
  peek<const K extends Key>(key: K): ValueFor<Domains, K> | null | undefined {
    if (this.#local !== null && typeof key === "string") {
      const value = this.#local.get(key);
      if (value !== undefined) return value as ValueFor<Domains, K> | null;
    }
    return this.#calls.domainOf(key).cache?.peek(key) as ValueFor<Domains, K> | null | undefined;
  }

  /** Drops a key from the shared cache, in every thread of the process. */
  invalidate(key: Key): void {
    this.#calls.domainOf(key).cache?.invalidate(key);
  }

  /** Drops all keys with a prefix from the shared cache, in every thread of the process. Returns how many. O(cache). */
  invalidatePrefix(prefix: string): number {
    if (typeof prefix !== "string") throw badArgument("invalidatePrefix: the prefix must be a string");
    return this.#domains.reduce((count, { cache }) => count + (cache?.invalidatePrefix(prefix) ?? 0), 0);
  }

  /**
   * Brings keys of cached domains into the shared cache, whatever their domain's mode; 512 are under way at once. Resolves
   * with how many are there afterwards, known-absent ones included. Rejects with the first failure.
   */
  async warm(keys: readonly Key[]): Promise<number> {
    if (!Array.isArray(keys)) throw badArgument("warm: the keys must be an array");
    const caches = keys.map((key: Key) => this.#calls.domainOf(key).cache);
    let warm = 0;
    for (let from = 0; from < keys.length; from += WARM_WIDTH) {
      const part = keys.slice(from, from + WARM_WIDTH);
      const done = await Promise.all(part.map((key: Key, at) => caches[from + at]?.warm(key) ?? false));
      warm += done.filter(Boolean).length;
    }
    return warm;
  }

  /**
   * Values of many keys, of any mix of domains and slots: input order, duplicates kept, null for absent ones. Rejects with
   * the first failure; with `onError: "return"` a failed key's place holds its `KeylaneError` instead.
   */
  getMany<const K extends readonly Key[]>(
    keys: K,
    options?: CallOptions & { readonly onError?: "throw" },
  ): Promise<{ -readonly [I in keyof K]: ValueFor<Domains, K[I]> | null }>;
  getMany<const K extends readonly Key[]>(
    keys: K,
    options: CallOptions & { readonly onError: "return" },
  ): Promise<{ -readonly [I in keyof K]: ValueFor<Domains, K[I]> | null | KeylaneError }>;
  getMany(keys: readonly Key[], options?: CallOptions & { readonly onError?: "throw" | "return" }): Promise<unknown> {
    if (!Array.isArray(keys)) return Promise.reject(badArgument("getMany: the keys must be an array"));
    const call = options?.signal === undefined && options?.timeoutMs === undefined ? undefined : options;
    const reads = keys.map((key: Key) => this.get(key, call));
    if (options?.onError !== "return") return Promise.all(reads);
    return Promise.all(reads.map((read) => read.catch((error: KeylaneError) => error)));
  }

  /** Stores a value. True when stored, false when `ifAbsent` or `ifPresent` was not met. */
  set<const K extends Key>(key: K, value: NoInfer<ValueFor<Domains, K>>, options: SetOptions = {}): Promise<boolean> {
    try {
      const domain = this.#calls.domainOf(key);
      const args = [domain.lane.codec.encode(value), ...setFlags(options)];
      return this.#calls.send(domain, HEAD_SET, ownKey(key), args, STORED_SHAPE, options) as Promise<boolean>;
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** Removes a key. True when it existed. */
  del(key: Key, options?: CallOptions): Promise<boolean> {
    return this.#calls.keyed(HEAD_DEL, key, null, FLAG_SHAPE, options) as Promise<boolean>;
  }

  /** Whether a key exists. */
  exists(key: Key, options?: CallOptions): Promise<boolean> {
    return this.#calls.keyed(HEAD_EXISTS, key, null, FLAG_SHAPE, options) as Promise<boolean>;
  }

  /** Gives a key `ttlMs` to live (positive safe integer, milliseconds). False when it does not exist. */
  expire(key: Key, ttlMs: number, options?: CallOptions): Promise<boolean> {
    const fault = faultOfMs("ttlMs", ttlMs);
    if (fault !== null) return Promise.reject(fault);
    return this.#calls.keyed(HEAD_PEXPIRE, key, [String(ttlMs)], FLAG_SHAPE, options) as Promise<boolean>;
  }

  /** Remaining life in milliseconds; `Infinity` when the key never expires, null when it does not exist. */
  ttl(key: Key, options?: CallOptions): Promise<number | null> {
    return this.#calls.keyed(HEAD_PTTL, key, null, TTL_SHAPE, options) as Promise<number | null>;
  }

  /** Adds a 64-bit integer to a key's number and returns the sum: a number, or a bigint past 2^53. */
  incrBy(key: Key, amount: number | bigint = 1, options?: CallOptions): Promise<number | bigint> {
    const fault = faultOfAmount(amount);
    if (fault !== null) return Promise.reject(fault);
    return this.#calls.keyed(HEAD_INCRBY, key, [numberText(amount)], INTEGER_SHAPE, options) as Promise<
      number | bigint
    >;
  }

  /**
   * Any command whose keys share one slot and domain, for example `command("HGETALL", key)`. Lists among the arguments are
   * flattened; a last argument that is a plain object is `CommandOptions`. A blocking command (`BLPOP`, `XREAD … BLOCK`) runs
   * on a connection of its own.
   *
   * @throws (rejects) `KEYLANE_ERR_CROSSSLOT`, `KEYLANE_ERR_COMMAND` for keyless and connection-changing commands
   */
  command(name: string, ...args: readonly unknown[]): Promise<Reply> {
    return this.#calls.command(name, args);
  }

  /** Begins a transaction on the slot of `key`: `multi(key).incrBy(key).get(key).exec()`. */
  multi(key: Key): Transaction {
    return this.#calls.transaction(key);
  }

  /** A Lua script, sent by its digest; nodes that lack it get the source once. */
  script(source: string): Script {
    return this.#calls.script(source);
  }

  /** Billing. @throws KeylaneError `KEYLANE_ERR_OPTIONS` without the option `ledger`, and where `attach` opened */
  get ledger(): Ledger {
    if (this.#ledger !== null) return this.#ledger;
    const message = "there is no ledger: it needs the option `ledger`, and belongs to the thread that opened";
    throw new KeylaneError("KEYLANE_ERR_OPTIONS", message);
  }

  /** The ioredis client of a domain, with connections of its own; closed with this instance. */
  redis(domain: string): RawClient {
    const index = this.#names.indexOf(domain);
    if (index === -1) throw badArgument(`there is no domain ${JSON.stringify(domain)}`);
    const { lane } = this.#domains[index]!;
    let raw = this.#raw.get(domain);
    if (raw === undefined) {
      if (this.#closing !== null) throw new KeylaneError("KEYLANE_ERR_CLOSED", "keylane is closed", { domain });
      raw = openRaw(lane.config);
      raw.on("error", (error: Error) => {
        if (this.listenerCount("error") === 0) return;
        this.emit("error", new KeylaneError("KEYLANE_ERR_CONNECT", error.message, { domain, cause: error }));
      });
      this.#raw.set(domain, raw);
    }
    return raw;
  }

  /** Counters of this thread, and of the cache that all threads share. O(cache). */
  stats(): Stats {
    const domains: Record<string, DomainStats> = {};
    for (const [index, name] of this.#names.entries()) {
      Object.defineProperty(domains, name, { value: this.#domains[index]!.lane.stats(), enumerable: true });
    }
    return { native: native.kind, cache: this.#store?.stats() ?? null, caps: this.caps.stats(), domains };
  }

  /**
   * Refuses new calls, waits until all accepted ones are settled, then disconnects. What is not settled after `timeoutMs`
   * (default: 5,000) fails with `KEYLANE_ERR_CLOSED`; their number is `lost`. Idempotent; never rejects.
   */
  close({ timeoutMs = 5000 }: { readonly timeoutMs?: number } = {}): Promise<{ lost: number }> {
    this.#closing ??= this.#close(timeoutMs);
    return this.#closing;
  }

  /** Ends everything at once. Calls not settled fail with `KEYLANE_ERR_CLOSED` or `KEYLANE_ERR_CONNECTION_LOST`. */
  destroy(): void {
    this.#closing ??= Promise.resolve({ lost: 0 });
    this.#end();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close().then(() => undefined);
  }

  #connect(timeoutMs: number): Promise<unknown> {
    if (this.#host !== null) return this.#host.open();
    if (this.#guest !== null) return this.#guest.open(timeoutMs);
    return Promise.all(this.#domains.map(({ lane }) => (lane instanceof DomainLane ? lane.open() : undefined)));
  }

  async #close(timeoutMs: number): Promise<{ lost: number }> {
    this.#store?.close();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    // The ledger books over the lanes, so they stay open for it; without one they are closed in this very turn.
    const unbooked = this.#ledger === null ? 0 : await this.#ledger.close(timeoutMs);
    await Promise.race([Promise.all(this.#domains.map(({ lane }) => lane.drained())), late]);
    clearTimeout(timer);
    if (this.#host === null) return { lost: this.#end() + unbooked };
    // Workers know better than this thread what was sent.
    const failed = (): number => this.#domains.reduce((sum, { lane }) => sum + lane.stats().failed, 0);
    const before = failed();
    await this.#host.stop(STOP_MS);
    this.#end();
    return { lost: failed() - before + unbooked };
  }

  /** Gives everything back. Returns how many calls were not settled. */
  #end(): number {
    this.#store?.close();
    this.#ledger?.destroy();
    let lost = 0;
    for (const { lane } of this.#domains) lost += lane.destroy();
    this.#host?.destroy();
    this.#guest?.leave();
    for (const raw of this.#raw.values()) raw.disconnect();
    this.#raw.clear();
    this.#store?.end();
    return lost;
  }

  #openLedger(policy: LedgerPolicy): Promise<Ledger> {
    const { lane } = this.#domains[this.#names.indexOf(policy.domain)]!;
    return Ledger.open(policy, {
      script: (source) => this.#calls.script(source),
      domainOf: (key) => this.#calls.domainOf(key).lane.config.domain,
      upheavals: () => lane.topology.version + lane.reconnects(),
      tell: (error) => this.#tell(() => void (this.listenerCount("error") > 0 && this.emit("error", error))),
    });
  }

  #listener(): PoolListener {
    const emit = <Name extends keyof KeylaneEvents>(name: Name, event: KeylaneEvents[Name][0]): void =>
      this.#tell(() => void this.emit(name, ...([event] as never)));
    return {
      nodeUp: (domain, node) => emit("node:up", { domain, node }),
      nodeDown: (domain, node, reason) => emit("node:down", { domain, node, reason }),
      topology: (domain, version) => emit("topology", { domain, version }),
      degraded: (domain, reason) => emit("degraded", { domain, reason }),
      untracked: (domain, reason) => {
        this.#store?.refused(domain);
        emit("degraded", { domain, reason });
      },
      reached: (domain, node) => this.#store?.caches[domain]?.reached(node),
      workerExit: (worker, reason) => emit("worker:exit", { worker, reason }),
      error: (error) =>
        this.#tell(() => {
          if (this.listenerCount("error") > 0) this.emit("error", error);
        }),
    };
  }

  #tell(event: () => void): void {
    if (this.#early === null) event();
    else this.#early.push(event);
  }

  #tellEarly(): void {
    const early = this.#early!;
    this.#early = null;
    for (const event of early) event();
  }
}
