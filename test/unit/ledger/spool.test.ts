/** The spool's promise: what was acknowledged is found again, and what cannot be read is told with its place. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { KeylaneError } from "keylane";
import type { Entry } from "#dist/ledger/entry.js";
import { segmentName } from "#dist/ledger/segment.js";
import { Spool } from "#dist/ledger/spool.js";
import { rejection } from "../../support/lanes.js";
import { makeFolder, policyOf, QUICK } from "../../support/ledger.js";
import { until } from "../../support/until.js";

const told: KeylaneError[] = [];

function open(folder: string | null, more = {}): Promise<Spool> {
  told.length = 0;
  return Spool.open(policyOf(folder, more), QUICK, (fault) => told.push(fault));
}

/** All entries of an account, oldest first. */
function entriesOf(spool: Spool, account: string): Entry[] {
  const line = spool.lines.get(account)!;
  return Array.from({ length: line.length }, (_, index) => spool.read(line.at(index)));
}

async function fill(spool: Spool, count: number, account = "a"): Promise<void> {
  for (let n = 0; n < count; n += 1) await spool.add(account, `${account}${n}`, BigInt(n), n, "");
}

/** Writes at a place of a file. */
function damage(path: string, at: number, bytes: readonly number[]): void {
  const content = readFileSync(path);
  content.set(bytes, at);
  writeFileSync(path, content);
}

for (const durable of [true, false]) {
  describe(`the spool, ${durable ? "on disk" : "in memory"}`, () => {
    it("gives back what was added, in order, over many segments", async () => {
      const spool = await open(durable ? makeFolder() : null);
      const largest = 2n ** 63n - 1n;
      await Promise.all([
        spool.add("a", "one", 5n, 1, ""),
        spool.add("ä{}%", "zwei", -largest, 2.5, "budget"),
        spool.add("a", "three", largest, 1.7e12, ""),
      ]);
      await fill(spool, 200, "b");
      const [one, three] = entriesOf(spool, "a");
      assert.deepEqual(one, { seq: one!.seq, account: "a", id: "one", amount: 5n, at: 1, budget: "" });
      assert.deepEqual([three!.id, three!.amount, three!.at], ["three", largest, 1.7e12]);
      assert.ok(three!.seq > one!.seq);
      const [two] = entriesOf(spool, "ä{}%");
      assert.deepEqual([two!.id, two!.amount, two!.budget], ["zwei", -largest, "budget"]);
      assert.deepEqual(
        entriesOf(spool, "b").map(({ id }) => id),
        Array.from({ length: 200 }, (_, n) => `b${n}`),
      );
      assert.equal(spool.pending, 203);
      assert.equal(spool.lines.get("b")!.sum, 19_900n);
      spool.close();
    });

    it("refuses entries past maxPending, and all once it is closed", async () => {
      const spool = await open(durable ? makeFolder() : null, { maxPending: 3 });
      const added = [0, 1, 2].map((n) => spool.add("a", `${n}`, 1n, 0, ""));
      await rejection(spool.add("a", "3", 1n, 0, ""), "KEYLANE_ERR_OVERLOADED", { outcome: "not-sent" });
      await Promise.all(added);
      const line = spool.lines.get("a")!;
      spool.settle(line, 0, 1, false);
      line.booked = 1;
      await spool.add("a", "4", 1n, 0, "");
      spool.close();
      await rejection(spool.add("a", "5", 1n, 0, ""), "KEYLANE_ERR_CLOSED");
    });

    it("lets segments leave once all of them is booked, and keeps their sums", async () => {
      const folder = durable ? makeFolder() : null;
      const spool = await open(folder, { keepBookedMs: 1 });
      await fill(spool, 150);
      const line = spool.lines.get("a")!;
      assert.equal(spool.leaving(), null);
      spool.settle(line, 0, 100, false);
      line.booked = 100;
      for (let end = performance.now() + 2; performance.now() < end;);
      const number = spool.leaving()!;
      assert.equal(number, 1);
      spool.leave(number, [line]);
      assert.ok(line.length < 150 && line.length >= 50);
      assert.equal(entriesOf(spool, "a")[0]!.id, `a${150 - line.length}`);
      assert.deepEqual([line.sum, line.count], [11_175n, 150]);
      spool.close();
      if (folder === null) return;
      assert.ok(!existsSync(join(folder, segmentName(1))));
      const again = await open(folder);
      const same = again.lines.get("a")!;
      assert.deepEqual([same.sum, same.count, same.left, same.length], [11_175n, 150, line.left, line.length]);
      again.close();
    });
  });
}

describe("a spool on disk", () => {
  it("counts entries of a commit under way as waiting", async () => {
    const spool = await open(makeFolder(), { maxPending: 3 });
    const added = [0, 1].map((n) => spool.add("a", `${n}`, 1n, 0, ""));
    // The spool's own turn came before this one: the commit has begun.
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(spool.pending, 0);
    added.push(spool.add("a", "2", 1n, 0, ""));
    await rejection(spool.add("a", "3", 1n, 0, ""), "KEYLANE_ERR_OVERLOADED");
    await Promise.all(added);
    assert.equal(spool.pending, 3);
    spool.close();
  });
});

