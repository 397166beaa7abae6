/**
 * Where a call goes: the domain of its key, or the one lane and slot of a command's keys. The invariant: arguments are checked
 * before anything is queued, and whatever may write a key runs through its domain's `write`, which keeps the cache coherent.
 */
import { Domain } from "../cache/domain.js";
import { KeylaneError } from "../errors.js";
import { assertKey, badArgument, faultOfMs, isOptions, ownKey } from "../lane/arguments.js";
import { assertShareable, isKnown, plan, planFromInfo, readInfo, wireArgs } from "../lane/commands.js";
import type { CommandInfo, PlannedCommand } from "../lane/commands.js";
import { headOf, isRead } from "../lane/op.js";
import type { WireArg } from "../lane/op.js";
import { BUFFER_SHAPE, PAIRS_SHAPE, RAW_SHAPE } from "../lane/replies.js";
import type { Shape } from "../lane/replies.js";
import { Script } from "../lane/script.js";
import { Transaction } from "../lane/transaction.js";
import { native } from "../native/index.js";
import { KEY_NONE, Opcode } from "../native/types.js";
import { NO_DOMAIN } from "../routing/router.js";
import type { Router } from "../routing/router.js";
import type { CallOptions, Key, Reply } from "../types.js";

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

const NO_OPTIONS: CallOptions = {};

/** The one domain and slot of a command's keys. */
interface Place {
  readonly domain: Domain;
  readonly slot: number;
}

export class Calls {
  readonly router: Router;
  readonly domains: readonly Domain[];
  readonly #infos = new Map<string, Promise<CommandInfo>>();

  constructor(router: Router, domains: readonly Domain[]) {
    this.router = router;
    this.domains = domains;
  }

  /** @throws KeylaneError `KEYLANE_ERR_ROUTE`, `KEYLANE_ERR_ARGUMENT` */
  domainOf(key: Key): Domain {
    assertKey(key);
    const index = this.router.domain(key);
    if (index === NO_DOMAIN) throw unrouted(key);
    return this.domains[index]!;
  }

