/**
 * A holder's document: JSON of at most 1,000 keys and at most the carrier's bytes, the hottest kept. Clocks are never written
 * into it: that its process is alive is seen by the beat number, which grows with every write.
 *
 * ```text
 * {"keylane":1,"holder":"3f0c…","beat":17,"beatMs":5000,"keys":[{"domain":"up","key":"up:1","level":"warn","rate":6100,"replicas":[]}]}
 * ```
 */
import { z } from "zod";
import type { SharedHotKey } from "./source.js";

/** Keys of one document, and of all others' together. */
export const MAX_KEYS = 1000;
/** A longer document is not looked at. */
export const MAX_DOCUMENT_BYTES = 1 << 20;
/** Replicas of one key. */
const MAX_REPLICAS = 64;

/** A document that was read. */
export interface Document {
  readonly holder: string;
  readonly beat: number;
  readonly beatMs: number;
  readonly keys: readonly SharedHotKey[];
}

const schema = z.object({
  keylane: z.literal(1),
  holder: z.string(),
  beat: z.number().int().positive(),
  beatMs: z.number().int().min(1).max(60_000),
  keys: z
    .array(
      z.object({
        domain: z.string().min(1),
        key: z.string(),
        level: z.enum(["warn", "critical"]),
        rate: z.number().nonnegative(),
        replicas: z.array(z.string()).max(MAX_REPLICAS).default([]),
      }),
    )
    .max(MAX_KEYS),
});

/** True for what can be a holder id; anything else under which a text is found is foreign. */
export function isHolder(text: string): boolean {
  return /^[a-z0-9-]{8,64}$/.test(text);
}

/** The hottest first: level, then rate, then name. */
export function byHeat(a: SharedHotKey, b: SharedHotKey): number {
  if (a.level !== b.level) return a.level === "critical" ? -1 : 1;
  if (a.rate !== b.rate) return b.rate - a.rate;
  return a.domain === b.domain ? order(a.key, b.key) : order(a.domain, b.domain);
}

const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** What a list says apart from rates, whatever its order. */
export function shapeOf(keys: readonly SharedHotKey[]): string {
  const rows = keys.map(({ domain, key, level, replicas }) => JSON.stringify([domain, key, level, replicas]));
  return rows.toSorted().join(",");
}

/** Writes a document; keys that do not fit are left out, the coldest first. */
export function writeDocument({ keys, ...head }: Document, maxBytes: number): string {
  const start = JSON.stringify({ keylane: 1, ...head, keys: [] }).slice(0, -2);
  let left = maxBytes - Buffer.byteLength(start) - 2;
  const parts: string[] = [];
  for (const { domain, key, level, rate, replicas } of keys.toSorted(byHeat)) {
    if (parts.length === MAX_KEYS) break;
    const part = JSON.stringify({
      domain,
      key,
      level,
      rate: Math.round(rate),
      replicas: replicas.slice(0, MAX_REPLICAS),
    });
    left -= Buffer.byteLength(part) + 1;
    if (left < 0) break;
    parts.push(part);
  }
  return `${start}${parts.join(",")}]}`;
}

/** Reads the document found under `holder`. @throws Error that says what is wrong with it, and quotes nothing of it */
export function readDocument(holder: string, text: string): Document {
  if (!isHolder(holder)) throw new Error("it has no name of a holder");
  if (text.length > MAX_DOCUMENT_BYTES) throw new Error(`it is longer than ${MAX_DOCUMENT_BYTES} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("it is not JSON");
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    throw new Error(`it is no document of keylane: ${path.length === 0 ? "" : `${path.join(".")}: `}${message}`);
  }
  if (parsed.data.holder !== holder) throw new Error("it is another holder's document");
  return parsed.data;
}
