/** A primary that Sentinels watch over: found through them, and found again when they have appointed another. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Keylane } from "keylane";

import { useFixture } from "../../support/fixtures.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { MONITORED, SentinelRig } from "../../support/sentinel.js";
import { failure, Stub } from "../../support/stub.js";
import { nextEvent, until } from "../../support/until.js";

describe("Sentinel-managed primaries", () => {
  const rig = useFixture(
    () => SentinelRig.start(),
    (started) => started.stop(),
  );
  const domain = (): object => ({ prefixes: [""], mode: "single", sentinels: rig.value.sentinels, name: MONITORED });
  const open = (): Promise<Keylane<never>> =>
    openLanes({ domains: { all: domain() as never }, commandTimeoutMs: 1000 }) as unknown as Promise<Keylane<never>>;

  it("the primary is found, and named by route and stats", async () => {
    const lanes = await open();
    const primary = await rig.value.primary();
    assert.equal(await lanes.set("k", "v" as never), true);
    assert.equal(await primary.node.command("GET", "k"), "v");
    assert.equal(lanes.route("k").node, primary.address);
    assert.deepEqual(
      lanes.stats().domains["all"]!.nodes.map(({ node, role, state }) => [node, role, state]),
      [[primary.address, "primary", "ready"]],
    );
    assert.deepEqual(await lanes.multi("n").incrBy("n").get("n").exec(), [1, "1"]);
    await primary.node.command("DEL", "n");
  });

  it("a Sentinel failover is followed: calls go on with the new primary", async () => {
    const lanes = await open();
    const old = await rig.value.primary();
    await lanes.set("n", "0" as never);
    const up = nextEvent(lanes, "node:up", 20_000);
    await until(() => rig.value.ask(rig.value.sentinels[0]!, "SENTINEL", "FAILOVER", MONITORED).then(() => true));
    const young = await until(
      async () => {
        const primary = await rig.value.primary();
        return primary === old ? false : primary;
      },
      { timeoutMs: 20_000 },
    );
    await up;
    assert.equal(await lanes.incrBy("n", 1, { timeoutMs: 10_000 }), 1);
    await until(() => lanes.route("n").node === young.address);
    assert.equal(await young.node.command("GET", "n"), "1");
    // The Sentinels would do this themselves, after a while.
    await old.node.command("REPLICAOF", young.node.host, young.node.port);
    await until(async () => (await old.node.info("replication")).get("master_link_status") === "up");
  });

  it("no Sentinel, or a name they do not know: KEYLANE_ERR_CONNECT with the reason", async () => {
    const unknown = { ...(domain() as { name: string }), name: "unheard" };
    await rejection(
      Keylane.open({ domains: { all: unknown as never }, connectTimeoutMs: 800 }),
      "KEYLANE_ERR_CONNECT",
      { message: /[Ss]entinel/ },
    );
    const absent = { ...(domain() as { sentinels: string[] }), sentinels: ["127.0.0.1:1"] };
    await rejection(Keylane.open({ domains: { all: absent as never }, connectTimeoutMs: 800 }), "KEYLANE_ERR_CONNECT", {
      message: /[Ss]entinel/,
    });
  });

  it("a killed primary: calls wait for the one that the Sentinels appoint", async () => {
    const lanes = await open();
    const old = await rig.value.primary();
    await lanes.set("n", "10" as never);
    const heir = rig.value.servers.find((server) => server !== old)!;
    await until(async () => (await heir.node.command("GET", "n")) === "10");
    const down = nextEvent(lanes, "node:down");
    await old.node.kill();
    await down;
    await rejection(lanes.incrBy("n", 1, { timeoutMs: 50 }), "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent" });
    assert.equal(await lanes.incrBy("n", 1, { timeoutMs: 30_000 }), 11);
    assert.equal(lanes.route("n").node, heir.address);
    assert.equal(await heir.node.command("GET", "n"), "11");
  });
});

describe("scripted Sentinels", () => {
  it("a demoted primary is left without a loss: the refused write is sent to the new one, once", async (t) => {
    const stubs = await Promise.all([0, 1, 2].map(() => Stub.start({ cluster: false })));
    const [sentinel, old, young] = stubs as [Stub, Stub, Stub];
    t.after(() => Promise.all(stubs.map((stub) => stub.stop())));
    const told = { primary: old };
    sentinel.answer("SENTINEL", () => [told.primary.host, String(told.primary.port)]);
    old.answer("INCRBY", ({ calls }) =>
      calls <= 3 ? calls : failure("READONLY You can't write against a read only replica."),
    );
    old.script("ROLE", ["slave", young.host, young.port, "connected", 0]);
    young.answer("INCRBY", ({ calls }) => 3 + calls);
    const lanes = await openLanes({
      domains: { all: { prefixes: [""], mode: "single", sentinels: [sentinel.address], name: MONITORED } },
      refreshMinimumMs: 50,
    });
    assert.deepEqual(await Promise.all([1, 2, 3].map(() => lanes.incrBy("n"))), [1, 2, 3]);
    assert.equal(lanes.route("n").node, old.address);
    const sums = [1, 2, 3, 4, 5].map(() => lanes.incrBy("n"));
    await until(() => old.calls("INCRBY").length >= 8);
    told.primary = young;
    assert.deepEqual(await Promise.all(sums), [4, 5, 6, 7, 8]);
    assert.equal(young.calls("INCRBY").length, 5);
    assert.equal(lanes.route("n").node, young.address);
  });
});
