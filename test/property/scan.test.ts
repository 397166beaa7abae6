/**
 * Any replies, cut anywhere, moved anywhere, into a table of any size, give the rows of their trees; and any bytes at all
 * make both cores say the same at every step.
 */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as fc from "fast-check";

import { ScanStatus } from "#dist/native/types.js";
import type { ScanLimits } from "#dist/native/types.js";

import { cores, portable, rust } from "../unit/native/cores.js";
import { LIMITS, feed, outcomeOf, readRows } from "./feed.js";
import type { Plan } from "./feed.js";
import { Stream, anyReplies } from "./replies.js";

const RUNS = 1500;

/** Where to cut, as fractions of a stream, and the rest of a plan. */
interface Draft {
  cuts: number[];
  table: number;
  shift: number;
}

const draft: fc.Arbitrary<Draft> = fc.record({
  cuts: fc.array(fc.nat(9999), { maxLength: 12 }),
  table: fc.integer({ min: 0, max: 40 }),
  shift: fc.integer({ min: 0, max: 9 }),
});

const planFor = ({ cuts, table, shift }: Draft, length: number): Plan => ({
  cuts: cuts.map((cut) => Math.floor((cut * length) / 10_000)).toSorted((a, b) => a - b),
  table,
  shift,
});

test("any replies give the rows of their trees, under any plan", () => {
  fc.assert(
    fc.property(anyReplies, draft, (replies, drafted) => {
      const stream = new Stream(replies);
      const bytes = stream.bytes();
      const plan = planFor(drafted, bytes.length);
      const [one, other] = cores.map((core) => feed(core, bytes, plan));
      assert.deepEqual(other, one);
      const outcome = outcomeOf(one);
      assert.deepEqual(readRows(bytes, outcome.rows), stream.rows);
      assert.equal(outcome.replies, replies.length);
      assert.equal(outcome.status, ScanStatus.MORE);
      assert.equal(outcome.consumed, bytes.length);
    }),
    { numRuns: RUNS },
  );
});

test("any replies cut off give all that are complete, and no part of the next", () => {
  fc.assert(
    fc.property(anyReplies, draft, fc.nat(), (replies, drafted, cut) => {
      const stream = new Stream(replies);
      const bytes = stream.bytes().subarray(0, cut % (stream.bytes().length + 1));
      const whole = stream.ends.findLast(({ offset }) => offset <= bytes.length) ?? { rows: 0, offset: 0 };
      for (const core of cores) {
        const outcome = outcomeOf(feed(core, bytes, planFor(drafted, bytes.length)));
        assert.deepEqual(readRows(bytes, outcome.rows), stream.rows.slice(0, whole.rows), core.kind);
        assert.equal(outcome.consumed, whole.offset, core.kind);
        assert.equal(outcome.status, ScanStatus.MORE, core.kind);
      }
    }),
    { numRuns: RUNS },
  );
});

test("any replies give the same however they are cut", () => {
  fc.assert(
    fc.property(anyReplies, (replies) => {
      const bytes = new Stream(replies).bytes();
      for (const core of cores) {
        const whole = outcomeOf(feed(core, bytes, { cuts: [], table: 500, shift: 0 }));
        for (let cut = 0; cut <= bytes.length; cut++) {
          assert.deepEqual(outcomeOf(feed(core, bytes, { cuts: [cut], table: 500, shift: 1 })), whole, core.kind);
        }
        const cuts = Array.from(bytes, (_, at) => at);
        assert.deepEqual(outcomeOf(feed(core, bytes, { cuts, table: 3, shift: 2 })), whole, core.kind);
      }
    }),
    { numRuns: RUNS / 10 },
  );
});

/** Bytes that look like replies more often than chance would have it. */
const garbage: fc.Arbitrary<Uint8Array> = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(..."+-:$*%~>#,(!=|_;.") },
      { weight: 6, arbitrary: fc.constant("\r\n") },
      {
        weight: 6,
        arbitrary: fc.constantFrom("0", "1", "2", "3", "-1", "?", "t", "f", "+1", "00", "-0", "inf", "1e5"),
      },
      {
        weight: 2,
        arbitrary: fc.constantFrom("$1\r\na\r\n", ";0\r\n", ".\r\n", "_\r\n", "=4\r\ntxt:\r\n", "|0\r\n", "*?\r\n"),
      },
      { weight: 1, arbitrary: fc.constantFrom("\r", "\n", "\0", "\xff", " ", "99999999999", "2147483648", "1000000") },
    ),
    { maxLength: 30 },
  )
  .map((pieces) => Uint8Array.from(Buffer.from(pieces.join(""), "latin1")));

/** A stream of replies with some of its bytes changed, removed or put in. */
const damaged: fc.Arbitrary<Uint8Array> = fc
  .tuple(
    anyReplies,
    fc.array(
      fc.record({
        at: fc.nat(9999),
        remove: fc.nat(2),
        insert: fc.constantFrom("", "", "\r", "\n", "$", "*", "1", "?", ":"),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  )
  .map(([replies, edits]) => {
    const values = [...new Stream(replies).bytes()];
    for (const { at, remove, insert } of edits) {
      values.splice(Math.floor((at * values.length) / 10_000), remove, ...Buffer.from(insert));
    }
    return Uint8Array.from(values);
  });

const limits: fc.Arbitrary<ScanLimits> = fc.oneof(
  { weight: 2, arbitrary: fc.constant(LIMITS) },
  {
    weight: 1,
    arbitrary: fc.record({
      maxBulk: fc.integer({ min: 0, max: 12 }),
      maxRows: fc.integer({ min: 1, max: 12 }),
      maxDepth: fc.integer({ min: 1, max: 4 }),
      maxLine: fc.integer({ min: 1, max: 12 }),
    }),
  },
);

test("any bytes make both cores say the same at every step", () => {
  const bytes = fc.oneof(garbage, damaged);
  fc.assert(
    fc.property(bytes, draft, limits, (bytes, drafted, bounds) => {
      const plan = planFor(drafted, bytes.length);
      assert.deepEqual(feed(portable, bytes, plan, bounds), feed(rust, bytes, plan, bounds));
    }),
    { numRuns: RUNS * 4 },
  );
});

test("any bytes come to the same end however they are cut", () => {
  const bytes = fc.oneof(garbage, damaged);
  fc.assert(
    fc.property(bytes, draft, limits, (bytes, drafted, bounds) => {
      const uncut: Plan = { cuts: [], table: 1000, shift: 0 };
      for (const core of cores) {
        const pieces = outcomeOf(feed(core, bytes, planFor(drafted, bytes.length), bounds));
        assert.deepEqual(pieces, outcomeOf(feed(core, bytes, uncut, bounds)), core.kind);
      }
    }),
    { numRuns: RUNS },
  );
});
