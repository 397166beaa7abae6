/**
 * Operations for tests of the encoder: packing into `scratch` and `desc`, generators, and a plain reference that says which
 * frame each operation must become and where it must go.
 */
import * as fc from "fast-check";

import {
  FLAG_ASKING,
  FLAG_READ,
  HEAD_FLAGS_SHIFT,
  HEAD_KEY_SHIFT,
  KEY_NONE,
  Opcode,
  PLACE_HELD,
  PLACE_KEYLESS,
  PLACE_UNASSIGNED,
  SECTION_WORDS,
} from "#dist/native/types.js";
import type { EncodeTables, NativeCore } from "#dist/native/types.js";

import { keyText } from "./keys.js";

const NAMES = new Map<number, string>(Object.entries(Opcode).map(([name, opcode]) => [opcode, name]));

export interface Operation {
  opcode: number;
  args: (string | Uint8Array)[];
  /** Position of the key among `args`, or KEY_NONE. */
  key: number;
  flags: number;
}

export const op = (opcode: number, args: Operation["args"], key = 0, flags = 0): Operation => ({
  opcode,
  args,
  key,
  flags,
});

/** The two arrays in which operations cross. */
export function pack(operations: Operation[]): { scratch: Uint8Array; desc: Int32Array } {
  const args = operations.flatMap((operation) => operation.args.map((arg) => Buffer.from(arg as string)));
  const desc: number[] = [];
  let next = 0;
  for (const { opcode, flags, key, args: own } of operations) {
    desc.push(opcode | (flags << HEAD_FLAGS_SHIFT) | (key << HEAD_KEY_SHIFT), own.length);
    for (let i = 0; i < own.length; i++) desc.push(args[next++].length);
  }
  return { scratch: Uint8Array.from(Buffer.concat(args)), desc: Int32Array.from(desc) };
}

/** The frame of an operation, `ASKING` included, put together the slow and plain way. */
export function frameOf({ opcode, args, flags }: Operation): Buffer {
  const asking = flags & FLAG_ASKING ? [Buffer.from("*1\r\n$6\r\nASKING\r\n")] : [];
  if (opcode === Opcode.RAW) return Buffer.concat([...asking, Buffer.from(args[1] as string)]);
  const name = opcode === Opcode.GENERIC ? [] : [NAMES.get(opcode)!];
  const words = [...name, ...args].map((word) => Buffer.from(word as string));
  const parts = words.flatMap((word) => [Buffer.from(`$${word.length}\r\n`), word, Buffer.from("\r\n")]);
  return Buffer.concat([...asking, Buffer.from(`*${words.length}\r\n`), ...parts]);
}

/** Where an operation must go under these tables. */
export function placeOf(core: NativeCore, { args, key, flags }: Operation, tables: EncodeTables): number {
  if (key === KEY_NONE) return PLACE_KEYLESS;
  const slot = core.slot(args[key]);
  if ((tables.held[slot >> 5] & (1 << (slot & 31))) !== 0) return PLACE_HELD;
  const node = tables.slots[slot];
  if (node < 0) return PLACE_UNASSIGNED;
  return (flags & FLAG_READ) === 0 ? node : tables.alias[node];
}

export interface Encoded {
  written: number;
  out: Buffer;
  place: number[];
  sections: { node: number; offset: number; bytes: number; ops: number }[];
}

/** One call of `encode`, with `room` bytes of output. */
export function encode(core: NativeCore, operations: Operation[], tables: EncodeTables, room: number): Encoded {
  const { scratch, desc } = pack(operations);
  const out = Buffer.alloc(room, 0xee);
  const place = new Int32Array(operations.length).fill(-99);
  const words = new Int32Array(tables.alias.length * SECTION_WORDS).fill(-99);
  const written = core.encode(scratch, desc, operations.length, tables, out, place, words);
  const sections: Encoded["sections"] = [];
  for (let at = 0, end = 0; end < written; at += SECTION_WORDS) {
    const [node, offset, bytes, ops] = words.subarray(at, at + SECTION_WORDS);
    sections.push({ node, offset, bytes, ops });
    end = offset + bytes;
  }
  return { written, out, place: [...place], sections };
}

/** Tables in which every slot is on the node `slot % nodes`. */
export function evenTables(nodes: number): EncodeTables {
  const slots = new Int32Array(new SharedArrayBuffer(16_384 * 4));
  for (let slot = 0; slot < slots.length; slot++) slots[slot] = slot % nodes;
  return { slots, held: new Int32Array(512), alias: Int32Array.from({ length: nodes }, (_, node) => node) };
}

const argument = fc.oneof(
  { weight: 4, arbitrary: keyText },
  { weight: 3, arbitrary: fc.uint8Array({ maxLength: 12 }) },
  { weight: 1, arbitrary: fc.uint8Array({ minLength: 95, maxLength: 105 }) },
  { weight: 1, arbitrary: fc.integer({ min: 990, max: 1010 }).map((length) => Buffer.alloc(length, "v")) },
);

/** Operations of every opcode, with a key anywhere or none, and any flags. */
export const anyOperation: fc.Arbitrary<Operation> = fc
  .record({
    opcode: fc.constantFrom(...Object.values(Opcode)),
    args: fc.array(argument, { minLength: 2, maxLength: 11 }),
    argc: fc.integer({ min: 1, max: 11 }),
    key: fc.nat(),
    keyless: fc.integer({ min: 0, max: 9 }).map((draw) => draw === 0),
    flags: fc.constantFrom(0, 0, FLAG_READ, FLAG_ASKING, FLAG_READ | FLAG_ASKING),
  })
  .map(({ opcode, args, argc, key, keyless, flags }) => {
    const own = args.slice(0, opcode === Opcode.RAW ? 2 : argc);
    return op(opcode, own, keyless ? KEY_NONE : opcode === Opcode.RAW ? 0 : key % own.length, flags);
  });

/** Tables over a few nodes: ranges of slots with an owner or none, some slots held, replicas that answer reads. */
export const anyTables: fc.Arbitrary<EncodeTables> = fc.integer({ min: 1, max: 6 }).chain((nodes) =>
  fc
    .record({
      owners: fc.array(fc.integer({ min: -2, max: nodes - 1 }), { minLength: 1, maxLength: 40 }),
      held: fc.array(fc.constantFrom(0, 0, 0, -1, 0x8000_0001 | 0, 0x0f0f_0f0f), { minLength: 1, maxLength: 64 }),
      alias: fc.array(fc.integer({ min: 0, max: nodes - 1 }), { minLength: nodes, maxLength: nodes }),
    })
    .map(({ owners, held, alias }) => {
      const tables = evenTables(nodes);
      for (let slot = 0; slot < 16_384; slot++) tables.slots[slot] = owners[slot % owners.length];
      for (let word = 0; word < 512; word++) tables.held[word] = held[word % held.length];
      tables.alias.set(alias);
      const recipe = JSON.stringify({ owners, held, alias });
      return Object.assign(tables, { [fc.toStringMethod]: () => `slots in turns of ${recipe}` });
    }),
);
