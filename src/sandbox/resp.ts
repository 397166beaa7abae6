/**
 * RESP as the sandbox reads and writes it, by code of its own. The invariant: bulk strings stay bytes until the caller asks for
 * text.
 */

/** An error reply; `code` is its first word. */
export class ReplyError extends Error {
  override readonly name = "ReplyError";
  readonly code: string;

  constructor(message: string) {
    super(message);
    this.code = message.split(" ", 1)[0] ?? "";
  }
}

/**
 * A reply: simple strings and doubles as text, integers as number (bigint when unsafe), bulk and verbatim strings as Buffer,
 * maps flattened to `[key, value, …]`, sets and pushes as arrays, errors inside aggregates as `ReplyError` values.
 */
export type Reply = string | number | bigint | boolean | null | Buffer | ReplyError | Reply[];

/** Says that an aggregate was opened; never leaves this file. */
const OPENED = Symbol("opened");

interface Frame {
  readonly items: Reply[];
  missing: number;
}

/**
 * Incremental RESP2 and RESP3 parser. Reads replies, and requests too, as these are arrays of bulk strings. Attributes and
 * streamed (`?`) lengths are not supported. It remembers open arrays and the size of a bulk that is under way, so its cost
 * is linear in the bytes however they are cut.
 */
export class ReplyParser {
  #pieces: Uint8Array[] = [];
  #size = 0;
  #needed = 0;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  #push = false;
  readonly #open: Frame[] = [];
  /** True when the last value returned by `next` was an out-of-band push. */
  wasPush = false;

  /** Adds received bytes, which must not change afterwards. */
  feed(chunk: Uint8Array): void {
    this.#pieces.push(chunk);
    this.#size += chunk.length;
  }

  /** The next complete value, or undefined. Throws a plain Error at a byte that is not RESP. */
  next(): Reply | undefined {
    if (!this.#gather()) return undefined;
    for (;;) {
      if (this.#open.length === 0) this.#push = false;
      let value = this.#one();
      if (value === undefined) return undefined;
      for (let frame = this.#open.at(-1); frame !== undefined; frame = this.#open.at(-1)) {
        if (value !== OPENED) {
          frame.items.push(value as Reply);
          frame.missing--;
        }
        if (frame.missing > 0) break;
        value = frame.items;
        this.#open.pop();
      }
      if (this.#open.length > 0) continue;
      this.wasPush = this.#push;
      return value as Reply;
    }
  }

  #gather(): boolean {
    if (this.#pieces.length > 0 && this.#bytes.length - this.#at + this.#size >= this.#needed) {
      this.#bytes = Buffer.concat([this.#bytes.subarray(this.#at), ...this.#pieces]);
      this.#at = 0;
      this.#size = 0;
      this.#needed = 0;
      this.#pieces = [];
    }
    return this.#needed === 0 && this.#at < this.#bytes.length;
  }

  /** A scalar, `OPENED` when an aggregate begins, undefined when bytes are missing. */
  #one(): Reply | typeof OPENED | undefined {
    const start = this.#at;
    const end = this.#bytes.indexOf("\r\n", start, "latin1");
    if (end === -1) return undefined;
    const type = String.fromCharCode(this.#bytes[start]!);
    const line = this.#bytes.toString("utf8", start + 1, end);
    this.#at = end + 2;
    switch (type) {
      case "+":
      case ",":
        return line;
      case "-":
        return new ReplyError(line);
      case ":":
      case "(":
        return Number.isSafeInteger(Number(line)) ? Number(line) : BigInt(line);
      case "#":
        return line === "t";
      case "_":
        return null;
      case "$":
      case "=":
      case "!":
        return this.#bulk(type, Number(line), start);
      case "*":
      case "~":
      case ">":
        return this.#aggregate(type, Number(line));
      case "%":
        return this.#aggregate(type, Number(line) * 2);
      default:
        throw new Error(`byte ${JSON.stringify(type)} does not begin a RESP value`);
    }
  }

  #bulk(type: string, length: number, start: number): Reply | undefined {
    if (length < 0) return null;
    const end = this.#at + length;
    if (end + 2 > this.#bytes.length) {
      this.#needed = end + 2 - start;
      this.#at = start;
      return undefined;
    }
    const bytes = Buffer.from(this.#bytes.subarray(this.#at, end));
    this.#at = end + 2;
    if (type === "!") return new ReplyError(bytes.toString());
    return type === "=" ? bytes.subarray(4) : bytes;
  }

  #aggregate(type: string, length: number): typeof OPENED | null {
    if (this.#open.length === 0) this.#push = type === ">";
    if (length < 0) return null;
    this.#open.push({ items: [], missing: length });
    return OPENED;
  }
}

/** The frame of one command. */
export function encodeCommand(args: readonly (string | number | bigint | Uint8Array)[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`*${args.length}\r\n`)];
  for (const arg of args) {
    const bytes = typeof arg === "object" ? arg : Buffer.from(String(arg));
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n"));
  }
  return Buffer.concat(parts);
}

/** A reply with every Buffer inside turned into UTF-8 text. */
export function toText(reply: Reply): Reply {
  if (Buffer.isBuffer(reply)) return reply.toString();
  return Array.isArray(reply) ? reply.map(toText) : reply;
}

/** `host:port`, with brackets around an IPv6 address. */
export function formatAddress(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The `name:value` lines of INFO and CLUSTER INFO. */
export function parseInfo(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1));
  }
  return fields;
}
