/** Metrics of a real instance: what a scrape tells is what `stats()` tells, while it is open and afterwards. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Keylane, keylaneMetrics } from "keylane";
import { Registry } from "prom-client";
import { readExposition } from "../support/exposition.js";
import { useSingle } from "../support/fixtures.js";
import { until } from "../support/until.js";

describe("metrics of an instance", () => {
  const single = useSingle();

  it("O4: count what happened, also after it was closed", async () => {
    const nodes = [single.value.address];
    await using lanes = await Keylane.open({
      domains: {
        ["__proto__x"]: { prefixes: ["up:"], nodes, mode: "single", cache: { mode: "all" } },
        constructor: {
          prefixes: ["fc:"],
          nodes,
          mode: "single",
          hotKeys: { warn: 100, critical: 1e9, nodeLimit: 1e9 },
        },
      },
    });
    const register = new Registry();
    keylaneMetrics(lanes, { register });
    for (let i = 0; i < 20; i += 1) await lanes.incrBy(`fc:${i}`);
    await assert.rejects(lanes.command("LPUSH", "fc:1", "x"));
    await until(async () => (await lanes.get("up:absent")) === null && lanes.peek("up:absent") === null);
    const page = readExposition(await register.metrics());
    const { domains, cache } = lanes.stats();
    for (const domain of ["__proto__x", "constructor"]) {
      assert.equal(page.value("keylane_commands_total", { domain }), domains[domain]!.commands);
      assert.equal(page.value("keylane_failed_total", { domain }), domains[domain]!.failed);
      assert.equal(page.value("keylane_node_up", { domain, node: nodes[0]! }), 1);
    }
    assert.equal(page.value("keylane_failed_total", { domain: "constructor" }), 1);
    assert.ok(page.value("keylane_commands_total", { domain: "constructor" })! >= 21);
    assert.equal(page.value("keylane_cache_loads_total"), cache!.loads);
    assert.equal(page.value("keylane_cache_staleness_bound_seconds"), cache!.stalenessBoundMs / 1000);
    // It is reported when it is known what can be done about it.
    let reported = 0;
    lanes.on("hotkey", () => (reported += 1));
    await until(async () => {
      await Promise.all(Array.from({ length: 100 }, () => lanes.get("fc:hot\n")));
      return reported > 0;
    });
    const hot = readExposition(await register.metrics());
    const rate = hot.value("keylane_hotkey_rate", {
      domain: "constructor",
      key: String.raw`fc:hot\x0a`,
      level: "warn",
    });
    assert.ok(rate! >= 100, `${rate} a second`);
    assert.equal(hot.value("keylane_hotkeys", { domain: "constructor" }), 1);
    assert.ok(hot.value("keylane_hotkey_hits_total")! >= rate!);
    assert.equal(hot.value("keylane_hotkey_reports_total"), 1);
    await lanes.close();
    const after = readExposition(await register.metrics());
    assert.equal(after.value("keylane_failed_total", { domain: "constructor" }), 1);
  });
});
