/** The checker of histories agrees with one that tries every order, finds known faults, and is fast where it has to be. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";

import { check, checkKey } from "../../support/linearizability/checker.js";
import { step } from "../../support/linearizability/operation.js";
import type { Operation, State } from "../../support/linearizability/operation.js";
import { Random } from "../../support/chaos/random.js";

type Kind = Operation["kind"];

/** An operation on key k from one moment to another; without `output`, of unknown outcome. */
function op(kind: Kind, began: number, ended: number, input: number, output?: number | null): Operation {
  return { key: "k", kind, input, output: output ?? null, outcome: "ok", began, ended };
}
const set = (began: number, ended: number, value: number): Operation => op("set", began, ended, value);
const get = (began: number, ended: number, value: number | null): Operation => op("get", began, ended, 0, value);
const incr = (began: number, ended: number, sum: number): Operation => op("incr", began, ended, 1, sum);
const unknown = (operation: Operation): Operation => ({ ...operation, outcome: "unknown", output: null });
const failed = (operation: Operation): Operation => ({ ...operation, outcome: "failed", output: null });

/** Whether any order of any choice of the unknown ones will do: the definition, tried out. */
function byDefinition(history: readonly Operation[], state: State = null): boolean {
  const rest = history.filter(({ outcome }) => outcome !== "failed");
  if (rest.every(({ outcome }) => outcome === "unknown")) return true;
  const ended = Math.min(...rest.map((one) => (one.outcome === "ok" ? one.ended : Infinity)));
  return rest.some((one) => {
    if (one.began > ended) return false;
    const next = one.outcome === "unknown" && one.kind === "get" ? state : step(one, state);
    return (
      next !== undefined &&
      byDefinition(
        rest.filter((other) => other !== one),
        next,
      )
    );
  });
}

describe("histories that are linearizable", () => {
  const histories: Record<string, Operation[]> = {
    "nothing happened": [],
    "one after the other": [get(0, 1, null), set(2, 3, 7), get(4, 5, 7), incr(6, 7, 8), get(8, 9, 8)],
    "a counter begins at nothing": [incr(0, 1, 1), incr(2, 3, 2)],
    "overlapping increments in the other order": [incr(0, 10, 2), incr(1, 9, 1)],
    "two reads of an overlapping write, old first": [set(0, 10, 1), get(1, 2, null), get(3, 4, 1)],
    "a write that ends as the next call begins may follow it": [set(0, 5, 1), get(5, 6, null)],
    "an unknown write is seen": [set(0, 1, 1), unknown(set(2, 3, 2)), get(4, 5, 1), get(6, 7, 2)],
    "an unknown write is never seen": [set(0, 1, 1), unknown(set(2, 3, 2)), get(4, 5, 1)],
    "an unknown increment counts late": [unknown(incr(0, 1, 0)), incr(2, 3, 1), incr(4, 5, 3)],
    "of two unknown increments one counts": [unknown(incr(0, 1, 0)), unknown(incr(0, 1, 0)), incr(2, 3, 2)],
    "a failed write is not seen": [failed(set(0, 1, 9)), get(2, 3, null)],
    "an unknown read says nothing": [set(0, 1, 4), unknown(get(2, 3, 9)), get(4, 5, 4)],
    "the order of three writes is told by later reads": [
      set(0, 10, 1),
      set(0, 10, 2),
      set(0, 10, 3),
      get(2, 3, 2),
      get(4, 5, 3),
      get(6, 7, 1),
    ],
  };
  for (const [what, history] of Object.entries(histories)) {
    it(what, () => {
      assert.deepEqual({ linearizable: true, stuck: "" }, pick(history));
      assert.equal(byDefinition(history), true);
    });
  }
});

function pick(history: readonly Operation[]): { linearizable: boolean; stuck: string } {
  const { linearizable, stuck } = checkKey(history);
  return { linearizable, stuck };
}

