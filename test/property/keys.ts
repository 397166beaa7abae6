/** Generators of keys: text with braces of every kind, code points of every length and lone surrogates; and raw bytes. */
import * as fc from "fast-check";

const piece = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("{", "}", "{}", "{{", "}}", "{a}", "up:", "fc:", ":", "\0", "\r\n") },
  { weight: 3, arbitrary: fc.string({ maxLength: 8 }) },
  { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 4 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0xd800, max: 0xdfff }).map((unit) => String.fromCharCode(unit)) },
);

/** Text that no encoder has tidied: its surrogates need not be paired. */
export const keyText: fc.Arbitrary<string> = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(""));

/** Bytes, mostly not UTF-8, rich in braces; often a view into something larger. */
export const keyBytes: fc.Arbitrary<Uint8Array> = fc
  .record({
    values: fc.array(fc.oneof(fc.constantFrom(0x7b, 0x7d), fc.integer({ min: 0, max: 255 })), { maxLength: 40 }),
    before: fc.integer({ min: 0, max: 9 }),
  })
  .map(({ values, before }) => {
    const whole = new Uint8Array(before + values.length + 3).fill(0x7b);
    whole.set(values, before);
    return whole.subarray(before, before + values.length);
  });

/** A key in either form. */
export const anyKey: fc.Arbitrary<string | Uint8Array> = fc.oneof(keyText, keyBytes);
