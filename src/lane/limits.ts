/** Size limits of one operation, checked before anything is queued: a server cuts the connection of all on a breach. */
import type { Op, WireArg } from "./op.js";

/** Keys up to so many UTF-16 units need no look at `maxKeyBytes` (its least value is larger). */
export const SHORT_KEY = 4096;
/** Arguments of one command that a server accepts, the name included. */
const MAX_ARGS = 1_048_575;
/** Bytes of one command that a server's query buffer takes (its limit is 1 GiB). */
const MAX_COMMAND_BYTES = 1_000_000_000;
/** UTF-8 bytes a UTF-16 unit can take. */
const EXPANSION = 3;

/** What is too large about an operation, or null. Limits in bytes. O(arguments) only when it could be. */
export function oversize(op: Op, maxKeyBytes: number, maxBulk: number): string | null {
  const { weight } = op;
  const maxKey = Math.min(maxKeyBytes, maxBulk);
  if (op.template !== null && weight * EXPANSION <= maxKey) return null;
  const { key } = op;
  const rest = op.template?.args ?? op.rest;
  if (key !== null && exceeds(key, maxKey)) return `the key is longer than ${maxKey} bytes`;
  if (rest === null) return null;
  if (rest.length >= MAX_ARGS) return `${rest.length + 1} arguments; a server accepts ${MAX_ARGS}`;
  if (weight * EXPANSION <= maxBulk) return null;
  if (rest.some((arg) => exceeds(arg, maxBulk)))
    return `an argument is longer than the ${maxBulk} bytes that are accepted`;
  return weight > MAX_COMMAND_BYTES ? `the command is longer than ${MAX_COMMAND_BYTES} bytes` : null;
}

function exceeds(arg: WireArg, limit: number): boolean {
  if (arg.length > limit) return true;
  return typeof arg === "string" && arg.length * EXPANSION > limit && Buffer.byteLength(arg) > limit;
}
