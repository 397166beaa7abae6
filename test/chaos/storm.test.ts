/**
 * The storm: mixed load on a cluster with replicas while its nodes are killed, paused, failed over, cut off and resharded in
 * random order. `KEYLANE_CHAOS_SECONDS` says how long (default 18; a release is given 600) and `KEYLANE_CHAOS_SEED` in which
 * order. Prints its figures.
 */
import assert from "node:assert/strict";
import { test } from "node:test";

import { native } from "#dist/native/index.js";
import { Keylane } from "keylane";

import { keylaneClient } from "../support/chaos/client.js";
import { RelayedCluster } from "../support/chaos/relayed.js";
import { report } from "../support/chaos/report.js";
import { makeTags, storm } from "../support/chaos/storm.js";
import type { FaultFigures, StormFigures } from "../support/chaos/storm.js";

const SECONDS = Number(process.env["KEYLANE_CHAOS_SECONDS"] ?? 18);
const SEED = Number(process.env["KEYLANE_CHAOS_SEED"] ?? 3);
const NODE_TIMEOUT_MS = 1000;
/** What memory may gain in the second half of the storm, after a full collection. */
const MEMORY_SLACK = 32 << 20;
const DESCRIPTOR_SLACK = 3;

/** Recovery is due in node timeout + 2 s; when the cluster itself took longer to elect, in a second after that. */
function recoveryDue({ record }: FaultFigures): number {
  const elected = record.promoted === 0 ? 0 : record.promoted - record.began;
  return Math.max(NODE_TIMEOUT_MS + 2000, elected + 1000);
}

const VARIANTS = [
  { scaleReads: "master", seconds: SECONDS, staleMs: 0 },
  // A replica may be behind by as long as it was paused.
  { scaleReads: "replica", seconds: SECONDS / 2, staleMs: 3000 },
] as const;

for (const { scaleReads, seconds, staleMs } of VARIANTS) {
  const name = `every call gets a true answer through ${seconds} s of chaos, reads from ${scaleReads}`;
  test(name, { timeout: (seconds + 120) * 1000 }, async (t) => {
    const config = { "cluster-require-full-coverage": "no" };
    const rig = await RelayedCluster.start({ replicas: 1, nodeTimeoutMs: NODE_TIMEOUT_MS, config });
    t.after(() => rig.stop());
    const { seeds: nodes, natMap } = rig;
    const lanes = await Keylane.open({ domains: { all: { prefixes: [""], nodes, natMap, scaleReads } } });
    t.after(() => lanes.close({ timeoutMs: 500 }));
    const tags = makeTags(60, (key) => native.slot(key));
    const figures = await storm({ rig, client: keylaneClient(lanes), tags, seconds, seed: SEED, staleMs });
    console.log(report(figures));
    assertTrue(figures);
    assert.equal(lanes.stats().domains["all"]!.pending, 0);
  });
}

function assertTrue(figures: StormFigures): void {
  const { load, counters, faults, middle, after, seconds } = figures;
  assert.ok(faults.length >= Math.floor(seconds / 6), `only ${faults.length} faults`);
  assert.deepEqual(load.hung, [], "calls that did not settle within their deadline + 1 s");
  assert.equal(figures.open, 0);
  assert.deepEqual(counters.violations, []);
  assert.equal(counters.doubled, 0);
  assert.ok(counters.acknowledged > 100 * seconds, `only ${counters.acknowledged} increments`);
  assert.deepEqual(load.registers.violations, []);
  assert.equal(load.registers.undecided, 0);
  assert.deepEqual(figures.unexplained, [], "errors without a fault");
  for (const one of faults) {
    const { record, failures, strangers, recoveryMs } = one;
    const what = `${record.fault.name}, ${record.node}`;
    assert.deepEqual(strangers, [], `${what}: errors on slots of other shards`);
    if (record.fault.harmless) assert.deepEqual(failures, [], `${what}: errors though nothing was lost`);
    assert.ok(recoveryMs < recoveryDue(one), `${what}: recovered after ${recoveryMs} ms`);
  }
  assert.ok(after.rss - middle.rss < MEMORY_SLACK, `memory grew from ${middle.rss} to ${after.rss}`);
  assert.ok(after.descriptors <= middle.descriptors + DESCRIPTOR_SLACK, `${after.descriptors} descriptors`);
}
