/**
 * The keys a benchmark reads and the value each must have. Both derive from the key's number alone, so any process can make
 * them and tell a wrong value from a right one. The invariant: all texts are flat one-byte strings of equal length, made
 * before a round begins, and are asked for in memory order, so that a million keys cost the harness no more than a thousand.
 */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

/** What to read; small enough to hand to another process. */
export interface KeySpec {
  /** Distinct keys, 1 – 2^32 − 1; with a trace, the distinct objects in it. */
  readonly count: number;
  /** Prefixes taken in turn, of equal length. */
  readonly prefixes: readonly string[];
  /** Replay the requests of this file instead of reading each key in turn. */
  readonly trace?: string;
}

/** Keys, the values they must have, and the order in which they are read, over and over. */
export interface KeySet {
  readonly keys: readonly string[];
  readonly values: readonly string[];
  readonly order: Uint32Array;
}

/** A value read was not the value written: the run is void. */
export class WrongValue extends Error {
  override readonly name = "WrongValue";

  constructor(key: string, expected: string, actual: unknown) {
    super(`${key} holds ${JSON.stringify(expected)} but ${JSON.stringify(actual)} was read`);
  }
}

/** A sequential string: a concatenation is a rope until something flattens it, which would be charged to the first reader. */
export function flat(text: string): string {
  return Buffer.from(text, "latin1").toString("latin1");
}

/** `n` prefixes of five bytes: `p000:`, `p001:`, … */
export function numberedPrefixes(n: number): string[] {
  return Array.from({ length: n }, (_, i) => `p${String(i).padStart(3, "0")}:`);
}

/** Key number `i`, e.g. `up:user_0000000042`. */
export function keyAt(spec: KeySpec, i: number): string {
  return flat(`${spec.prefixes[i % spec.prefixes.length]}user_${String(i).padStart(10, "0")}`);
}

/** Value of key number `i`: 40 bytes in which neighbouring keys differ at both ends. */
export function valueAt(i: number): string {
  const mixed = (Math.imul(i ^ (i >>> 15), 0x9e3779b1) >>> 0).toString(16).padStart(8, "0");
  return flat(`${mixed}:segment=${String(i % 997).padStart(3, "0")}:${String(i).padStart(10, "0")}:${mixed}`);
}

/** A trace: big-endian 32-bit object numbers, one a request, gzip or plain. */
export function readTrace(file: string): Uint32Array {
  const raw = readFileSync(file);
  const bytes = raw[0] === 0x1f && raw[1] === 0x8b ? gunzipSync(raw) : raw;
  if (bytes.length === 0 || bytes.length % 4 !== 0) throw new Error(`${file} does not hold 32-bit numbers`);
  const objects = new Uint32Array(bytes.length / 4);
  for (let i = 0; i < objects.length; i += 1) objects[i] = bytes.readUInt32BE(i * 4);
  return objects;
}

/** Requests of a trace as key numbers 0 … distinct − 1, by first appearance. */
export function traceOrder(objects: Uint32Array): { order: Uint32Array; distinct: number } {
  const numbers = new Map<number, number>();
  const order = objects.map((object) => {
    const known = numbers.get(object);
    if (known !== undefined) return known;
    numbers.set(object, numbers.size);
    return numbers.size - 1;
  });
  return { order, distinct: numbers.size };
}

/** Distinct objects in a trace file. */
export function traceSize(file: string): number {
  return new Set(readTrace(file)).size;
}

/** Makes the keys and values of `spec`. */
export function makeKeys(spec: KeySpec): KeySet {
  const { count } = spec;
  const keys = Array.from({ length: count }, (_, i) => keyAt(spec, i));
  const values = Array.from({ length: count }, (_, i) => valueAt(i));
  if (spec.trace === undefined) return { keys, values, order: Uint32Array.from({ length: count }, (_, i) => i) };
  const { order, distinct } = traceOrder(readTrace(spec.trace));
  if (distinct !== count) throw new Error(`${spec.trace} holds ${distinct} objects, not ${count}`);
  return { keys, values, order };
}
