/**
 * The facade: routes every call by its key's prefix to the lane of its domain. The invariant: arguments are checked before
 * anything is queued, and a call that cannot be made rejects with a typed error without touching a connection.
 */
import { EventEmitter } from "node:events";
import { KeylaneError } from "./errors.js";
import { assertKey, badArgument, faultOfAmount, faultOfMs, isOptions, ownKey, setFlags } from "./lane/arguments.js";
import { assertShareable, isKnown, plan, planFromInfo, readInfo, wireArgs } from "./lane/commands.js";
import type { CommandInfo, PlannedCommand } from "./lane/commands.js";
import { numberText } from "./lane/codec.js";
import { DomainLane } from "./lane/lane.js";
import type { LaneListener } from "./lane/lane.js";
import { headOf } from "./lane/op.js";
import type { WireArg } from "./lane/op.js";
import { openRaw } from "./lane/raw.js";
import type { RawClient } from "./lane/raw.js";
import { Script } from "./lane/script.js";
import { Transaction } from "./lane/transaction.js";
import {
  BUFFER_SHAPE,
  FLAG_SHAPE,
  INTEGER_SHAPE,
  PAIRS_SHAPE,
  RAW_SHAPE,
  STORED_SHAPE,
  TTL_SHAPE,
} from "./lane/replies.js";
import type { Shape } from "./lane/replies.js";
import { native } from "./native/index.js";
import { KEY_NONE, Opcode } from "./native/types.js";
import { resolveOptions } from "./options.js";
import type { OpenOptions, Resolved } from "./options.js";
import { NO_DOMAIN, Router } from "./routing/router.js";
import { Topology } from "./routing/topology.js";
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
const GETS_AHEAD = headOf(Opcode.GET, 0, true);
const FRAMED: Readonly<Record<string, number>> = {
  get: Opcode.GET,
  set: Opcode.SET,
  del: Opcode.DEL,
  incrby: Opcode.INCRBY,
  expire: Opcode.EXPIRE,
  hget: Opcode.HGET,
  hincrby: Opcode.HINCRBY,
  pexpire: Opcode.PEXPIRE,
  pttl: Opcode.PTTL,
  exists: Opcode.EXISTS,
};

/** An open keylane. `Domains` are the options' domains; with literal prefixes they decide the types of values. */
export class Keylane<Domains = Record<string, object>> extends EventEmitter<KeylaneEvents> {
  readonly #router: Router;
  readonly #lanes: readonly DomainLane[];
  readonly #names: readonly string[];
  readonly #raw = new Map<string, RawClient>();
  readonly #infos = new Map<string, Promise<CommandInfo>>();
  #closing: Promise<{ lost: number }> | null = null;
  /** Events from before `open` gave the instance away: nobody could listen yet. */
  #early: (() => void)[] | null = [];