describe("a spool that is opened again", () => {
  it("finds all entries, sums and its name; sequence numbers go on beyond", async () => {
    const folder = makeFolder();
    const first = await open(folder);
    await fill(first, 120);
    await first.add("b", "x", 7n, 0, "budget");
    const before = entriesOf(first, "a");
    first.close();
    const second = await open(folder);
    assert.deepEqual(entriesOf(second, "a"), before);
    assert.deepEqual([second.id, second.pending, second.budgets.get("budget")], [first.id, 121, 7n]);
    await second.add("a", "new", 1n, 0, "");
    assert.ok(entriesOf(second, "a").at(-1)!.seq > before.at(-1)!.seq + 100_000);
    assert.deepEqual(told, []);
    second.close();
  });

  it("lets segments leave that hold no entry, so that those behind them can", async () => {
    const folder = makeFolder();
    const segments = (): string[] => readdirSync(folder).filter((name) => name.endsWith(".spool"));
    for (let opened = 0; opened < 3; opened += 1) (await open(folder)).close();
    const spool = await open(folder, { keepBookedMs: 600_000 });
    await fill(spool, 1);
    assert.deepEqual(segments(), [1, 2, 3, 4].map(segmentName));
    for (const number of [1, 2, 3]) {
      assert.equal(spool.leaving(), number);
      spool.leave(number, []);
    }
    assert.equal(spool.leaving(), null);
    assert.deepEqual(segments(), [segmentName(4)]);
    spool.close();
    const again = await open(folder);
    assert.deepEqual(
      entriesOf(again, "a").map(({ id }) => id),
      ["a0"],
    );
    again.close();
  });

  it("cuts a commit that a crash left unfinished, keeps its bytes aside, and tells", async () => {
    const folder = makeFolder();
    const first = await open(folder);
    await fill(first, 10);
    first.close();
    const path = join(folder, segmentName(1));
    const whole = readFileSync(path);
    truncateSync(path, whole.length - 5);
    const second = await open(folder);
    assert.deepEqual(
      entriesOf(second, "a").map(({ id }) => id),
      Array.from({ length: 9 }, (_, n) => `a${n}`),
    );
    assert.match(told[0]!.message, /cut short/);
    const aside = readdirSync(folder).find((name) => name.startsWith("unfinished-1-"))!;
    assert.ok(whole.includes(readFileSync(join(folder, aside))));
    second.close();
    const third = await open(folder);
    assert.deepEqual([third.pending, told], [9, []]);
    third.close();
  });

  it("takes zeros behind the last commit for what they are", async () => {
    const folder = makeFolder();
    const first = await open(folder);
    await fill(first, 3);
    first.close();
    const path = join(folder, segmentName(1));
    writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.alloc(512)]));
    const second = await open(folder);
    assert.deepEqual([second.pending, told], [3, []]);
    second.close();
  });

  const DAMAGES: [what: string, spoil: (folder: string) => void, message: RegExp][] = [
    [
      "a bit within",
      (folder) => damage(join(folder, segmentName(1)), 200, [0xff, 0, 0xff]),
      /0000000001\.spool: it is damaged at byte \d+/,
    ],
    [
      "a length within",
      (folder) => damage(join(folder, segmentName(1)), 20, [0xff, 0xff, 0xff, 0x7f]),
      /damaged at byte 16/,
    ],
    ["the end of an earlier segment", (folder) => truncateSync(join(folder, segmentName(1)), 400), /damaged at byte/],
    [
      "all of a segment",
      (folder) => writeFileSync(join(folder, segmentName(2)), Buffer.alloc(4096, 7)),
      /damaged at byte 0/,
    ],
    ["a segment between", (folder) => rmSync(join(folder, segmentName(2))), /the segment before it is missing/],
    ["its name", (folder) => writeFileSync(join(folder, "spool.json"), "{"), /spool\.json: it cannot be read/],
    ["the file of its name", (folder) => rmSync(join(folder, "spool.json")), /segments and no spool\.json/],
  ];
  for (const [what, spoil, message] of DAMAGES) {
    it(`tells damage: ${what}`, async () => {
      const folder = makeFolder();
      const first = await open(folder);
      await fill(first, 200);
      first.close();
      assert.ok(existsSync(join(folder, segmentName(3))));
      spoil(folder);
      await rejection(open(folder), "KEYLANE_ERR_SPOOL", { message, outcome: "not-sent" });
      // The lock is free again: it is the damage that is told.
      await rejection(open(folder), "KEYLANE_ERR_SPOOL", { message });
    });
  }
});

describe("the lock of a spool", () => {
  it("lets one instance in", async () => {
    const folder = makeFolder();
    const first = await open(folder);
    await rejection(open(folder), "KEYLANE_ERR_SPOOL", { message: /in use by process \d+/ });
    first.close();
    const second = await open(folder);
    second.close();
    assert.ok(!readdirSync(folder).includes("lock"));
  });

  it("is taken over from a process that is gone, also when its number is in use again", async () => {
    const folder = makeFolder();
    const first = await open(folder);
    const lock = readFileSync(join(folder, "lock"), "utf8");
    first.close();
    const owner = JSON.parse(lock) as { started: string; host: string };
    assert.equal(owner.host, hostname());
    writeFileSync(join(folder, "lock"), JSON.stringify({ ...owner, started: "1", token: "other" }));
    const second = await open(folder);
    second.close();
  });

  it("a spool whose lock was taken away accepts nothing more", async () => {
    const folder = makeFolder();
    const spool = await open(folder);
    await spool.add("a", "1", 1n, 0, "");
    rmSync(join(folder, "lock"));
    let n = 0;
    const refused = await until(() => spool.add("a", `x${(n += 1)}`, 1n, 0, "").catch((error: KeylaneError) => error));
    assert.match(String(refused), /its lock was taken away/);
    spool.close();
  });
});
