/** Any operations under any tables: both cores give the frames, places and sections of a plain reference. */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as fc from "fast-check";

import { FLAG_ASKING, FLAG_READ, FLAG_SAME, KEY_NONE, Opcode } from "#dist/native/types.js";

import { cores, portable, rust } from "../unit/native/cores.js";
import { keyText } from "./keys.js";
import { anyOperation, anyTables, encode, frameOf, pack, placeOf } from "./operations.js";
import type { Operation } from "./operations.js";

const RUNS = 1500;
const operations = fc.array(anyOperation, { maxLength: 25 });

test("any turn of operations is placed, grouped and encoded alike", () => {
  fc.assert(
    fc.property(operations, anyTables, fc.nat(20), (turn, tables, spare) => {
      const places = turn.map((operation) => placeOf(rust, operation, tables));
      const frames = turn.map(frameOf);
      const needed = frames.reduce((sum, frame, i) => (places[i] < 0 ? sum : sum + frame.length), 0);
      const results = cores.map((core) => encode(core, turn, tables, needed + spare));
      assert.deepEqual(results[1], results[0]);
      for (const { written, out, place, sections } of results) {
        assert.equal(written, needed);
        assert.deepEqual(place, places);
        let end = 0;
        for (const { node, offset, bytes, ops } of sections) {
          const own = frames.filter((_, i) => places[i] === node);
          assert.equal(offset, end);
          assert.equal(ops, own.length);
          assert.ok(ops > 0);
          assert.deepEqual(out.subarray(offset, offset + bytes), Buffer.concat(own));
          end = offset + bytes;
        }
        assert.equal(end, written);
        assert.equal(new Set(sections.map(({ node }) => node)).size, sections.length);
        assert.ok(out.subarray(written).every((byte) => byte === 0xee));
      }
    }),
    { numRuns: RUNS },
  );
});

test("any output that is too small is left alone and told its size", () => {
  fc.assert(
    fc.property(operations, anyTables, fc.nat(), (turn, tables, short) => {
      const needed = encode(rust, turn, tables, 1 << 18).written;
      fc.pre(needed > 0);
      const room = needed - 1 - (short % needed);
      const results = cores.map((core) => encode(core, turn, tables, room));
      for (const { written, out, place } of results) {
        assert.equal(written, -needed);
        assert.ok(out.every((byte) => byte === 0xee));
        assert.ok(place.every((word) => word === -99));
      }
    }),
    { numRuns: RUNS / 3 },
  );
});

test("any run to one node keeps its order", () => {
  fc.assert(
    fc.property(operations, fc.nat(20), (turn, spare) => {
      const { scratch, desc } = pack(turn);
      const run = Buffer.concat(turn.map(frameOf));
      for (const core of [rust, portable]) {
        const out = Buffer.alloc(run.length + spare, 0xee);
        assert.equal(core.encodeTo(scratch, desc, turn.length, out), run.length, core.kind);
        assert.deepEqual(out.subarray(0, run.length), run, core.kind);
        assert.ok(out.subarray(run.length).every((byte) => byte === 0xee));
        if (run.length === 0) continue;
        const small = Buffer.alloc(run.length - 1, 0xee);
        assert.equal(core.encodeTo(scratch, desc, turn.length, small), -run.length, core.kind);
        assert.ok(small.every((byte) => byte === 0xee));
      }
    }),
    { numRuns: RUNS },
  );
});

test("any damage to a description is refused by both cores or by neither", () => {
  const word = fc.oneof(fc.integer(), fc.integer({ min: -2, max: 14 }));
  const some = fc.array(anyOperation, { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(some, anyTables, fc.nat(), word, (turn, tables, at, word) => {
      const { scratch, desc } = pack(turn);
      desc[at % desc.length] = word;
      const results = cores.map((core) => {
        const out = Buffer.alloc(1 << 16);
        try {
          const written = core.encodeTo(scratch, desc, turn.length, out);
          return [written, out.toString("latin1", 0, Math.max(0, written))];
        } catch {
          assert.ok(out.every((byte) => byte === 0));
          return "refused";
        }
      });
      assert.deepEqual(results[1], results[0]);
      const placed = cores.map((core) => {
        const place = new Int32Array(turn.length);
        try {
          const out = Buffer.alloc(1 << 16);
          const written = core.encode(scratch, desc, turn.length, tables, out, place, new Int32Array(64));
          return [written, out.toString("latin1", 0, Math.max(0, written)), place];
        } catch {
          return "refused";
        }
      });
      assert.deepEqual(placed[1], placed[0]);
    }),
    { numRuns: RUNS },
  );
});

test("an operation that is the one before with another key is encoded as if it were given in full", () => {
  const turn = fc.array(
    fc.tuple(
      anyOperation.filter(({ opcode, key }) => opcode !== Opcode.RAW && key !== KEY_NONE),
      fc.array(fc.tuple(keyText, fc.constantFrom(0, FLAG_READ, FLAG_ASKING)), { maxLength: 4 }),
    ),
    { maxLength: 5 },
  );
  fc.assert(
    fc.property(turn, anyTables, (groups, tables) => {
      const full: Operation[] = [];
      const short: Operation[] = [];
      for (const [model, others] of groups) {
        full.push(model);
        short.push(model);
        for (const [key, flags] of others) {
          full.push({ ...model, flags, args: model.args.with(model.key, key) });
          short.push({ ...model, flags: flags | FLAG_SAME, args: [key] });
        }
      }
      const run = Buffer.concat(full.map(frameOf));
      const [given, wanted] = [pack(short), pack(full)];
      for (const core of cores) {
        const out = Buffer.alloc(run.length);
        assert.equal(core.encodeTo(given.scratch, given.desc, full.length, out), run.length, core.kind);
        assert.deepEqual(out, run, core.kind);
        const placed = [given, wanted].map(({ scratch, desc }) => {
          const [bytes, place] = [Buffer.alloc(run.length), new Int32Array(full.length)];
          const written = core.encode(scratch, desc, full.length, tables, bytes, place, new Int32Array(64));
          return [written, bytes, place];
        });
        assert.deepEqual(placed[0], placed[1], core.kind);
      }
    }),
    { numRuns: RUNS },
  );
});
