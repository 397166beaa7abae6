/** book.lua and lease.lua on a real server against models that are as plain as can be. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { bookKeys } from "#dist/ledger/keys.js";
import { useLanes } from "../../support/lanes.js";
import { bookPlainly, type ModelBook } from "../../support/ledger-model.js";
import { useSingle } from "../../support/fixtures.js";

const sourceOf = (name: string): string =>
  readFileSync(new URL(`ledger/${name}.lua`, import.meta.resolve("keylane")), "utf8");
const SPOOLS = ["00000000000000aa", "00000000000000bb"];
const DAY = 86_400_000;

describe("the scripts of the ledger", () => {
  const single = useSingle();
  const lanes = useLanes(() => ({
    domains: { billing: { prefixes: ["rb:"], nodes: [single.value.address], mode: "single" } },
  }));
  let runs = 0;

  it("book.lua does what the model does, for any order of batches, repeats and gaps", async () => {
    const script = lanes.value.script(sourceOf("book"));
    const amount = fc.oneof(
      fc.bigInt({ min: -1000n, max: 1000n }),
      fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }),
      fc.constantFrom(0n, 999_999_999_999n, -999_999_999_999n, 1_000_000_000_000n, 2n ** 53n + 1n),
    );
    const entry = fc.record({ step: fc.integer({ min: 1, max: 3 }), id: fc.nat({ max: 30 }), amount });
    const batch = fc.record({
      spool: fc.constantFrom(...SPOOLS),
      before: fc.nat({ max: 25 }),
      entries: fc.array(entry, { minLength: 1, maxLength: 6 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { maxLength: 12 }), async (batches) => {
        runs += 1;
        const account = `model${runs}`;
        const model: ModelBook = { balance: 0n, ids: new Set(), seqs: new Map() };
        const sums = new Map<string, bigint>();
        for (const { spool, before, entries } of batches) {
          let seq = before;
          const list = entries.map(({ step, id, amount: value }) => ({
            seq: (seq += step),
            id: `i${id}`,
            amount: value,
          }));
          // The model has no sums of spools, which must not overflow either: such batches are left out.
          const gross = list.reduce(
            (sum, { amount: value }) => sum + (value < 0n ? -value : value),
            sums.get(spool) ?? 0n,
          );
          if (gross >= 2n ** 63n) continue;
          sums.set(spool, gross);
          const args = list.flatMap(({ seq: at, id, amount: value }) => [at, id, String(value)]);
          const reply = await script.run(bookKeys("rb:", account), [spool, before, DAY, 90 * DAY, ...args]);
          assert.deepEqual(reply, bookPlainly(model, spool, before, list));
          const [key] = bookKeys("rb:", account);
          const balance = await lanes.value.command("HGET", key, "balance");
          assert.equal(BigInt(String(balance ?? 0)), model.balance);
        }
      }),
      { numRuns: 150 },
    );
  });

  it("ids are remembered for the retention at least and are gone after twice that; books have no TTL", async () => {
    const script = lanes.value.script(sourceOf("book"));
    const keys = bookKeys("rb:", "ids");
    const book = (seq: number, id: string, retention: number): Promise<unknown> =>
      script.run(keys, [SPOOLS[0]!, 0, retention, DAY, seq, id, "1"]);
    await book(1, "x", 60_000);
    assert.deepEqual(await book(2, "x", 60_000), ["booked", "2", "2"]);
    const ttl = Number((await lanes.value.ttl(keys[1])) ?? (await lanes.value.ttl(keys[2])));
    assert.ok(ttl > 100_000 && ttl <= 120_000, `${ttl}`);
    assert.equal(await lanes.value.ttl(keys[0]), Infinity);
    // A generation that began long ago is the former one now, and then gone.
    const { node } = single.value;
    const age = async (): Promise<void> => {
      const since = Number(await node.command("HGET", keys[0], "since"));
      await node.command("HSET", keys[0], "since", since - 60_001);
    };
    await age();
    assert.deepEqual(await book(3, "x", 60_000), ["booked", "3", "3"]);
    await age();
    assert.deepEqual(await book(4, "x", 60_000), ["booked", "4"]);
    assert.equal(await node.command("HGET", keys[0], "balance"), "2");
  });

  it("C4: a clock that steps back frees no id", async () => {
    const script = lanes.value.script(sourceOf("book"));
    const keys = bookKeys("rb:", "clock");
    const book = (seq: number): Promise<unknown> => script.run(keys, [SPOOLS[0]!, 0, 60_000, DAY, seq, "x", "1"]);
    await book(1);
    await single.value.node.command("HINCRBY", keys[0], "since", 3_600_000);
    assert.deepEqual(await book(2), ["booked", "2", "2"]);
  });

  it("spools idle for long become one sum when another one books for the first time", async () => {
    const script = lanes.value.script(sourceOf("book"));
    const keys = bookKeys("rb:", "idle");
    const book = (spool: string, id: string): Promise<unknown> =>
      script.run(keys, [spool, 0, 60_000, 1000, 1, id, "5"]);
    await book(SPOOLS[0]!, "1");
    await single.value.node.command("HSET", keys[0], `${SPOOLS[0]}:at`, 1);
    await book(SPOOLS[1]!, "2");
    const fields = (await lanes.value.command("HGETALL", keys[0])) as Record<string, string>;
    assert.deepEqual([fields["past:sum"], fields["past:count"], fields["balance"]], ["5", "1", "10"]);
    assert.deepEqual(
      Object.keys(fields).filter((name) => name.startsWith(SPOOLS[0]!)),
      [],
    );
  });

  it("ids of a generation end with it, whenever the last of them came", async () => {
    const script = lanes.value.script(sourceOf("book"));
    const keys = bookKeys("rb:", "ends");
    const book = (seq: number): Promise<unknown> => script.run(keys, [SPOOLS[0]!, 0, 60_000, 0, seq, `id${seq}`, "1"]);
    await book(1);
    await single.value.node.command("HINCRBY", keys[0], "since", -50_000);
    await book(2);
    const ttl = Number((await lanes.value.ttl(keys[1])) ?? (await lanes.value.ttl(keys[2])));
    assert.ok(ttl > 50_000 && ttl <= 70_000, `${ttl}`);
  });

  it("a spool that may come back keeps its sequence number, however long it is idle", async () => {
    const script = lanes.value.script(sourceOf("book"));
    const keys = bookKeys("rb:", "kept");
    const book = (spool: string, idleMs: number, id: string): Promise<unknown> =>
      script.run(keys, [spool, 0, 60_000, idleMs, 1, id, "5"]);
    await book(SPOOLS[0]!, 0, "1");
    const names = (await lanes.value.command("HKEYS", keys[0])) as string[];
    assert.ok(!names.includes(`${SPOOLS[0]}:at`));
    await book(SPOOLS[1]!, 1, "2");
    await single.value.node.command("DEL", keys[1], keys[2]);
    // Its id is forgotten, and it is known all the same.
    assert.deepEqual(await book(SPOOLS[0]!, 0, "1"), ["booked", "1"]);
    assert.equal(await lanes.value.command("HGET", keys[0], "balance"), "10");
  });

  it("P4: scripts are sent by digest; after SCRIPT FLUSH the source goes once, and nothing is booked twice", async () => {
    const script = lanes.value.script(`${sourceOf("book")}-- own`);
    const keys = bookKeys("rb:", "flushed");
    const book = (seq: number): Promise<unknown> =>
      script.run(keys, [SPOOLS[0]!, seq - 1, 60_000, DAY, seq, `${seq}`, "1"]);
    await book(1);
    await single.value.node.command("SCRIPT", "FLUSH");
    await Promise.all([2, 3, 4].map(book));
    assert.equal(await lanes.value.command("HGET", keys[0], "balance"), "4");
  });

  it("lease.lua never grants more than the limit, whatever holders ask, return, forget or repeat", async () => {
    const script = lanes.value.script(sourceOf("lease"));
    const call = fc.record({
      holder: fc.nat({ max: 3 }),
      spend: fc.nat({ max: 100 }),
      need: fc.nat({ max: 60 }),
      wish: fc.nat({ max: 600 }),
      how: fc.constantFrom("lease", "lease", "lease", "return"),
      leaseMs: fc.constantFrom(1, 60_000),
      repeat: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 1000 }), fc.array(call, { maxLength: 30 }), async (limit, calls) => {
        runs += 1;
        const key = `rb:budget:{${runs}}`;
        const holders = [0, 1, 2, 3].map(() => ({ spent: 0, may: 0, n: 0 }));
        for (const { holder, spend, need, wish, how, leaseMs, repeat } of calls) {
          const own = holders[holder]!;
          own.spent = Math.min(own.may, own.spent + spend);
          if (how === "return") own.may = own.spent;
          if (!repeat) own.n += 1;
          const args = [`a${holder}`, own.n, own.spent, own.may, need, wish, limit, leaseMs, DAY, how];
          const [may, keep, left] = ((await script.run(key, args)) as string[]).map(Number) as [number, number, number];
          if (how === "lease") own.may = may;
          assert.ok(keep >= 0 && left >= 0);
          const granted = holders.reduce((sum, { may: allowed }) => sum + allowed, 0);
          assert.ok(granted + keep <= limit, `${granted} and ${keep} of ${limit}`);
          if (!repeat && how === "lease" && left > need) assert.ok(own.may - own.spent >= need);
        }
        assert.notEqual(await lanes.value.ttl(key), Infinity);
      }),
      { numRuns: 150 },
    );
  });
});
