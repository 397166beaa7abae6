/** The probe of event loops. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LoopProbe } from "#bench/harness/loop-probe.js";
import { until } from "../../support/until.js";

test("what comes while the loop is blocked is told to be as old as it is", async () => {
  const probe = new LoopProbe();
  const { gate } = probe;
  try {
    probe.begin();
    await until(() => probe.stamps > 0);
    const before = gate.sent;
    while (gate.sent < before + 5);
    const end = performance.now() + 30;
    while (performance.now() < end);
    await until(() => probe.stamps > before);
    const { p99Ms } = await probe.end();
    // Of few stamps the 99th percentile is the oldest.
    assert.ok(p99Ms >= 29, `${p99Ms} ms`);
    const counted = probe.stamps;
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(probe.stamps, counted, "after its end a probe counts nothing");
  } finally {
    await probe.close();
  }
});
