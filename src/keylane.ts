/**
 * The facade: every public call, handed to the domain of its key (`keylane/calls.ts`), and the events. The invariant: a call
 * that cannot be made rejects with a typed error without touching a connection.
 */
import { EventEmitter } from "node:events";
import type { Domain } from "./cache/domain.js";
import type { LocalCache } from "./cache/local.js";
import type { Caps } from "./caps/caps.js";
import { KeylaneError } from "./errors.js";
import type { HotKeys } from "./hotkeys/hot-keys.js";
import type { Calls } from "./keylane/calls.js";
import type { Impression, ImpressionResult } from "./impressions/types.js";
import { Instance } from "./keylane/instance.js";
import type { InstanceListener } from "./keylane/instance.js";
import { assertKey, badArgument, faultOfAmount, faultOfMs, ownKey, setFlags } from "./lane/arguments.js";
import { numberText } from "./lane/codec.js";
import { SHORT_KEY } from "./lane/limits.js";
import { headOf } from "./lane/op.js";
import { openRaw } from "./lane/raw.js";
import type { RawClient } from "./lane/raw.js";
import { FLAG_SHAPE, INTEGER_SHAPE, STORED_SHAPE, TTL_SHAPE } from "./lane/replies.js";
import type { Script } from "./lane/script.js";
import type { Transaction } from "./lane/transaction.js";
import type { Ledger } from "./ledger/ledger.js";
import { Opcode } from "./native/types.js";
import type { OpenOptions } from "./options.js";
import { NO_DOMAIN } from "./routing/router.js";
import type { Router } from "./routing/router.js";
import { assertHandle } from "./shared/handle.js";
import type { KeylaneHandle, PoolHandle } from "./shared/handle.js";
import type { CallOptions, Key, KeylaneEvents, Reply, Route, SetOptions, Stats, ValueFor } from "./types.js";

/** Keys that `warm` has under way at once. */
const WARM_WIDTH = 512;

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
  /** Hot keys: what is hot now, and what is pinned. */
  readonly hotKeys: HotKeys;
  readonly #instance: Instance;
  readonly #calls: Calls;
  readonly #router: Router;
  readonly #domains: readonly Domain[];
  readonly #local: LocalCache | null;
  readonly #raw = new Map<string, RawClient>();
  #closing: Promise<{ lost: number }> | null = null;
  /** Events from before `open` gave the instance away: nobody could listen yet. */
  #early: (() => void)[] | null = [];

  private constructor(options: OpenOptions, handle: KeylaneHandle | null, pool: PoolHandle | null) {
    super();
    const instance = new Instance(options, handle, pool, this.#listener());
    this.#instance = instance;
    this.#calls = instance.calls;
    this.#router = instance.calls.router;
    this.#domains = instance.calls.domains;
    this.#local = instance.store?.local ?? null;
    this.caps = instance.caps;
    this.hotKeys = instance.hotKeys;
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
    const lanes = new Keylane<Domains>(options, handle, pool);
    try {
      await lanes.#instance.open();
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
   * @throws KeylaneError for `via: "pool"`: `KEYLANE_ERR_ARGUMENT` where this thread opened no pool, `KEYLANE_ERR_CLOSED`
   * after `close`
   */
  handle({ via = "own" }: { readonly via?: "own" | "pool" } = {}): KeylaneHandle {
    return this.#instance.handle(via);
  }

  /** Where a key lives now. @throws KeylaneError `KEYLANE_ERR_ROUTE`, `KEYLANE_ERR_ARGUMENT` */
  route(key: Key): Route {
    assertKey(key);
    const { topology } = this.#calls.domainOf(key).lane;
    const { domain, slot, matched } = this.#router.route(key);
    const node = topology.node(topology.nodeOf(slot));
    return {
      domain: this.#domains[domain]!.name,
      slot,
      node: node === null ? null : `${node.host}:${node.port}`,
      matched,
    };
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
    if (this.#local !== null) {
      // Byte keys are not in there.
      const value = this.#local.get(key as string);
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
    return this.#instance.ledger;
  }

  /**
   * One impression: counted for the caps of its user and booked on an account, or neither, whatever dies meanwhile. The places are
   * reserved, entry and intent are made durable in the ledger's spool, and the answer is given; counting and booking follow
   * until both clusters have them. The same id gets the same answer and is counted and booked once; it belongs to one user,
   * account and amount. Calls of one process that repeat an id share the first call's deadline.
   *
   * @throws (rejects) KeylaneError `KEYLANE_ERR_ARGUMENT`, `KEYLANE_ERR_TOO_LARGE`; `KEYLANE_ERR_OPTIONS` without a ledger of mode
   * `durable`, without a domain for caps, and where `attach` opened; as `ledger.add` and, with a budget, `ledger.charge`; with
   * `caps.onError: "throw"` whatever kept the caps from being decided. The id may be asked again; it is not billed twice.
   */
  impression(request: Impression): Promise<ImpressionResult> {
    try {
      return this.#instance.impressions.ask(request);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** The ioredis client of a domain, with connections of its own; closed with this instance. */
  redis(domain: string): RawClient {
    const named = this.#domains.find(({ name }) => name === domain);
    if (named === undefined) throw badArgument(`there is no domain ${JSON.stringify(domain)}`);
    let raw = this.#raw.get(domain);
    if (raw === undefined) {
      if (this.#closing !== null) throw new KeylaneError("KEYLANE_ERR_CLOSED", "keylane is closed", { domain });
      raw = openRaw(named.lane.config);
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
    return this.#instance.stats();
  }

  /**
   * Refuses new calls, waits until all accepted ones are settled, then disconnects. What is not settled after `timeoutMs`
   * (default: 5,000) fails with `KEYLANE_ERR_CLOSED`; their number is `lost`. Idempotent; never rejects.
   */
  close({ timeoutMs = 5000 }: { readonly timeoutMs?: number } = {}): Promise<{ lost: number }> {
    this.#closing ??= this.#instance.close(timeoutMs).finally(() => this.#disconnectRaw());
    return this.#closing;
  }

  /** Ends everything at once. Calls not settled fail with `KEYLANE_ERR_CLOSED` or `KEYLANE_ERR_CONNECTION_LOST`. */
  destroy(): void {
    this.#closing ??= Promise.resolve({ lost: 0 });
    this.#instance.end();
    this.#disconnectRaw();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close().then(() => undefined);
  }

  #disconnectRaw(): void {
    for (const raw of this.#raw.values()) raw.disconnect();
    this.#raw.clear();
  }

  #listener(): InstanceListener {
    const emit = <Name extends keyof KeylaneEvents>(name: Name, event: KeylaneEvents[Name][0]): void =>
      this.#tell(() => void this.emit(name, ...([event] as never)));
    return {
      nodeUp: (domain, node) => emit("node:up", { domain, node }),
      nodeDown: (domain, node, reason) => emit("node:down", { domain, node, reason }),
      topology: (domain, version) => emit("topology", { domain, version }),
      degraded: (domain, reason) => emit("degraded", { domain, reason }),
      workerExit: (worker, reason) => emit("worker:exit", { worker, reason }),
      hotKeys: {
        hot: (event) => emit("hotkey", event),
        recovered: (event) => emit("hotkey:recovered", event),
      },
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
