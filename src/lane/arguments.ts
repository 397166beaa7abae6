/** Checks of what callers pass: a bad argument gets a typed error that names it, before anything is queued. */
import { KeylaneError } from "../errors.js";
import type { CommandOptions, Key, SetOptions } from "../types.js";
import type { WireArg } from "./op.js";

export function badArgument(message: string, command?: string): KeylaneError {
  return new KeylaneError("KEYLANE_ERR_ARGUMENT", message, { command });
}

/** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function assertKey(key: unknown): asserts key is Key {
  if (typeof key === "string" || key instanceof Uint8Array) return;
  throw badArgument(`a key must be a string or a Uint8Array, not ${key === null ? "null" : typeof key}`);
}

/** A caller may reuse its byte keys at once: they are copied. */
export function ownKey(key: Key): WireArg {
  return typeof key === "string" ? key : Buffer.from(key);
}

/** The fault of a duration, or null: it must be a positive safe integer of milliseconds. */
export function faultOfMs(name: string, value: unknown): KeylaneError | null {
  if (Number.isSafeInteger(value) && (value as number) > 0) return null;
  return badArgument(`${name} must be a positive safe integer, not ${String(value)}`);
}

/** The fault of an increment, or null: a safe integer, or a bigint of 64 bits signed. */
export function faultOfAmount(amount: unknown): KeylaneError | null {
  const whole = typeof amount === "bigint" ? BigInt.asIntN(64, amount) === amount : Number.isSafeInteger(amount);
  if (whole) return null;
  return badArgument(`INCRBY: the amount must be a safe integer or a 64-bit bigint, not ${String(amount)}`, "INCRBY");
}

/** Arguments of SET behind the value. @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function setFlags({ ttlMs, ifAbsent, ifPresent, keepTtl }: SetOptions): string[] {
  const flags: string[] = [];
  if (ttlMs !== undefined) {
    const fault = faultOfMs("ttlMs", ttlMs);
    if (fault !== null) throw fault;
    if (keepTtl === true) throw badArgument("SET: ttlMs and keepTtl exclude each other", "SET");
    flags.push("PX", String(ttlMs));
  }
  if (ifAbsent === true && ifPresent === true) {
    throw badArgument("SET: ifAbsent and ifPresent exclude each other", "SET");
  }
  if (ifAbsent === true) flags.push("NX");
  if (ifPresent === true) flags.push("XX");
  if (keepTtl === true) flags.push("KEEPTTL");
  return flags;
}

/**
 * Whether the last argument of a command is its options: a plain object with no other fields. Any other object is no
 * argument at all, and is refused as one.
 */
export function isOptions(value: unknown): value is CommandOptions {
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Uint8Array) return false;
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  return Object.keys(value).every((name) => name === "signal" || name === "timeoutMs" || name === "buffers");
}
