/** The table of loads under way, against a list of them. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FlightTable } from "#dist/cache/flight-table.js";

class Fly {
  readonly hash: number;
  next: Fly | null = null;

  constructor(hash: number) {
    this.hash = hash;
  }
}

/** Those of a hash, youngest first. */
function found(table: FlightTable<Fly>, hash: number): Fly[] {
  const all: Fly[] = [];
  for (let fly = table.first(hash); fly !== null; fly = fly.next) if (fly.hash === hash) all.push(fly);
  return all;
}

describe("flights by their hashes", () => {
  test("the youngest of a hash comes first, also after the table has grown", () => {
    const table = new FlightTable<Fly>();
    const flies = Array.from({ length: 5000 }, (_, i) => new Fly((i % 1250) * 0x0101_0101));
    for (const fly of flies) table.add(fly);
    for (let i = 0; i < 1250; i += 1) {
      const same = [3, 2, 1, 0].map((turn) => flies[turn * 1250 + i]!);
      assert.deepEqual(found(table, same[0]!.hash), same);
    }
  });

  test("one that is removed is found no more and refers to no other", () => {
    const table = new FlightTable<Fly>();
    const flies = Array.from({ length: 3000 }, (_, i) => new Fly(i & 7));
    for (const fly of flies) table.add(fly);
    const left = new Set(flies);
    // From the middle, the front and the back of a chain.
    for (const fly of [...flies.slice(1000, 1100), ...flies.slice(2900), ...flies.slice(0, 50)]) {
      table.remove(fly);
      left.delete(fly);
      assert.equal(fly.next, null);
    }
    for (let hash = 0; hash < 8; hash += 1) {
      assert.deepEqual(found(table, hash), [...left].filter((fly) => fly.hash === hash).toReversed());
    }
  });

  test("negative hashes have a place", () => {
    const table = new FlightTable<Fly>();
    const fly = new Fly(-0x8000_0000);
    table.add(fly);
    assert.equal(table.first(-0x8000_0000), fly);
    table.remove(fly);
    assert.equal(table.first(-0x8000_0000), null);
  });
});
