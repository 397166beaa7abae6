/** The history checkers find what they are there to find, and nothing else; chance repeats itself. */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";

import { CounterHistory } from "../../support/chaos/counters.js";
import { Random } from "../../support/chaos/random.js";
import { RegisterHistory } from "../../support/chaos/registers.js";

function draw(random: Random): unknown {
  return [random.next(), random.between(3, 9), random.shuffled([1, 2, 3, 4, 5])];
}

test("one seed, one course of events", () => {
  const first = new Random(7);
  const second = new Random(7);
  assert.deepEqual(draw(first), draw(second));
  assert.notDeepEqual(draw(first), draw(new Random(8)));
  const seen = new Set(Array.from({ length: 200 }, () => first.between(3, 9)));
  assert.deepEqual([...seen].toSorted(), [3, 4, 5, 6, 7, 8, 9]);
  assert.throws(() => first.pick([]));
});

/** `sums` acknowledged increments by 1, each told the next sum. */
function counted(sums: number): CounterHistory {
  const history = new CounterHistory();
  for (let sum = 1; sum <= sums; sum += 1) history.end("k", history.begin("k"), "acknowledged", 1, sum);
  return history;
}

function verdict(history: CounterHistory, final: number): ReturnType<CounterHistory["check"]> {
  return history.check(new Map([["k", final]]));
}

/** What is wrong with the reads so far. */
function faults(history: RegisterHistory): string[] {
  return history.violations.map(({ what }) => what);
}

/** Writes the register once; without an ending it stays under way. */
function set(history: RegisterHistory, ending?: "acknowledged" | "rejected" | "unknown"): string {
  const { number, value } = history.write("k");
  if (ending !== undefined) history.wrote("k", number, ending);
  return value;
}

describe("counters", () => {
  it("exact", () => {
    const found = verdict(counted(3), 3);
    assert.deepEqual(found.violations, []);
    assert.deepEqual([found.acknowledged, found.unknown, found.lost, found.doubled], [3, 0, 0, 0]);
  });

  it("an unknown increment may have run, once", () => {
    for (const [final, ran, doubled] of [
      [3, 0, 0],
      [5, 2, 0],
      [6, 2, 1],
    ] as const) {
      const history = counted(3);
      history.end("k", history.begin("k"), "unknown", 2);
      const found = verdict(history, final);
      assert.deepEqual([found.ran, found.doubled, found.violations.length], [ran, doubled, doubled]);
    }
  });

  it("a rejected increment must not have run", () => {
    const history = counted(3);
    history.end("k", history.begin("k"), "rejected", 1);
    assert.equal(verdict(history, 3).violations.length, 0);
    const [violation] = verdict(history, 4).violations;
    assert.deepEqual([violation!.key, violation!.what], ["k", "holds 4: 3 acknowledged, 0 unknown"]);
  });

  it("a lost increment is the client's fault unless it is excused", () => {
    assert.equal(verdict(counted(3), 2).violations.length, 1);
    const history = counted(3);
    const now = performance.now();
    history.excuse("k", now - 1000, now);
    const found = verdict(history, 2);
    assert.deepEqual([found.violations, found.lost], [[], 1]);
  });

  it("what is acknowledged after the excuse's end is not excused, before it is", () => {
    const history = counted(1);
    const now = performance.now();
    history.excuse("k", now + 1000, now + 60_000);
    history.end("k", history.begin("k"), "acknowledged", 1, 2);
    assert.equal(verdict(history, 1).violations.length, 0);
    assert.equal(verdict(history, 0).violations.length, 1);
  });

  it("sums that do not grow in the order of issue, and increments that never end", () => {
    const history = counted(2);
    history.end("k", history.begin("k"), "acknowledged", 1, 2);
    assert.deepEqual(
      verdict(history, 3).violations.map(({ what }) => what),
      ["was told 2 after 2"],
    );
    history.begin("k");
    assert.equal(verdict(history, 3).violations.length, 2);
  });
});

describe("registers", () => {
  it("a read sees the last acknowledged write or a later one", () => {
    const history = new RegisterHistory();
    history.saw("k", history.read("k"), null);
    const first = set(history, "acknowledged");
    history.saw("k", history.read("k"), first);
    const after = history.read("k");
    const second = set(history);
    history.saw("k", after, second);
    history.saw("k", after, first);
    history.wrote("k", 2, "acknowledged");
    assert.deepEqual([faults(history), history.undecided, history.reads], [[], 0, 4]);
  });

  it("an older write than one acknowledged before the read", () => {
    const history = new RegisterHistory();
    const first = set(history, "acknowledged");
    set(history, "acknowledged");
    history.saw("k", history.read("k"), first);
    history.saw("k", history.read("k"), null);
    assert.equal(history.violations.length, 2);
  });

  it("judges a read when the writes issued before it have ended", () => {
    const history = new RegisterHistory();
    const first = set(history, "acknowledged");
    set(history);
    history.saw("k", history.read("k"), first);
    assert.deepEqual([faults(history), history.undecided], [[], 1]);
    history.wrote("k", 2, "acknowledged");
    assert.deepEqual([history.violations.length, history.undecided], [1, 0]);
  });

  it("values that nobody wrote, or that were said not to be", () => {
    const history = new RegisterHistory();
    history.saw("k", 0, "k#1");
    history.saw("k", 0, "other#1");
    const refused = set(history, "rejected");
    history.saw("k", history.read("k"), refused);
    assert.deepEqual(faults(history), [
      'read "k#1", which nobody wrote',
      'read "other#1", which nobody wrote',
      "read write 1, which was said not to have run",
    ]);
  });

  it("an unknown write may show at any time, or never", () => {
    const history = new RegisterHistory();
    const unknown = set(history, "unknown");
    const second = set(history, "acknowledged");
    history.saw("k", history.read("k"), second);
    history.saw("k", history.read("k"), unknown);
    assert.deepEqual(faults(history), []);
  });

  it("an excused write may be gone", () => {
    const history = new RegisterHistory();
    const first = set(history, "acknowledged");
    const excused = performance.now();
    set(history, "acknowledged");
    history.excuse("k", excused, performance.now() + 60_000);
    set(history, "acknowledged");
    history.saw("k", history.read("k"), first);
    assert.deepEqual(faults(history), []);
  });

  it("a read from a replica may be as old as was said, and no older", () => {
    const history = new RegisterHistory(50);
    const first = set(history, "acknowledged");
    set(history, "acknowledged");
    history.saw("k", history.read("k"), first);
    assert.deepEqual(faults(history), []);
    history.saw("k", history.read("k"), first, performance.now() + 60);
    assert.equal(history.violations.length, 1);
  });

  it("remembers enough and no more", () => {
    const history = new RegisterHistory();
    for (let at = 0; at < 5000; at += 1) history.saw("k", history.read("k"), set(history, "acknowledged"));
    assert.deepEqual([faults(history), history.reads, history.undecided], [[], 5000, 0]);
  });
});
