/**
 * What is known of a command before it is sent: where its keys are, whether it only reads, and whether it may share a
 * connection. Positions come from ioredis's command table; a command that the table lacks is looked up once by COMMAND INFO
 * (and by COMMAND GETKEYS when its keys move), never guessed.
 */
import { exists, getKeyIndexes, hasFlag } from "@ioredis/commands";
import { KeylaneError } from "../errors.js";
import type { Reply } from "../types.js";
import { numberText } from "./codec.js";
import type { WireArg } from "./op.js";

/** A command, ready to be placed. */
export interface PlannedCommand {
  /** Lower case. */
  readonly name: string;
  readonly args: WireArg[];
  /** Positions of the keys in `args`. */
  readonly keys: readonly number[];
  readonly read: boolean;
  /** Blocks its connection. */
  readonly blocking: boolean;
}

/** What COMMAND INFO says of one command; null when the server does not know it either. */
export type CommandInfo = {
  readonly flags: ReadonlySet<string>;
  readonly keys: readonly [number, number, number];
} | null;

/** Commands that change the state of the whole connection, or take it over. */
const EXCLUSIVE = new Set(
  (
    "asking auth client discard exec hello monitor multi psubscribe psync punsubscribe quit readonly readwrite replconf " +
    "reset select ssubscribe subscribe sunsubscribe sync unsubscribe unwatch watch shutdown"
  ).split(" "),
);

/** Commands that say how many keys follow, and where they say it. The table would believe any number. */
const COUNT_AT: ReadonlyMap<string, number> = new Map([
  ..."eval evalsha eval_ro evalsha_ro fcall fcall_ro blmpop bzmpop zunionstore zinterstore zdiffstore"
    .split(" ")
    .map((name) => [name, 1] as const),
  ..."sintercard sdiffcard sunioncard lmpop zmpop zunion zinter zintercard zdiff msetex"
    .split(" ")
    .map((name) => [name, 0] as const),
]);

/** Arguments as they go on the wire; nested lists are flattened. Throws `KEYLANE_ERR_ARGUMENT`. */
export function wireArgs(name: string, args: readonly unknown[]): WireArg[] {
  const flat: WireArg[] = [];
  const add = (arg: unknown): void => {
    if (typeof arg === "string") flat.push(arg);
    else if (typeof arg === "number" || typeof arg === "bigint") flat.push(numberText(arg));
    else if (arg instanceof Uint8Array) flat.push(Buffer.from(arg));
    else if (Array.isArray(arg)) for (const item of arg) add(item);
    else {
      const kind = arg === null ? "null" : typeof arg;
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `${name}: argument ${flat.length + 1} cannot be ${kind}`, {
        command: name.toUpperCase(),
      });
    }
  };
  for (const arg of args) add(arg);
  return flat;
}

/** Whether the table holds the command, so that `plan` can answer without asking a server. */
export function isKnown(name: string): boolean {
  return exists(name);
}

/** Refuses what cannot run on a shared connection. Throws `KEYLANE_ERR_COMMAND`. */
export function assertShareable(name: string): void {
  if (EXCLUSIVE.has(name)) throw refused(name, "changes the state of a connection that others share");
}

/** Finds the keys of a command that the table holds. Throws `KEYLANE_ERR_COMMAND` and `KEYLANE_ERR_ARGUMENT`. */
export function plan(name: string, args: WireArg[]): PlannedCommand {
  assertShareable(name);
  return {
    name,
    args,
    keys: keysOf(name, args),
    read: hasFlag(name, "readonly"),
    blocking: blocks(name, args, hasFlag(name, "blocking")),
  };
}

/** As `plan`, with what the server said of a command that the table lacks. */
export function planFromInfo(
  name: string,
  args: WireArg[],
  info: CommandInfo,
  movable: readonly number[],
): PlannedCommand {
  if (info === null) throw refused(name, "is not known, neither here nor by the server");
  assertShareable(name);
  let keys = movable;
  const [first, last, step] = info.keys;
  if (!info.flags.has("movablekeys") && first > 0) {
    const end = last < 0 ? args.length + last : last - 1;
    keys = Array.from({ length: Math.floor((end - first + 1) / step) + 1 }, (_, i) => first - 1 + i * step);
  }
  return {
    name,
    args,
    keys: keys.filter((at) => at < args.length),
    read: info.flags.has("readonly"),
    blocking: blocks(name, args, info.flags.has("blocking")),
  };
}

/** Reads a COMMAND INFO reply for one command. */
export function readInfo(reply: Reply): CommandInfo {
  const row = Array.isArray(reply) ? reply[0] : null;
  if (!Array.isArray(row)) return null;
  const flags = new Set((Array.isArray(row[2]) ? row[2] : []).map((flag) => String(flag).toLowerCase()));
  return { flags, keys: [Number(row[3]), Number(row[4]), Math.max(1, Number(row[5]))] };
}

function refused(name: string, why: string): KeylaneError {
  const command = name.toUpperCase();
  return new KeylaneError("KEYLANE_ERR_COMMAND", `${command} ${why}; use redis(domain) for it`, { command });
}

function keysOf(name: string, args: readonly WireArg[]): readonly number[] {
  const countAt = COUNT_AT.get(name);
  if (countAt !== undefined) return countedKeys(name, args, countAt);
  if (name === "sort" || name === "sort_ro") return sortKeys(args);
  // The table compares tokens as text; keys may be bytes.
  const words = args.map((arg) => (typeof arg === "string" ? arg : Buffer.from(arg)));
  return getKeyIndexes(name, words).filter((at) => at >= 0 && at < args.length);
}

/** The number of keys must be one, and there must be as many. */
function countedKeys(name: string, args: readonly WireArg[], at: number): number[] {
  const command = name.toUpperCase();
  const told = wordAt(args, at);
  const step = name === "msetex" ? 2 : 1;
  if (!/^\d{1,9}$/.test(told) || Number(told) * step > args.length - at - 1) {
    const message = `${command}: the number of keys does not fit the arguments`;
    throw new KeylaneError("KEYLANE_ERR_ARGUMENT", message, { command });
  }
  const keys = name.endsWith("store") ? [0] : [];
  for (let i = 0; i < Number(told); i += 1) keys.push(at + 1 + i * step);
  return keys;
}

/** SORT's BY and GET patterns are not keys of a slot, though the table counts them; the target of STORE is one. */
function sortKeys(args: readonly WireArg[]): number[] {
  if (args.length === 0) return [];
  let store = -1;
  for (let at = 1; at < args.length; at += 1) {
    const word = wordAt(args, at);
    if (word === "LIMIT") at += 2;
    else if (word === "BY" || word === "GET") at += 1;
    else if (word === "STORE" && at + 1 < args.length) store = at += 1;
  }
  return store === -1 ? [0] : [0, store];
}

/** XREAD and XREADGROUP block only when told to, before the word STREAMS; the names behind it may be anything. */
function blocks(name: string, args: readonly WireArg[], flagged: boolean): boolean {
  if (!flagged || !name.startsWith("xread")) return flagged;
  for (let at = name === "xreadgroup" ? 3 : 0; at < args.length; at += 1) {
    const word = wordAt(args, at);
    if (word === "BLOCK" || word === "STREAMS") return word === "BLOCK";
  }
  return false;
}

/** A short argument in upper case; empty for long ones, which are no word of a command's grammar. */
function wordAt(args: readonly WireArg[], at: number): string {
  const arg = args[at];
  if (arg === undefined || arg.length > 16) return "";
  return (typeof arg === "string" ? arg : Buffer.from(arg).toString("latin1")).toUpperCase();
}
