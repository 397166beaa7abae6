/** Reading what servers answer: every reader takes what is there and ignores what it does not know. */

/** The text of a bulk string. */
export function textOf(value: unknown): string {
  return Buffer.isBuffer(value) ? value.toString() : typeof value === "string" ? value : String(value ?? "");
}

/** A number that is told as an integer or as text; null for anything else. */
export function numberOf(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (typeof value !== "bigint" && typeof value !== "string" && !Buffer.isBuffer(value)) return null;
  const number = Number(textOf(value));
  return Number.isFinite(number) ? number : null;
}

/** Names and values that alternate. A map of RESP3 is the same by the time it is here. */
export function fieldsOf(value: unknown): Map<string, unknown> {
  const fields = new Map<string, unknown>();
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  for (let at = 0; at + 1 < list.length; at += 2) fields.set(textOf(list[at]), list[at + 1]);
  return fields;
}

/** Keys and numbers that alternate, or come in pairs. */
export function countsOf(value: unknown): [key: Buffer, count: number][] {
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  const flat = list.every(Array.isArray) ? (list.flat() as unknown[]) : list;
  const counts: [Buffer, number][] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) {
    const [key, count] = [flat[at], numberOf(flat[at + 1])];
    if (Buffer.isBuffer(key) && count !== null) counts.push([key, count]);
  }
  return counts;
}

/** The lines `name:value` of INFO. */
export function infoOf(value: unknown): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of textOf(value).split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1));
  }
  return fields;
}
