/** Who counts what is billed: again and again, and anew after each change of the servers. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KeylaneError } from "keylane";
import type { BilledCounts } from "#dist/caps/billed.js";
import { Counter } from "#dist/impressions/counter.js";
import { IMPRESSION } from "#dist/ledger/frame.js";
import { Journal } from "#dist/ledger/journal.js";
import { placeOf } from "#dist/ledger/line.js";
import { until } from "../../support/until.js";

/** Servers whose answers the test gives. */
class Servers {
  upheaval = 0;
  readonly asked: { readonly id: string; readonly answer: (error?: KeylaneError) => void }[] = [];

  upheavals(): number {
    return this.upheaval;
  }

  count(_user: string, _caps: unknown, id: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.asked.push({ id, answer: (error) => (error === undefined ? resolve() : reject(error)) });
    });
  }

  /** Takes what was asked since the last time. */
  take(): { readonly id: string; readonly answer: (error?: KeylaneError) => void }[] {
    return this.asked.splice(0);
  }
}

const more = (id: string): string => JSON.stringify([`user of ${id}`, 1, [], []]);

function setUp(ids: readonly string[]): { servers: Servers; journal: Journal; counter: Counter; told: KeylaneError[] } {
  const entry = { seq: 0, account: "a", amount: 1n, at: 0, budget: "" };
  const known = new Map<number, string>();
  const journal = new Journal(new Map(), (place) => {
    const id = known.get(place)!;
    return { kind: IMPRESSION, entry: { ...entry, id }, more: more(id) };
  });
  const [servers, told] = [new Servers(), [] as KeylaneError[]];
  const counter = new Counter(servers as unknown as BilledCounts, journal, 1000, (error) => told.push(error));
  for (const [n, id] of ids.entries()) {
    known.set(placeOf(1, 16 + n * 64), id);
    journal.put(1, 16 + n * 64, id, IMPRESSION, more(id));
  }
  return { servers, journal, counter, told };
}

const fault = (code: "KEYLANE_ERR_CONNECT" | "KEYLANE_ERR_WRONGTYPE" | "KEYLANE_ERR_ARGUMENT"): KeylaneError =>
  new KeylaneError(code, "made up");

const idsOf = (asked: readonly { readonly id: string }[]): string[] => asked.map(({ id }) => id);

describe("the counter of impressions", () => {
  it("counts what is written, and settles it when it is answered", async () => {
    const { servers, journal, counter } = setUp(["a", "b"]);
    const asked = servers.take();
    assert.deepEqual(idsOf(asked), ["a", "b"]);
    asked[1]!.answer();
    await until(() => journal.uncounted === 1);
    assert.equal(journal.at(placeOf(1, 80)), null);
    asked[0]!.answer();
    await until(() => journal.uncounted === 0);
    counter.end();
  });

  it("counts everything anew after a change, and believes no answer from before it", async () => {
    const { servers, journal, counter } = setUp(["a", "b"]);
    const [a, b] = servers.take();
    a!.answer();
    await until(() => journal.uncounted === 1);
    servers.upheaval += 1;
    const again = await until(() => (servers.asked.length === 2 ? servers.take() : null));
    assert.deepEqual(idsOf(again).toSorted(), ["a", "b"]);
    b!.answer();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(journal.uncounted, 2);
    for (const { answer } of again) answer();
    await until(() => journal.uncounted === 0);
    counter.end();
  });

  it("tries again what fails, tells once what time does not mend, and gives up only what stands for something else", async () => {
    const { servers, journal, counter, told } = setUp(["a", "b", "c"]);
    const [a, b, c] = servers.take();
    a!.answer(fault("KEYLANE_ERR_CONNECT"));
    b!.answer(fault("KEYLANE_ERR_WRONGTYPE"));
    c!.answer(fault("KEYLANE_ERR_ARGUMENT"));
    const again = await until(() => (servers.asked.length === 2 ? servers.take() : null));
    assert.deepEqual(idsOf(again), ["a", "b"]);
    assert.deepEqual(
      told.map(({ code }) => code),
      ["KEYLANE_ERR_WRONGTYPE", "KEYLANE_ERR_ARGUMENT"],
    );
    assert.equal(journal.uncounted, 2);
    for (const { answer } of again) answer();
    await until(() => journal.uncounted === 0);
    counter.end();
  });

  it("does nothing once it has ended", async () => {
    const { servers, journal, counter } = setUp(["a"]);
    const [a] = servers.take();
    counter.end();
    a!.answer();
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(journal.uncounted, 1);
  });
});
