/** Keys that are hot because they are written: copies would only cost, so they have none. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { beforeEach, describe, it } from "node:test";

import type { HotKeyInfo, Keylane, OpenOptions } from "keylane";

import { useC3 } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes } from "../../support/lanes.js";
import { leftovers, Replicated, replicatedOn } from "../../support/replicated.js";
import { until } from "../../support/until.js";

const c3 = useC3();
const KEY = "up:counter";

beforeEach(async () => {
  for (const node of c3.value.primaries) {
    await node.command("FLUSHALL");
    await node.command("CONFIG", "RESETSTAT");
  }
});

function options(): OpenOptions {
  return {
    domains: { users: { prefixes: ["up:"], nodes: c3.value.seeds } },
    // Low, as what is tested is not how fast this machine is.
    hotKeys: { warn: 200, critical: 500, nodeLimit: 1000 },
    commandTimeoutMs: 10_000,
  };
}

/** Increments from 16 loops, until stopped; gives how many were acknowledged. */
class Increments {
  #stopped = false;
  readonly #loops: readonly Promise<number>[];

  constructor(lanes: Keylane) {
    this.#loops = Array.from({ length: 16 }, async () => {
      let done = 0;
      for (; !this.#stopped; done += 1) await lanes.incrBy(KEY);
      return done;
    });
  }

  async stop(): Promise<number> {
    this.#stopped = true;
    return (await Promise.all(this.#loops)).reduce((sum, done) => sum + done, 0);
  }
}

describe("a key that is written much", () => {
  it("has no copies by its rate, and every increment counts; one that is read much has some", async () => {
    const lanes = (await openLanes(options())) as unknown as Keylane;
    const info = (key: string): HotKeyInfo | undefined => lanes.hotKeys.list().find((listed) => listed.key === key);
    const heard = once(lanes, "hotkey");
    const increments = new Increments(lanes);
    await heard;
    await until(() => info(KEY)?.level === "critical" && info(KEY)?.action === "none", { what: "that is let be" });
    const filled = await Promise.all(c3.value.primaries.map((node) => callsOf(node, "evalsha")));
    assert.deepEqual([info(KEY)!.replicas, filled], [[], [0, 0, 0]], "not a single one was made");
    await lanes.set("up:read", "v");
    const phase = { over: false };
    const reads = Array.from({ length: 16 }, async () => {
      while (!phase.over) assert.equal(await lanes.get("up:read"), "v");
    });
    await until(() => (info("up:read")?.replicas.length ?? 0) > 0, { what: "copies of what is read" });
    assert.deepEqual([info(KEY)!.action, info(KEY)!.replicas], ["none", []]);
    phase.over = true;
    await Promise.all(reads);
    const sum = await increments.stop();
    assert.equal(await lanes.get(KEY), `${sum}`);
    const mine = (key: string): boolean => key === KEY || key.includes("up:read");
    assert.deepEqual(await leftovers(c3.value, mine), []);
  });

  it("is told when its copies are there already, and those that are wanted always stay", async () => {
    const rig = await Replicated.open(replicatedOn(c3.value));
    await rig.lanes.set(KEY, "0");
    rig.want(KEY, 2, false);
    await rig.filled(KEY, 2, c3.value);
    assert.deepEqual(rig.restless, []);
    let increments = new Increments(rig.lanes);
    await until(() => rig.restless.length > 0);
    await rig.replicas.release(0, KEY);
    const sum = await increments.stop();
    assert.deepEqual(rig.restless, [KEY], "once");
    assert.equal(await rig.lanes.get(KEY), `${sum}`);
    assert.deepEqual(await leftovers(c3.value, (key) => key === KEY), []);
    await rig.copy(KEY, 2, c3.value);
    increments = new Increments(rig.lanes);
    const evals = async (): Promise<number> =>
      (await Promise.all(c3.value.primaries.map((node) => callsOf(node, "evalsha")))).reduce((all, one) => all + one);
    const before = await evals();
    await until(async () => (await evals()) > before + 100, { what: "many more rounds" });
    const more = await increments.stop();
    assert.deepEqual(rig.restless, [KEY]);
    assert.equal(rig.of(KEY).length, 2);
    assert.equal(await rig.lanes.get(KEY), `${sum + more}`);
  });
});
