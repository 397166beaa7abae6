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
  assertNumkeys(name, args);
  // The table compares tokens as text; keys may be bytes.
  const words = args.map((arg) => (typeof arg === "string" ? arg : Buffer.from(arg)));
  const keys = getKeyIndexes(name, words).filter((at) => at >= 0 && at < args.length);
  return {
    name,
    args,
    keys: sortKeys(name, keys),
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

/** Scripts and functions say how many keys follow: the number must be one, and there must be as many. */
function assertNumkeys(name: string, args: readonly WireArg[]): void {
  if (!/^(eval|evalsha|fcall)(_ro)?$/.test(name)) return;
  const count = Number(String(args[1]));
  if (!Number.isInteger(count) || count < 0 || count > args.length - 2) {
    throw new KeylaneError(
      "KEYLANE_ERR_ARGUMENT",
      `${name.toUpperCase()}: the number of keys does not fit the arguments`,
      {
        command: name.toUpperCase(),
      },
    );
  }
}

/** SORT's BY and GET patterns are not keys of a slot; its table entry counts them. */
function sortKeys(name: string, keys: readonly number[]): readonly number[] {
  return name === "sort" || name === "sort_ro" ? keys.slice(0, 1) : keys;
}

/** XREAD and XREADGROUP block only when told to. */
function blocks(name: string, args: readonly WireArg[], flagged: boolean): boolean {
  return flagged && (!name.startsWith("xread") || hasToken(args, "BLOCK"));
}

function hasToken(args: readonly WireArg[], token: string): boolean {
  return args.some((arg) => typeof arg === "string" && arg.toUpperCase() === token);
}
