/**
 * A key as a label: printable, at most 128 characters, and still a label of its own. What is cut off lives on as a digest, so that
 * two long keys that begin alike are two series.
 */
import { createHash } from "node:crypto";

/** Most characters of a label. */
export const MAX_LABEL = 128;

const DIGEST = 12;

/** `key` with control characters as `\x..`, and cut to `MAX_LABEL` with a digest of the whole key. */
export function keyLabel(key: string): string {
  // A digest is enough of a key that fills pages: escaping all of it would be in vain.
  const head = key.length > MAX_LABEL ? key.slice(0, MAX_LABEL) : key;
  const shown = head.toWellFormed().replaceAll(/\p{C}/gu, escaped);
  if (shown.length <= MAX_LABEL && head.length === key.length) return shown;
  const digest = createHash("sha1").update(key).digest("hex").slice(0, DIGEST);
  return `${shown.slice(0, MAX_LABEL - DIGEST - 1).toWellFormed()}~${digest}`;
}

function escaped(one: string): string {
  return Array.from(Buffer.from(one), (byte) => String.raw`\x${byte.toString(16).padStart(2, "0")}`).join("");
}
