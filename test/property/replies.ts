/**
 * Reply trees for tests of the scanner: a generator, an encoder to RESP, and the rows that a scanner must make of them,
 * worked out from the tree and not from its bytes.
 */
import * as fc from "fast-check";

import { KIND_HIGH, Kind } from "#dist/native/types.js";

type Text = "simple" | "error" | "bulk" | "blobError" | "verbatim";
type Many = "array" | "set" | "push" | "map" | "attribute";

export type Reply = (
  | { type: Text; bytes: Uint8Array }
  | { type: "number" | "double" | "bignum"; text: string }
  | { type: "bool"; value: boolean }
  | { type: "null"; form: "_" | "$-1" | "*-1" }
  | { type: "stream"; pieces: Uint8Array[] }
  | { type: Many; children: Reply[]; streamed: boolean }
) & { attribute?: Reply };

const LETTER = {
  simple: "+",
  error: "-",
  bulk: "$",
  blobError: "!",
  verbatim: "=",
  number: ":",
  double: ",",
  bignum: "(",
  array: "*",
  set: "~",
  push: ">",
  map: "%",
  attribute: "|",
} as const;

const KIND = {
  simple: Kind.SIMPLE,
  error: Kind.ERROR,
  bulk: Kind.BULK,
  blobError: Kind.BLOB_ERROR,
  verbatim: Kind.VERBATIM,
  number: Kind.INT,
  double: Kind.DOUBLE,
  bignum: Kind.BIGNUM,
  array: Kind.ARRAY,
  set: Kind.SET,
  push: Kind.PUSH,
  map: Kind.MAP,
  attribute: Kind.ATTRIBUTE,
} as const;

/** A row as a test reads it: texts by their bytes, the rest by their `length` word. */
export type Row = readonly [kind: number, value: string | number];

/** Bytes of a stream of replies, the rows they must give, and where each reply ends. */
export class Stream {
  readonly rows: Row[] = [];
  /** Rows known by the time each reply ends, and the offset behind it. */
  readonly ends: { rows: number; offset: number }[] = [];
  readonly #parts: Uint8Array[] = [];
  #size = 0;

  constructor(replies: readonly Reply[]) {
    for (const reply of replies) {
      this.#reply(reply);
      this.ends.push({ rows: this.rows.length, offset: this.#size });
    }
  }

  bytes(): Uint8Array {
    return Uint8Array.from(Buffer.concat(this.#parts));
  }

  #write(part: string | Uint8Array): void {
    const bytes = typeof part === "string" ? Buffer.from(part, "latin1") : part;
    this.#parts.push(bytes);
    this.#size += bytes.length;
  }

  #text(kind: number, bytes: Uint8Array): void {
    const high = bytes.some((byte) => byte >= 0x80);
    this.rows.push([high ? kind | KIND_HIGH : kind, Buffer.from(bytes).toString("latin1")]);
  }

  #blob(letter: string, kind: number, bytes: Uint8Array, before = ""): void {
    this.#write(`${letter}${bytes.length + before.length}\r\n${before}`);
    this.#write(bytes);
    this.#write("\r\n");
    this.#text(kind, bytes);
  }

  #reply(reply: Reply): void {
    if (reply.attribute !== undefined) this.#reply(reply.attribute);
    switch (reply.type) {
      case "simple":
      case "error":
        this.#write(LETTER[reply.type]);
        this.#write(reply.bytes);
        this.#write("\r\n");
        return this.#text(KIND[reply.type], reply.bytes);
      case "bulk":
      case "blobError":
        return this.#blob(LETTER[reply.type], KIND[reply.type], reply.bytes);
      case "verbatim":
        return this.#blob("=", Kind.VERBATIM, reply.bytes, "txt:");
      case "number": {
        const value = Number(reply.text);
        this.#write(`:${reply.text}\r\n`);
        this.rows.push(value === (value | 0) ? [Kind.INT32, value | 0] : [Kind.INT, reply.text]);
        return;
      }
      case "double":
      case "bignum":
        this.#write(`${LETTER[reply.type]}${reply.text}\r\n`);
        this.rows.push([KIND[reply.type], reply.text]);
        return;
      case "bool":
        this.#write(reply.value ? "#t\r\n" : "#f\r\n");
        this.rows.push([Kind.BOOL, reply.value ? 1 : 0]);
        return;
      case "null":
        this.#write(`${reply.form}\r\n`);
        this.rows.push([Kind.NULL, 0]);
        return;
      case "stream":
        this.#write("$?\r\n");
        this.rows.push([Kind.STREAM, reply.pieces.length]);
        for (const piece of reply.pieces) this.#blob(";", Kind.BULK, piece);
        return this.#write(";0\r\n");
      default:
        return this.#many(reply);
    }
  }

