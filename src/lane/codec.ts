/**
 * How a domain's values become bytes and come back. Decoders read straight from the connection's buffer, which is reused:
 * whatever they return owns its memory. A text that the scan saw to be ASCII is sliced as latin1, which needs no check.
 */
import { Packr, Unpackr } from "msgpackr";
import { KeylaneError } from "../errors.js";
import type { CodecName } from "../types.js";
import type { WireArg } from "./op.js";

declare global {
  /** Methods that every Node.js `Buffer` has and its types leave out. */
  interface Buffer {
    latin1Slice(start: number, end: number): string;
    utf8Slice(start: number, end: number): string;
    utf8Write(text: string, offset: number): number;
  }
}

export interface Codec {
  readonly name: CodecName;
  /** The bytes (or ASCII/UTF-8 text) of a value. Throws `KEYLANE_ERR_ARGUMENT` or `KEYLANE_ERR_CODEC`. */
  encode(value: unknown): WireArg;
  /** The value in `buffer[start, end)`; `high` tells that a byte ≥ 0x80 is in it. */
  decode(buffer: Buffer, start: number, end: number, high: boolean): unknown;
}

const refuse = (codec: CodecName, value: unknown): never => {
  const kind = value === null ? "null" : Number.isNaN(value) ? "NaN" : typeof value;
  throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `a value for the ${codec} codec cannot be ${kind}`);
};

function text(buffer: Buffer, start: number, end: number, high: boolean): string {
  return high ? buffer.utf8Slice(start, end) : buffer.latin1Slice(start, end);
}

/** An integer argument is written digit by digit, never in exponent form. */
export function numberText(value: number | bigint): string {
  if (typeof value === "bigint") return value.toString();
  if (Number.isNaN(value)) throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "an argument cannot be NaN");
  if (value === Infinity) return "inf";
  if (value === -Infinity) return "-inf";
  return Number.isInteger(value) && Math.abs(value) >= 2 ** 53 ? BigInt(value).toString() : String(value);
}

const utf8: Codec = {
  name: "utf8",
  encode(value) {
    if (typeof value === "string") return value;
    if ((typeof value === "number" && !Number.isNaN(value)) || typeof value === "bigint") return numberText(value);
    if (value instanceof Uint8Array) return Buffer.from(value);
    return refuse("utf8", value);
  },
  decode: text,
};

const buffer: Codec = {
  name: "buffer",
  encode(value) {
    if (value instanceof Uint8Array) return Buffer.from(value);
    if (typeof value === "string") return value;
    return refuse("buffer", value);
  },
  decode: (source, start, end) => Buffer.from(source.subarray(start, end)),
};

const json: Codec = {
  name: "json",
  encode(value) {
    if (value === undefined || Number.isNaN(value)) return refuse("json", value);
    let encoded: string | undefined;
    try {
      encoded = JSON.stringify(value);
    } catch (cause) {
      throw new KeylaneError("KEYLANE_ERR_CODEC", `the value is not JSON: ${(cause as Error).message}`, { cause });
    }
    return encoded ?? refuse("json", value);
  },
  decode: (source, start, end, high) => JSON.parse(text(source, start, end, high)),
};

const packr = new Packr({ useRecords: false });
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, copyBuffers: true });
/** msgpackr renames a `__proto__` key; where one occurs, maps are read as `Map` and made objects here. */
const mapUnpackr = new Unpackr({ useRecords: false, mapsAsObjects: false, copyBuffers: true });

const msgpack: Codec = {
  name: "msgpack",
  encode(value) {
    if (value === undefined || Number.isNaN(value)) return refuse("msgpack", value);
    try {
      return packr.pack(value);
    } catch (cause) {
      throw new KeylaneError("KEYLANE_ERR_CODEC", `the value cannot be packed: ${(cause as Error).message}`, { cause });
    }
  },
  decode(source, start, end) {
    const bytes = source.subarray(start, end);
    return bytes.includes("__proto__") ? asObjects(mapUnpackr.unpack(bytes)) : unpackr.unpack(bytes);
  },
};

/** The codec table. */
export const CODECS: Readonly<Record<CodecName, Codec>> = { utf8, buffer, json, msgpack };

/** Sets an own property, whatever its name. */
export function setOwn(target: Record<string, unknown>, name: string, value: unknown): void {
  if (name === "__proto__") {
    Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
  } else target[name] = value;
}

function asObjects(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asObjects);
  if (!(value instanceof Map)) return value;
  const made: Record<string, unknown> = {};
  for (const [name, item] of value) setOwn(made, String(name), asObjects(item));
  return made;
}
