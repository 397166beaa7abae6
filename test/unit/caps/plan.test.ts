/** Lists of caps are compiled once, and never taken for another list. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Planner } from "#dist/caps/plan.js";
import type { Cap } from "keylane";

const HOUR = 3_600_000;

const one = (): Cap[] => [{ name: "a", limit: 3, windowMs: HOUR }];
const two = (): Cap[] => [...one(), { name: "b", limit: 1, windowMs: HOUR, sliding: true }];

describe("plans of caps", () => {
  it("equal lists share a plan, however often other lists come between", () => {
    const planner = new Planner();
    const [first, second] = [planner.plan(one()), planner.plan(two())];
    assert.notEqual(first, second);
    for (let i = 0; i < 3; i += 1) {
      assert.equal(planner.plan(one()), first);
      assert.equal(planner.plan(two()), second);
    }
    assert.equal(second.mark, planner.plan(two().toReversed()).mark);
    assert.notEqual(first.mark, second.mark);
  });

  it("a list that was changed in place is another one", () => {
    const planner = new Planner();
    const list = [{ name: "a", limit: 3, windowMs: HOUR } as { name: string; limit: number; windowMs: number }];
    assert.equal(planner.plan(list).question("t", 0), "t3 10 ;f3600000 a");
    list[0]!.limit = 4;
    assert.equal(planner.plan(list).question("t", 0), "t4 10 ;f3600000 a");
    list[0]!.name = "b";
    assert.equal(planner.plan(list).caps[0]!.field, "f3600000 b");
    list.push({ name: "b", limit: 1, windowMs: 1 });
    assert.throws(() => planner.plan(list), { code: "KEYLANE_ERR_ARGUMENT" });
    list.length = 0;
    assert.throws(() => planner.plan(list), { code: "KEYLANE_ERR_ARGUMENT" });
  });

  it("a question holds the fields' bytes, and the windows of the server's time", () => {
    const planner = new Planner();
    const plan = planner.plan([
      { name: "ünï;1 2", limit: 1, windowMs: 60, sliding: true },
      { name: "d", limit: 2, per: "day" },
    ]);
    const noon = Date.UTC(2031, 5, 5, 12);
    const days = [-36, -12, 12, 36].map((hours) => noon + hours * HOUR).join(" ");
    const offset = noon - Date.now();
    assert.equal(plan.question("c", offset), `c1 13 ;s60 ünï;1 22 6 c${days};dUTC d`);
    const later = [-12, 12, 36, 60].map((hours) => noon + hours * HOUR).join(" ");
    assert.equal(plan.question("c", offset + 24 * HOUR), `c1 13 ;s60 ünï;1 22 6 c${later};dUTC d`);
    assert.equal(plan.question("t", offset), `t1 13 ;s60 ünï;1 22 6 c${days};dUTC d`);
  });
});
