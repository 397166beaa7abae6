/** Keys on a terminal and in JSON: any bytes, shown so that they harm neither and can be told apart. */
import { isUtf8 } from "node:buffer";

const LONGEST = 64;

/** Printable text: backslashes, control characters and bytes that are no UTF-8 as `\x..`; a long key is cut. */
export function shownKey(key: Buffer): string {
  const text = isUtf8(key) ? key.toString() : key.toString("latin1");
  const encoding = isUtf8(key) ? "utf8" : "latin1";
  const unsafe = encoding === "utf8" ? /[\p{C}\\]/gu : /[^\x20-\x5b\x5d-\x7e]/g;
  const shown = text.replaceAll(unsafe, (one) => escaped(Buffer.from(one, encoding)));
  return shown.length <= LONGEST ? shown : `${shown.slice(0, LONGEST - 1)}…`;
}

/** The key as text, and its bytes in hexadecimal where text cannot hold them. */
export function jsonKey(key: Buffer): { key: string; hex?: string } {
  return isUtf8(key) ? { key: key.toString() } : { key: shownKey(key), hex: key.toString("hex") };
}

function escaped(bytes: Buffer): string {
  return Array.from(bytes, (byte) => String.raw`\x${byte.toString(16).padStart(2, "0")}`).join("");
}
