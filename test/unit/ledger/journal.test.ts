/** The journal of impressions: ids are found by their records, and what is not counted is known. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DENIAL, IMPRESSION } from "#dist/ledger/frame.js";
import { IdIndex, Journal } from "#dist/ledger/journal.js";
import type { Recorded } from "#dist/ledger/journal.js";
import { placeOf } from "#dist/ledger/line.js";
import { crc32 } from "node:zlib";

/** A journal on records in memory. */
function journalOf(): {
  readonly journal: Journal;
  put(segment: number, offset: number, id: string, kind: number): void;
} {
  const records = new Map<number, Recorded>();
  const journal = new Journal(new Map(), (place) => records.get(place)!);
  return {
    journal,
    put: (segment, offset, id, kind) => {
      const entry = { seq: 0, account: "a", id, amount: 1n, at: 0, budget: "" };
      records.set(placeOf(segment, offset), { kind, entry, more: `more of ${id}` });
      journal.put(segment, offset, id, kind, `more of ${id}`);
    },
  };
}

describe("the index of a segment's ids", () => {
  it("finds every id of many, by hash and look, and none that is not there", () => {
    const index = new IdIndex();
    const ids = Array.from({ length: 5000 }, (_, n) => `id ${n}`);
    for (const [n, id] of ids.entries()) index.add(id, 16 + n * 40, n % 3 === 0 ? DENIAL : IMPRESSION);
    for (const [n, id] of ids.entries()) {
      const at = 16 + n * 40;
      assert.equal(
        index.find(crc32(id), (offset) => offset === at),
        at,
      );
    }
    assert.equal(
      index.find(crc32("none"), () => false),
      0,
    );
    const impressions = [...index.impressions()];
    assert.deepEqual(
      impressions,
      ids.flatMap((_, n) => (n % 3 === 0 ? [] : [16 + n * 40])),
    );
  });

  it("looks at all ids of one hash", () => {
    // Two ids of one CRC-32.
    const [one, other] = ["plumless", "buckeroo"];
    assert.equal(crc32(one), crc32(other));
    const { journal, put } = journalOf();
    put(1, 16, one, IMPRESSION);
    assert.equal(journal.find(other), null);
    put(1, 80, other, DENIAL);
    assert.deepEqual([journal.find(one)!.kind, journal.find(other)!.kind], [IMPRESSION, DENIAL]);
  });
});

describe("the journal", () => {
  it("knows which impressions are not counted, and which segments they hold", () => {
    const { journal, put } = journalOf();
    const written: number[] = [];
    journal.written = (place) => written.push(place);
    put(1, 16, "a", IMPRESSION);
    put(1, 80, "b", DENIAL);
    put(2, 16, "c", IMPRESSION);
    assert.deepEqual(written, [placeOf(1, 16), placeOf(2, 16)]);
    assert.deepEqual([journal.uncounted, journal.isOpen(1), journal.count(1)], [2, true, 2]);
    assert.deepEqual(journal.at(placeOf(1, 16)), { id: "a", more: "more of a" });
    journal.settle(placeOf(1, 16));
    journal.settle(placeOf(1, 16));
    assert.deepEqual([journal.uncounted, journal.isOpen(1), journal.isOpen(2)], [1, false, true]);
    assert.equal(journal.at(placeOf(1, 16)), null);
    journal.leave(1);
    assert.equal(journal.find("a"), null);
    assert.equal(journal.find("c")!.more, "more of c");
  });

  it("opens all impressions again, denials never", () => {
    const { journal, put } = journalOf();
    for (let n = 0; n < 200; n += 1) put(1 + (n % 2), 16 + 64 * n, `${n}`, n % 4 === 3 ? DENIAL : IMPRESSION);
    for (const place of journal.reopen()) journal.settle(place);
    assert.equal(journal.uncounted, 0);
    const places = journal.reopen();
    assert.deepEqual([places.length, journal.uncounted, journal.isOpen(1), journal.isOpen(2)], [150, 150, true, true]);
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
    assert.deepEqual(journal.at(places[0]!), { id: "0", more: "more of 0" });
  });

  it("tells when what was open is counted, whatever came later", async () => {
    const { journal, put } = journalOf();
    put(1, 16, "a", IMPRESSION);
    let done = false;
    const counted = journal.counted(new AbortController().signal).then(() => (done = true));
    put(1, 80, "b", IMPRESSION);
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(done, false);
    journal.settle(placeOf(1, 16));
    await counted;
    const ending = new AbortController();
    const left = journal.counted(ending.signal);
    ending.abort();
    await left;
    assert.equal(journal.uncounted, 1);
  });
});
