/** Servers that tell nothing of changes: only the time to live bounds how stale a cached value is, and that is said. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { useSingle } from "../../support/fixtures.js";
import { openLanes } from "../../support/lanes.js";
import { Stub } from "../../support/stub.js";
import { nextEvent, until } from "../../support/until.js";

function domainOn(address: string, more: object = {}) {
  return { prefixes: [""], nodes: [address], mode: "single", cache: { mode: "all", ttlMs: 300 }, ...more } as const;
}

describe("servers that do not track", () => {
  const guarded = useSingle({
    users: ["mute on >word ~* &* +@all -client|tracking", "bare on >word ~* &* +get +pttl +set"],
  });
  const write = (...args: (string | number)[]) => guarded.value.node.command(...args);

  for (const username of ["mute", "bare"]) {
    it(`user ${username}: one event, and values live for ttlMs at most`, async () => {
      const lanes = await openLanes({
        domains: { all: domainOn(guarded.value.address, { username, password: "word" }) },
      });
      const events: string[] = [];
      lanes.on("degraded", ({ domain, reason }) => events.push(`${domain}: ${reason}`));
      await nextEvent(lanes, "degraded");
      const { staleness, stalenessBoundMs } = lanes.stats().cache!;
      assert.deepEqual([staleness, stalenessBoundMs], ["ttl", 300]);
      await write("SET", "untold", "old");
      assert.equal(await lanes.get("untold"), "old");
      await write("SET", "untold", "new");
      await until(() => lanes.peek("untold") === undefined);
      assert.equal(await lanes.get("untold"), "new");
      await lanes.set("untold", "own");
      assert.equal(await lanes.get("untold"), "own");
      assert.equal(events.length, 1);
      assert.match(events[0]!, /^all: only the time to live bounds how stale cached values are: .*NOPERM/);
    });
  }

  it("a server without RESP3 tells nothing, and that is known", async (t) => {
    const stub = await Stub.start({ cluster: false, resp3: false });
    t.after(() => stub.stop());
    stub.answer("PTTL", () => -1).answer("GET", ({ calls }) => `value ${calls}`);
    const lanes = await openLanes({ domains: { all: domainOn(stub.address) } });
    const [event] = (await nextEvent(lanes, "degraded")) as [{ reason: string }];
    assert.match(event.reason, /only the time to live .*RESP3/);
    assert.equal(lanes.stats().cache!.staleness, "ttl");
    assert.equal(await lanes.get("k"), "value 1");
    assert.equal(lanes.peek("k"), "value 1");
    await until(() => lanes.peek("k") === undefined);
  });
});
