/** Slots held back: bits, order, fences, delays, deadlines. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { Holds } from "#dist/lane/holds.js";
import type { NodeLane } from "#dist/lane/node.js";
import { Op, SETTLED, headOf } from "#dist/lane/op.js";
import { RAW_SHAPE } from "#dist/lane/replies.js";
import { Opcode } from "#dist/native/types.js";

const op = (name: string, deadline = 1000): Op =>
  new Op(headOf(Opcode.GET, 0, true), name, null, () => {}, RAW_SHAPE, deadline, 0);
const names = (ops: readonly Op[]): unknown[] => ops.map((one) => one.first);
/** A node of which the holds look at nothing but the ring's ends. */
const ring = (head: number, tail: number): { ring: { head: number; tail: number } } & NodeLane =>
  ({ ring: { head, tail } }) as { ring: { head: number; tail: number } } & NodeLane;
/** What may be placed anew. */
const free = (holds: Holds, now: number): readonly Op[] => holds.release(now).free;
/** What is sent alone, to try whether a wait is over. */
const probes = (holds: Holds, now: number): unknown[] => names(holds.release(now).probes.map((probe) => probe.op));
const isHeld = (holds: Holds, slot: number): boolean => (holds.bits[slot >> 5]! & (1 << (slot & 31))) !== 0;

test("a held slot's bit is set while it is held, and no other", () => {
  for (const slot of [0, 31, 32, 63, 5540, 16_383]) {
    const holds = new Holds();
    holds.add(slot, op("a"));
    assert.equal(isHeld(holds, slot), true);
    assert.equal(holds.bits.filter((word) => word !== 0).length, 1);
    assert.equal(holds.size, 1);
    assert.equal(holds.active, true);
    assert.deepEqual(names(free(holds, 0)), ["a"]);
    assert.equal(isHeld(holds, slot), false);
    assert.equal(holds.size, 0);
    assert.equal(holds.active, false);
  }
});

test("what waits leaves in order, slot by slot", () => {
  const holds = new Holds();
  for (const name of ["a", "b", "c"]) holds.add(7, op(name));
  holds.add(8, op("x"));
  holds.add(7, op("d"));
  assert.deepEqual(names(free(holds, 0)), ["a", "b", "c", "d", "x"]);
});

test("a fence opens when everything sent before it is answered, also where ring positions wrap", () => {
  for (const base of [0, 0x7fff_fffe]) {
    const at = (distance: number): number => (base + distance) | 0;
    const holds = new Holds();
    const node = ring(at(0), at(3));
    holds.addFenced(7, op("a"), node);
    node.ring.tail = at(9);
    node.ring.head = at(2);
    assert.deepEqual(free(holds, 0), []);
    node.ring.head = at(3);
    assert.deepEqual(names(free(holds, 0)), ["a"]);
  }
});

test("a delay and a fence must both be over", () => {
  const holds = new Holds();
  const node = ring(0, 1);
  holds.addDelayed(7, op("a"), node, 100);
  assert.deepEqual(free(holds, 200), []);
  node.ring.head = 1;
  assert.deepEqual(probes(holds, 99), []);
  assert.deepEqual(probes(holds, 100), ["a"]);
  holds.addDelayed(8, op("b"), null, 50);
  holds.addDelayed(8, op("c"), null, 20);
  assert.deepEqual(free(holds, 49), []);
  assert.deepEqual(names(free(holds, 50)), ["b", "c"]);
});

test("P1: what comes back refused was sent before what has been waiting, and leaves before it", () => {
  const holds = new Holds();
  const node = ring(0, 2);
  holds.addFenced(7, op("first, refused"), node);
  holds.add(7, op("issued while held"));
  node.ring.head = 1;
  holds.addFenced(7, op("second, refused"), node);
  node.ring.head = 2;
  assert.deepEqual(names(free(holds, 0)), ["first, refused", "second, refused", "issued while held"]);
});

test("expired operations are told once and forgotten; settled ones are not sent", () => {
  const holds = new Holds();
  const [a, b, c] = [op("a", 10), op("b", 30), op("c", 50)] as [Op, Op, Op];
  for (const one of [a, b, c]) holds.addDelayed(7, one, null, 100);
  const told: unknown[] = [];
  const expired = (one: Op): void => {
    told.push(one.first);
    one.state = SETTLED;
  };
  holds.sweep(10, expired);
  holds.sweep(40, expired);
  assert.deepEqual(told, ["a", "b"]);
  assert.equal(holds.size, 1);
  c.state = SETTLED;
  assert.deepEqual(free(holds, 100), []);
  assert.equal(holds.active, false);
});

test("clear gives everything back and holds nothing any more", () => {
  const holds = new Holds();
  holds.addFenced(7, op("a"), ring(0, 5));
  holds.addDelayed(9000, op("b"), null, 1e9);
  assert.deepEqual(names(holds.clear()), ["a", "b"]);
  assert.equal(holds.active, false);
  assert.equal(holds.size, 0);
  assert.ok(holds.bits.every((word) => word === 0));
});

test("a wait that is over is tried by one operation; the others go when it is settled", () => {
  const holds = new Holds();
  const node = ring(0, 2);
  const [a, b, c] = [op("a"), op("b"), op("c")] as [Op, Op, Op];
  holds.addDelayed(7, a, node, 100);
  holds.addDelayed(7, b, node, 100);
  holds.add(7, c);
  node.ring.head = 2;
  assert.deepEqual(holds.release(100), { free: [], probes: [{ slot: 7, op: a }] });
  assert.equal(isHeld(holds, 7), true);
  assert.deepEqual([holds.blocks(7, a), holds.blocks(7, b), holds.blocks(8, b)], [false, true, false]);
  assert.deepEqual(holds.release(1000), { free: [], probes: [] }, "it is under way");
  assert.equal(holds.size, 2);
  holds.addDelayed(7, a, node, 200);
  assert.deepEqual(probes(holds, 199), []);
  assert.deepEqual(probes(holds, 200), ["a"], "refused again, it is still the first");
  holds.add(7, op("d"));
  a.state = SETTLED;
  assert.deepEqual(names(free(holds, 201)), ["b", "c", "d"]);
  assert.deepEqual([holds.active, holds.size, isHeld(holds, 7)], [false, 0, false]);
});

test("when the one that tries gives up, the next one tries, later; settled ones are passed over", () => {
  const holds = new Holds();
  const node = ring(0, 0);
  const [a, b, c] = [op("a"), op("b"), op("c")] as [Op, Op, Op];
  for (const one of [a, b, c]) holds.addDelayed(7, one, node, 100);
  assert.deepEqual(probes(holds, 100), ["a"]);
  holds.giveUp(7, a, 150);
  a.state = SETTLED;
  b.state = SETTLED;
  assert.deepEqual(probes(holds, 149), []);
  assert.deepEqual(probes(holds, 150), ["c"]);
  holds.add(7, c);
  assert.deepEqual(probes(holds, 151), ["c"], "placed on a held slot, it is back");
  c.state = SETTLED;
  assert.deepEqual(holds.release(152), { free: [], probes: [] });
  assert.equal(holds.active, false);
});
