/** The bounded list of the hottest keys. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { array, assert as holds, integer, nat, property, tuple } from "fast-check";
import { TopList } from "#dist/hotkeys/server-side/top.js";

interface Item {
  readonly key: Buffer;
  readonly rank: number;
}

test("it holds the highest ranks of all that were offered, each key once", () => {
  const offers = array(tuple(nat(30), nat(1000)), { maxLength: 300 });
  holds(
    property(offers, integer({ min: 1, max: 8 }), (given, limit) => {
      const top = new TopList<Item>(limit, ({ rank }) => rank);
      const best = new Map<number, number>();
      for (const [name, rank] of given) {
        top.offer({ key: Buffer.from([name, 0xff]), rank });
        best.set(name, Math.max(best.get(name) ?? 0, rank));
      }
      const items = top.items();
      const ranks = [...best.values()].toSorted((a, b) => b - a).slice(0, limit);
      assert.deepEqual(
        items.map(({ rank }) => rank),
        ranks,
      );
      for (const { key, rank } of items) assert.equal(best.get(key[0]!), rank);
      assert.equal(new Set(items.map(({ key }) => key[0])).size, items.length);
    }),
  );
});
