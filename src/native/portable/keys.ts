/**
 * What is computed over a key's bytes: its slot and its hash.
 *
 * Invariant: a string counts as its UTF-8 bytes with each lone surrogate as U+FFFD, and a byte view counts as its own
 * bytes only, so the two forms of one key always agree.
 *
 * ```text
 * user:{42}:likes      tag "42"            first { and the first } behind it, with at least one byte between
 * foo{{bar}}zap        tag "{bar"
 * foo{}{bar}           no tag: the whole key, although a later pair of braces holds something
 * ```
 */
import { xxh3 } from "@node-rs/xxhash";
import keySlot from "cluster-key-slot";

const OPEN = 0x7b;
const CLOSE = 0x7d;

let scratch = Buffer.allocUnsafeSlow(1024);

/**
 * Bytes of a key. For a string it is a view of one scratch buffer, good until the next call.
 * @throws TypeError when the key is neither a string nor a Uint8Array.
 */
export function keyBytes(key: string | Uint8Array): Uint8Array {
  if (typeof key !== "string") {
    if (key instanceof Uint8Array) return key;
    throw new TypeError("key must be a string or a Uint8Array");
  }
  const most = key.length * 3;
  if (most > scratch.length) scratch = Buffer.allocUnsafeSlow(most * 2);
  return scratch.subarray(0, scratch.write(key));
}

/** xxh3-64, seed 0, of a key. */
export function hash64(key: string | Uint8Array): bigint {
  return xxh3.xxh64(keyBytes(key));
}

/**
 * The keys of a batch, in order: `count` of them joined into `text`, key i `lengths[i]` UTF-16 units long.
 * @throws RangeError when the lengths do not add up to the text, or `room` holds fewer keys. Nothing was given out then.
 */
export function splitBatch(text: string, lengths: Int32Array, count: number, room: number): string[] {
  checkCount(count, Math.min(lengths.length, room));
  const keys: string[] = [];
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (lengths[i] < 0) throw new RangeError(`a length is ${lengths[i]}`);
    keys.push(text.slice(at, (at += lengths[i])));
  }
  if (at !== text.length) throw new RangeError(`text has ${text.length} units, its lengths add up to ${at}`);
  return keys;
}

/** @throws RangeError unless `count` is a whole number from 0 to `most`. */
export function checkCount(count: number, most: number, name = "count"): void {
  if (Number.isInteger(count) && count >= 0 && count <= most) return;
  throw new RangeError(`${name} is ${count}, not a whole number from 0 to ${most}`);
}

/** Slot of a key: CRC16/XMODEM of its hash tag, or of all of it, modulo 16,384. */
export function slotOf(key: string | Uint8Array): number {
  const bytes = keyBytes(key);
  const open = bytes.indexOf(OPEN);
  if (open < 0) return crc(bytes);
  const close = bytes.indexOf(CLOSE, open + 1);
  if (close < 0) return crc(bytes);
  if (close > open + 1) return crc(bytes.subarray(open + 1, close));
  return bytes.indexOf(CLOSE, close + 1) < 0 ? crc(bytes) : crcBraced(bytes);
}

/**
 * CRC of bytes that hold no complete tag for cluster-key-slot to find: no `}` behind the first `{`, or only one right
 * behind it.
 */
function crc(bytes: Uint8Array): number {
  return keySlot(bytes as Buffer);
}

/**
 * CRC of a whole key in which cluster-key-slot would see a tag where servers see none (`foo{}{bar}`). A CRC that starts
 * at zero is linear over XOR, so the key is taken apart into itself without its opening braces and those braces alone;
 * neither part can look like a tag.
 */
function crcBraced(bytes: Uint8Array): number {
  const rest = Uint8Array.from(bytes);
  const braces = new Uint8Array(bytes.length);
  for (let at = rest.indexOf(OPEN); at >= 0; at = rest.indexOf(OPEN, at + 1)) {
    rest[at] = 0;
    braces[at] = OPEN;
  }
  return crc(rest) ^ crc(braces);
}