  private constructor(resolved: Resolved) {
    super();
    this.#router = new Router(resolved.prefixes, resolved.fallback);
    this.#names = resolved.lanes.map((config) => config.domain);
    const listener: LaneListener = {
      nodeUp: (domain, node) => this.#tell(() => void this.emit("node:up", { domain, node })),
      nodeDown: (domain, node, reason) => this.#tell(() => void this.emit("node:down", { domain, node, reason })),
      topology: (domain, version) => this.#tell(() => void this.emit("topology", { domain, version })),
      degraded: (domain, reason) => this.#tell(() => void this.emit("degraded", { domain, reason })),
      error: (error) =>
        this.#tell(() => {
          if (this.listenerCount("error") > 0) this.emit("error", error);
        }),
    };
    this.#lanes = resolved.lanes.map((config) => new DomainLane(config, new Topology(), listener));
  }

  /**
   * Validates the options, contacts every domain's cluster and resolves when all of them can serve.
   *
   * @throws KeylaneError `KEYLANE_ERR_OPTIONS` naming the path of each fault; `KEYLANE_ERR_CONNECT` naming node, domain and
   * reason after `connectTimeoutMs`; `KEYLANE_ERR_AUTH`; `KEYLANE_ERR_NOT_CLUSTER`. Nothing stays open then.
   * Events raised meanwhile are emitted in the turn after it resolves, so listeners added at once hear them.
   */
  static async open<const O extends OpenOptions>(options: O): Promise<Keylane<O["domains"]>> {
    const lanes = new Keylane<O["domains"]>(resolveOptions(options));
    try {
      await Promise.all(lanes.#lanes.map((lane) => lane.open()));
      setImmediate(() => lanes.#tellEarly());
      return lanes;
    } catch (error) {
      lanes.destroy();
      throw error;
    }
  }

  /** Where a key lives now. @throws KeylaneError `KEYLANE_ERR_ROUTE`, `KEYLANE_ERR_ARGUMENT` */
  route(key: Key): Route {
    assertKey(key);
    const { domain, slot, matched } = this.#router.route(key);
    if (domain === NO_DOMAIN) throw unrouted(key);
    const { topology } = this.#lanes[domain]!;
    const node = topology.node(topology.nodeOf(slot));
    return { domain: this.#names[domain]!, slot, node: node === null ? null : `${node.host}:${node.port}`, matched };
  }

  /** The value of a key, decoded by its domain's codec; null when absent. */
  get<const K extends Key>(key: K, options?: CallOptions): Promise<ValueFor<Domains, K> | null> {
    if (options === undefined && typeof key === "string" && key.length <= SHORT_KEY) {
      const domain = this.#router.domain(key);
      if (domain !== NO_DOMAIN) return this.#lanes[domain]!.get(key) as Promise<ValueFor<Domains, K> | null>;
    }
    return this.#keyed(GETS_AHEAD, key, null, null, options) as Promise<ValueFor<Domains, K> | null>;
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
    let args: WireArg[];
    let lane: DomainLane;
    try {
      lane = this.#laneOf(key);
      args = [lane.codec.encode(value), ...setFlags(options)];
    } catch (error) {
      return Promise.reject(error as Error);
    }
    return this.#call(lane, headOf(Opcode.SET, 0, false), ownKey(key), args, STORED_SHAPE, options) as Promise<boolean>;
  }

  /** Removes a key. True when it existed. */
  del(key: Key, options?: CallOptions): Promise<boolean> {
    return this.#keyed(headOf(Opcode.DEL, 0, false), key, null, FLAG_SHAPE, options) as Promise<boolean>;
  }

  /** Whether a key exists. */
  exists(key: Key, options?: CallOptions): Promise<boolean> {
    return this.#keyed(headOf(Opcode.EXISTS, 0, true), key, null, FLAG_SHAPE, options) as Promise<boolean>;
  }

  /** Gives a key `ttlMs` to live (positive safe integer, milliseconds). False when it does not exist. */
  expire(key: Key, ttlMs: number, options?: CallOptions): Promise<boolean> {
    const fault = faultOfMs("ttlMs", ttlMs);
    if (fault !== null) return Promise.reject(fault);
    const head = headOf(Opcode.PEXPIRE, 0, false);
    return this.#keyed(head, key, [String(ttlMs)], FLAG_SHAPE, options) as Promise<boolean>;
  }

  /** Remaining life in milliseconds; `Infinity` when the key never expires, null when it does not exist. */
  ttl(key: Key, options?: CallOptions): Promise<number | null> {
    return this.#keyed(headOf(Opcode.PTTL, 0, true), key, null, TTL_SHAPE, options) as Promise<number | null>;
  }

  /** Adds a 64-bit integer to a key's number and returns the sum: a number, or a bigint past 2^53. */
  incrBy(key: Key, amount: number | bigint = 1, options?: CallOptions): Promise<number | bigint> {
    const fault = faultOfAmount(amount);
    if (fault !== null) return Promise.reject(fault);
    const head = headOf(Opcode.INCRBY, 0, false);
    return this.#keyed(head, key, [numberText(amount)], INTEGER_SHAPE, options) as Promise<number | bigint>;
  }

  /**
   * Any command whose keys share one slot and domain, for example `command("HGETALL", key)`. Lists among the arguments are
   * flattened; a last argument that is a plain object is `CommandOptions`. A blocking command (`BLPOP`, `XREAD … BLOCK`) runs
   * on a connection of its own.
   *
   * @throws (rejects) `KEYLANE_ERR_CROSSSLOT`, `KEYLANE_ERR_COMMAND` for keyless and connection-changing commands
   */
  async command(name: string, ...args: readonly unknown[]): Promise<Reply> {
    const last = args.at(-1);
    const options = isOptions(last) ? last : undefined;
    if (typeof name !== "string" || name === "") throw badArgument("command: the name must be a non-empty string");
    const fault = options?.timeoutMs === undefined ? null : faultOfMs("timeoutMs", options.timeoutMs);
    if (fault !== null) throw fault;
    const lower = name.toLowerCase();
    const wire = wireArgs(lower, options === undefined ? args : args.slice(0, -1));
    const planned = isKnown(lower) ? plan(lower, wire) : await this.#lookUp(lower, wire);
    const { lane, slot } = this.#placeOf(planned);
    if (planned.blocking) return lane.block(lower, wire, slot, options ?? {});
    const [at] = planned.keys as [number];
    const opcode = at === 0 && planned.keys.length === 1 ? FRAMED[lower] : undefined;
    const shape = options?.buffers === true ? BUFFER_SHAPE : lower === "hgetall" ? PAIRS_SHAPE : RAW_SHAPE;
    if (opcode !== undefined) {
      const rest = wire.length === 1 ? null : wire.slice(1);
      return this.#call(lane, headOf(opcode, 0, planned.read), wire[0]!, rest, shape, options) as Promise<Reply>;
    }
    if (lower === "evalsha") {
      return this.#call(
        lane,
        headOf(Opcode.EVALSHA, at, planned.read),
        wire[0]!,
        wire.slice(1),
        shape,
        options,
      ) as Promise<Reply>;
    }
    const head = headOf(Opcode.GENERIC, at + 1, planned.read);
    return this.#call(lane, head, lower.toUpperCase(), wire, shape, options) as Promise<Reply>;
  }

  /** Begins a transaction on the slot of `key`: `multi(key).incrBy(key).get(key).exec()`. */
  multi(key: Key): Transaction {
    const lane = this.#laneOf(key);
    const slot = native.slot(key);
    return new Transaction(ownKey(key), {
      codec: lane.codec,
      valueShape: lane.valueShape,
      check: (name, args) => {
        const planned = plan(name, args);
        const place = this.#placeOf(planned);
        if (planned.blocking) throw new KeylaneError("KEYLANE_ERR_COMMAND", `${name.toUpperCase()} cannot block here`);
        if (place.lane !== lane || place.slot !== slot) throw crossSlot(name.toUpperCase(), lane, slot);
      },
      call: (first, frames, shape, options, block) => {
        const fault = options.timeoutMs === undefined ? null : faultOfMs("timeoutMs", options.timeoutMs);
        if (fault !== null) return Promise.reject(fault);
        return lane.transact(first, frames, shape, block, options);
      },
    });
  }

  /** A Lua script, sent by its digest; nodes that lack it get the source once. */
  script(source: string): Script {
    return new Script(source, async ({ sha, source: text }, keys, args, options) => {
      const wire = wireArgs("evalsha", [sha, keys.length, ...keys, ...args]);
      const { lane } = this.#placeOf(plan("evalsha", wire));
      const head = headOf(Opcode.EVALSHA, 2, false);
      return this.#call(lane, head, sha, wire.slice(1), RAW_SHAPE, options, text) as Promise<Reply>;
    });
  }

  /** The ioredis client of a domain, with connections of its own; closed with this instance. */
  redis(domain: string): RawClient {
    const lane = this.#laneNamed(domain);
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

  /** Counters of this thread. */
  stats(): Stats {
    const domains: Record<string, DomainStats> = {};
    for (const [index, name] of this.#names.entries()) {
      Object.defineProperty(domains, name, { value: this.#lanes[index]!.stats(), enumerable: true });
    }
    return { native: native.kind, domains };
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
    for (const lane of this.#lanes) lane.destroy();
    for (const raw of this.#raw.values()) raw.disconnect();
    this.#raw.clear();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close().then(() => undefined);
  }

  async #close(timeoutMs: number): Promise<{ lost: number }> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    await Promise.race([Promise.all(this.#lanes.map((lane) => lane.drained())), late]);
    clearTimeout(timer);
    let lost = 0;
    for (const lane of this.#lanes) lost += lane.destroy();
    for (const raw of this.#raw.values()) raw.disconnect();
    this.#raw.clear();
    return { lost };
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

  #keyed(
    head: number,
    key: Key,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    try {
      return this.#call(this.#laneOf(key), head, ownKey(key), rest, shape, options);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  #call(
    lane: DomainLane,
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    options: CallOptions | undefined,
    script: string | null = null,
  ): Promise<unknown> {
    const timeoutMs = options?.timeoutMs;
    const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
    if (fault !== null) return Promise.reject(fault);
    return lane.call(head, first, rest, shape, options, script);
  }

  #laneOf(key: Key): DomainLane {
    assertKey(key);
    const domain = this.#router.domain(key);
    if (domain === NO_DOMAIN) throw unrouted(key);
    return this.#lanes[domain]!;
  }

  /** The one lane and slot of a command's keys. */
  #placeOf({ name, args, keys }: PlannedCommand): { lane: DomainLane; slot: number } {
    const command = name.toUpperCase();
    const [first, ...others] = keys.map((at) => args[at]!);
    if (first === undefined) {
      throw new KeylaneError("KEYLANE_ERR_COMMAND", `${command} has no key to route by; use redis(domain) for it`, {
        command,
      });
    }
    const lane = this.#laneOf(first);
    const slot = native.slot(first);
    for (const key of others) {
      if (this.#laneOf(key) !== lane || native.slot(key) !== slot) throw crossSlot(command, lane, slot);
    }
    return { lane, slot };
  }

  #laneNamed(domain: string): DomainLane {
    const index = this.#names.indexOf(domain);
    if (index === -1) throw badArgument(`there is no domain ${JSON.stringify(domain)}`);
    return this.#lanes[index]!;
  }

  /** Asks a server about a command that the table lacks; the answer is kept. */
  async #lookUp(name: string, args: WireArg[]): Promise<PlannedCommand> {
    assertShareable(name);
    const [lane] = this.#lanes as [DomainLane];
    const ask = (parts: readonly WireArg[], shape: Shape): Promise<unknown> =>
      lane.call(headOf(Opcode.GENERIC, KEY_NONE, true), "COMMAND", parts, shape, undefined, undefined);
    let info = this.#infos.get(name);
    if (info === undefined) {
      info = ask(["INFO", name], RAW_SHAPE).then((reply) => readInfo(reply as Reply));
      this.#infos.set(name, info);
      info.catch(() => this.#infos.delete(name));
    }
    const known = await info;
    if (known?.flags.has("movablekeys") !== true) return planFromInfo(name, args, known, []);
    const found = (await ask(["GETKEYS", name, ...args], BUFFER_SHAPE)) as Buffer[];
    const bytes = args.map((arg) => Buffer.from(arg));
    return planFromInfo(
      name,
      args,
      known,
      found.map((key) => bytes.findIndex((arg) => arg.equals(key))),
    );
  }
}

function unrouted(key: Key): KeylaneError {
  const shown = typeof key === "string" ? JSON.stringify(key.slice(0, 64)) : `of ${key.length} bytes`;
  return new KeylaneError(
    "KEYLANE_ERR_ROUTE",
    `no domain's prefix matches the key ${shown}, and the fallback is "reject"`,
  );
}

function crossSlot(command: string, lane: DomainLane, slot: number): KeylaneError {
  const { domain } = lane.config;
  const message = `${command}: the keys are in different slots or domains`;
  return new KeylaneError("KEYLANE_ERR_CROSSSLOT", message, { command, domain, slot });
}