  /** Reads a key's value. */
  get(key: Key, options: CallOptions = NO_OPTIONS): Promise<unknown> {
    try {
      const domain = this.domainOf(key);
      return refusal(options) ?? domain.getWith(key, options);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** A command of one key, which is its first argument. A null shape reads a value by the domain's codec. */
  keyed(
    head: number,
    key: Key,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    try {
      return this.send(this.domainOf(key), head, ownKey(key), rest, shape, options);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  /** As `keyed`, in a domain that is known; `first` is the key. */
  send(
    domain: Domain,
    head: number,
    first: WireArg,
    rest: readonly WireArg[] | null,
    shape: Shape | null,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    const fault = refusal(options);
    if (fault !== null) return fault;
    if (domain.cache === null || isRead(head)) return domain.lane.call(head, first, rest, shape, options);
    return domain.write([first], () => domain.lane.call(head, first, rest, shape, options));
  }

  /** Any command. Async: what is wrong with it rejects. */
  async command(name: string, args: readonly unknown[]): Promise<Reply> {
    const last = args.at(-1);
    const options = isOptions(last) ? last : undefined;
    if (typeof name !== "string" || name === "") throw badArgument("command: the name must be a non-empty string");
    const fault = refusal(options);
    if (fault !== null) return fault;
    const lower = name.toLowerCase();
    const wire = wireArgs(lower, options === undefined ? args : args.slice(0, -1));
    const planned = isKnown(lower) ? plan(lower, wire) : await this.#lookUp(lower, wire);
    const { domain, slot } = this.#placeOf(planned);
    const shape = options?.buffers === true ? BUFFER_SHAPE : lower === "hgetall" ? PAIRS_SHAPE : RAW_SHAPE;
    const run = (): Promise<Reply> =>
      planned.blocking
        ? domain.lane.block(lower, wire, slot, options ?? NO_OPTIONS)
        : (runPlanned(domain, planned, shape, options) as Promise<Reply>);
    return planned.read ? run() : domain.write(keysOf(planned), run);
  }

  /** A transaction on the slot of `key`. */
  transaction(key: Key): Transaction {
    const domain = this.domainOf(key);
    const { lane } = domain;
    const slot = native.slot(key);
    return new Transaction(ownKey(key), {
      codec: lane.codec,
      valueShape: lane.valueShape,
      check: (name, args) => {
        const planned = plan(name, args);
        const place = this.#placeOf(planned);
        if (planned.blocking) throw new KeylaneError("KEYLANE_ERR_COMMAND", `${name.toUpperCase()} cannot block here`);
        if (place.domain !== domain || place.slot !== slot) throw crossSlot(name.toUpperCase(), domain, slot);
        return planned.read || domain.cache === null ? [] : keysOf(planned);
      },
      call: (first, frames, shape, options, block, written) =>
        refusal(options) ?? domain.write(written, () => domain.lane.transact(first, frames, shape, block, options)),
    });
  }

  /** A script, sent by its digest. */
  script(source: string): Script {
    return new Script(source, async ({ sha, source: text }, keys, args, options) => {
      const wire = wireArgs("evalsha", [sha, keys.length, ...keys, ...args]);
      const planned = plan("evalsha", wire);
      const { domain } = this.#placeOf(planned);
      const fault = refusal(options);
      if (fault !== null) return fault;
      const head = headOf(Opcode.EVALSHA, 2, false);
      return domain.write(
        keysOf(planned),
        () => domain.lane.call(head, sha, wire.slice(1), RAW_SHAPE, options, text) as Promise<Reply>,
      );
    });
  }

  /** The one domain and slot of a command's keys. */
  #placeOf(planned: PlannedCommand): Place {
    const command = planned.name.toUpperCase();
    const [first, ...others] = keysOf(planned);
    if (first === undefined) {
      throw new KeylaneError("KEYLANE_ERR_COMMAND", `${command} has no key to route by; use redis(domain) for it`, {
        command,
      });
    }
    const domain = this.domainOf(first);
    const slot = native.slot(first);
    for (const key of others) {
      if (this.domainOf(key) !== domain || native.slot(key) !== slot) throw crossSlot(command, domain, slot);
    }
    return { domain, slot };
  }

  /** Asks a server about a command that the table lacks; the answer is kept. */
  async #lookUp(name: string, args: WireArg[]): Promise<PlannedCommand> {
    assertShareable(name);
    const [{ lane }] = this.domains as [Domain];
    const ask = (parts: readonly WireArg[], shape: Shape): Promise<unknown> =>
      lane.call(headOf(Opcode.GENERIC, KEY_NONE, true), "COMMAND", parts, shape);
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

/** Sends a command over its lane, with an opcode of its own where it has one. */
function runPlanned(
  { lane }: Domain,
  { name, args, keys, read }: PlannedCommand,
  shape: Shape,
  options: CallOptions | undefined,
): Promise<unknown> {
  const [at] = keys as [number];
  const rest = args.length === 1 ? null : args.slice(1);
  const opcode = at === 0 && keys.length === 1 ? FRAMED[name] : undefined;
  if (opcode !== undefined) return lane.call(headOf(opcode, 0, read), args[0]!, rest, shape, options);
  if (name === "evalsha") return lane.call(headOf(Opcode.EVALSHA, at, read), args[0]!, rest, shape, options);
  return lane.call(headOf(Opcode.GENERIC, at + 1, read), name.toUpperCase(), args, shape, options);
}

function keysOf({ args, keys }: PlannedCommand): WireArg[] {
  return keys.map((at) => args[at]!);
}

/** A rejection that names what is wrong with the options of a call, or null. */
function refusal(options: CallOptions | undefined): Promise<never> | null {
  const timeoutMs = options?.timeoutMs;
  const fault = timeoutMs === undefined ? null : faultOfMs("timeoutMs", timeoutMs);
  return fault === null ? null : Promise.reject(fault);
}

function unrouted(key: Key): KeylaneError {
  const shown = typeof key === "string" ? JSON.stringify(key.slice(0, 64)) : `of ${key.length} bytes`;
  return new KeylaneError(
    "KEYLANE_ERR_ROUTE",
    `no domain's prefix matches the key ${shown}, and the fallback is "reject"`,
  );
}

function crossSlot(command: string, { lane }: Domain, slot: number): KeylaneError {
  const { domain } = lane.config;
  const message = `${command}: the keys are in different slots or domains`;
  return new KeylaneError("KEYLANE_ERR_CROSSSLOT", message, { command, domain, slot });
}