  #many({ type, children, streamed }: { type: Many; children: Reply[]; streamed: boolean }): void {
    const count = type === "map" || type === "attribute" ? children.length / 2 : children.length;
    this.#write(`${LETTER[type]}${streamed ? "?" : count}\r\n`);
    this.rows.push([KIND[type], children.length]);
    for (const child of children) this.#reply(child);
    if (streamed) this.#write(".\r\n");
  }
}

const anyByte = fc.integer({ min: 0, max: 255 });
const lineByte = anyByte.filter((byte) => byte !== 0x0d && byte !== 0x0a);
const asBytes = (values: number[]): Uint8Array => Uint8Array.from(values);
const line = fc.array(lineByte, { maxLength: 20 }).map(asBytes);
const blob = fc.oneof(
  fc.array(anyByte, { maxLength: 20 }).map(asBytes),
  fc.array(fc.integer({ min: 0x20, max: 0x7e }), { maxLength: 40 }).map(asBytes),
  fc.constant(asBytes([0x0d, 0x0a, 0x2b, 0x0d, 0x0a])),
);
const integer = fc.oneof(
  fc.integer().map(String),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  fc.constantFrom("0", "-1", "2147483647", "2147483648", "-2147483648", "-2147483649", "9007199254740993"),
);
const double = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => String(value)),
  fc.constantFrom("inf", "-inf", "nan", "0", "-0", "1.5e300", "10"),
);

const scalar: fc.Arbitrary<Reply> = fc.oneof(
  fc.record({ type: fc.constantFrom("simple" as const, "error" as const), bytes: line }),
  fc.record({ type: fc.constantFrom("bulk" as const, "blobError" as const, "verbatim" as const), bytes: blob }),
  fc.record({ type: fc.constant("number" as const), text: integer }),
  fc.record({ type: fc.constant("double" as const), text: double }),
  fc.record({ type: fc.constant("bignum" as const), text: fc.bigInt().map(String) }),
  fc.record({ type: fc.constant("bool" as const), value: fc.boolean() }),
  fc.record({
    type: fc.constant("null" as const),
    form: fc.constantFrom("_" as const, "$-1" as const, "*-1" as const),
  }),
  fc.record({
    type: fc.constant("stream" as const),
    pieces: fc.array(
      blob.filter((piece) => piece.length > 0),
      { maxLength: 4 },
    ),
  }),
);

const pairs = (children: Reply[]): Reply[] => children.slice(0, children.length & ~1);

/** Any reply that may stand inside another. */
const nested: fc.Arbitrary<Reply> = fc.letrec<{ reply: Reply }>((tie) => {
  const children = fc.array(tie("reply"), { maxLength: 5 });
  const bare = fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    { weight: 5, arbitrary: scalar },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constantFrom("array" as const, "set" as const),
        children,
        streamed: fc.boolean(),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant("map" as const),
        children: children.map(pairs),
        streamed: fc.boolean(),
      }),
    },
  );
  const attribute = fc.record({
    type: fc.constant("attribute" as const),
    children: children.map(pairs),
    streamed: fc.constant(false),
  });
  return {
    reply: fc.oneof(
      { weight: 12, arbitrary: bare },
      {
        weight: 1,
        arbitrary: fc
          .tuple(bare, attribute)
          .map(([reply, attribute]): Reply => Object.assign({}, reply, { attribute })),
      },
    ),
  };
}).reply;

/** Any reply that may stand on its own, pushes included. */
export const anyReply: fc.Arbitrary<Reply> = fc.oneof(
  { weight: 6, arbitrary: nested },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant("push" as const),
      children: fc.array(nested, { minLength: 1, maxLength: 4 }),
      streamed: fc.constant(false),
    }),
  },
);

export const anyReplies: fc.Arbitrary<Reply[]> = fc.array(anyReply, { maxLength: 8 });