describe("histories that are not", () => {
  const histories: Record<string, [Operation[], RegExp]> = {
    "a read of what nobody wrote": [
      [get(0, 1, 5)],
      /^after 0 of 1 the value is null and 0 more saw .* of GET → 5 \[0\.000, 1\.000\]$/,
    ],
    "a stale read": [[set(0, 1, 1), set(2, 3, 2), get(4, 5, 1)], /^after 1 of 3 the value is 1 and 1 more saw it/],
    "a write that is gone again": [
      [set(0, 10, 1), get(1, 2, 1), get(3, 4, null)],
      /^after 0 of 3 the value is null and 1 more/,
    ],
    "an increment that ran twice": [[incr(0, 1, 1), incr(2, 3, 3)], /^after 1 of 2 the value is 1/],
    "an acknowledged increment that is lost": [[incr(0, 1, 1), incr(2, 3, 1)], /^after 1 of 2 the value is 1/],
    "one sum told twice": [[incr(0, 10, 1), incr(0, 10, 1)], /^after 1 of 2/],
    "an unknown increment that counted twice": [
      [unknown(incr(0, 1, 0)), incr(2, 3, 3)],
      /^after 0 of 1 the value is 1/,
    ],
    "an unknown write that is seen before its call": [[get(0, 1, 9), unknown(set(2, 3, 9))], /^after 0 of 1/],
    "a failed write that is seen": [[failed(set(0, 1, 9)), get(2, 3, 9)], /^after 0 of 1/],
    "an unknown write that is seen twice": [
      [unknown(set(0, 1, 9)), get(2, 3, 9), set(4, 5, 1), get(6, 7, 9)],
      /^after 1 of 3 the value is 9 and 1 more/,
    ],
    "two readers who see two writes in different orders": [
      [set(0, 100, 1), set(0, 100, 2), get(1, 2, 1), get(3, 4, 2), get(5, 6, 1)],
      /^after 2 of 5 the value is 1 and 1 more/,
    ],
  };
  for (const [what, [history, stuck]] of Object.entries(histories)) {
    it(what, () => {
      const verdict = checkKey(history);
      assert.equal(verdict.linearizable, false);
      assert.match(verdict.stuck, stuck);
      assert.equal(byDefinition(history), false);
    });
  }
});

/** Few values, sums and moments, so that about as many histories are linearizable as not. */
const anyOperation = fc
  .tuple(
    fc.constantFrom<Kind>("set", "get", "incr"),
    fc.integer({ min: 1, max: 2 }),
    fc.option(fc.integer({ min: 1, max: 4 })),
    fc.constantFrom<Operation["outcome"]>("ok", "ok", "ok", "unknown", "failed"),
    fc.integer({ min: 0, max: 12 }),
    fc.integer({ min: 0, max: 8 }),
  )
  .map(([kind, amount, output, outcome, began, took]): Operation => {
    const input = kind === "get" ? 0 : amount;
    return { key: "k", kind, input, output, outcome, began, ended: began + took };
  });

/** What a real register did: each operation takes effect at a moment between its call and its end. */
function played(random: Random, count: number, keys: number, width: number): Operation[] {
  const states = new Map<string, State>();
  return Array.from({ length: count }, (_, at): Operation => {
    const key = `k${Math.floor(keys * random.next() ** 3)}`;
    const kind = random.pick<Kind>(["set", "get", "get", "incr", "incr"]);
    const outcome = random.next() < 0.002 ? "unknown" : "ok";
    const before = states.get(key) ?? null;
    const input = kind === "set" ? at * 1000 : kind === "incr" ? 1 : 0;
    const happens = outcome === "ok" || random.next() < 0.5;
    const after = kind === "set" ? input : kind === "incr" ? (before ?? 0) + 1 : before;
    if (happens) states.set(key, after);
    const output = outcome === "unknown" || kind === "set" ? null : after;
    const [began, ended] = [at - random.next() * width, at + random.next() * width];
    return { key, kind, input, output, outcome, began, ended };
  });
}

describe("any history", () => {
  it("the verdict is that of trying every order", () => {
    const seen = { true: 0, false: 0 };
    fc.assert(
      fc.property(fc.array(anyOperation, { minLength: 1, maxLength: 7 }), (history) => {
        const expected = byDefinition(history);
        seen[`${expected}`] += 1;
        assert.equal(checkKey(history).linearizable, expected);
      }),
      { numRuns: 3000 },
    );
    assert.ok(seen.true > 200 && seen.false > 200, JSON.stringify(seen));
  });

  it("100,000 operations on 300 keys are judged in seconds, and one planted fault is found", () => {
    const history = played(new Random(11), 100_000, 300, 40);
    const { keys, operations, faults, overlap, unknown } = check(history);
    assert.deepEqual([keys, operations, faults.size], [300, 100_000, 0]);
    assert.ok(overlap > 5 && unknown > 100, `${overlap} at once, ${unknown} unknown`);
    const victim = history.findIndex(
      ({ kind, outcome, key }, at) => at > 50_000 && kind === "incr" && outcome === "ok" && key === "k9",
    );
    const lost = history.with(victim, { ...history[victim]!, output: history[victim]!.output! + 1 });
    assert.deepEqual([...check(lost).faults.keys()], ["k9"]);
  });
});
