/** The clock of the process: distances across its wrap. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { elapsed, later, processMs, remaining } from "#dist/shared/clock.js";

const LAST = 0x7fff_ffff;

test("the clock goes forward, within its range", () => {
  const first = processMs();
  const second = processMs();
  assert.ok(first >= 0 && second >= first && second <= LAST);
});

test("distances hold across the wrap", () => {
  assert.equal(elapsed(LAST - 1, 3), 5);
  assert.equal(elapsed(7, 7), 0);
  assert.equal(remaining(3, LAST - 1), 5);
  assert.equal(remaining(100, 40), 60);
  assert.equal(remaining(40, 40), 0);
  assert.equal(remaining(40, 41), 0, "what is past");
  assert.equal(remaining(LAST, 10), 0, "what is past since before the wrap");
});

test("a later time is never 0, which stands for none", () => {
  assert.equal(later(10, 5), 15);
  assert.equal(later(10, 0.2), 11);
  assert.equal(later(LAST, 1), 1);
  assert.equal(later(LAST - 4, 5), 1);
  assert.equal(remaining(later(LAST - 1, 5), LAST - 1), 5);
});
