/** C8: buffered entries when the servers cannot be reached, a reply is lost, or the process must end. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Keylane } from "keylane";
import type { KeylaneError } from "keylane";
import { useSingle } from "../../support/fixtures.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { ledgerOptions, makeFolder } from "../../support/ledger.js";
import { Relay } from "../../support/relay.js";
import { until } from "../../support/until.js";

/** Calls that cannot be answered give up fast. */
const HASTY = { commandTimeoutMs: 150, silenceTimeoutMs: 300 };

describe("C8: buffered deltas", () => {
  const single = useSingle();
  const balanceOf = async (account: string): Promise<unknown> =>
    single.value.node.command("HGET", `rb:ledger:{${account}}`, "balance");

  it("C8: (a) kept while connections are refused, within maxPending, and booked once", async (t) => {
    const relay = await Relay.start(single.value.address);
    t.after(() => relay.stop());
    const options = ledgerOptions([relay.address], { directory: makeFolder(), maxPending: 100 });
    const { ledger } = await openLanes({ ...options, ...HASTY });
    await relay.refuse();
    relay.cut();
    const added = Array.from({ length: 100 }, (_, n) => ledger.add("refused", 1n, { id: `${n}` }));
    await Promise.all(added);
    const [late] = await Promise.allSettled([ledger.add("refused", 1n, { id: "late" })]);
    assert.equal(((late as PromiseRejectedResult).reason as KeylaneError).code, "KEYLANE_ERR_OVERLOADED");
    await until(() => ledger.pending().failing.length === 1);
    assert.equal(ledger.pending().entries, 100);
    await relay.accept();
    await ledger.flush();
    assert.equal(await balanceOf("refused"), "100");
  });

  it("C8: (b) booked exactly once when replies are lost", async (t) => {
    const relay = await Relay.start(single.value.address);
    t.after(() => relay.stop());
    const lanes = await openLanes({ ...ledgerOptions([relay.address], { directory: makeFolder() }), ...HASTY });
    const { ledger } = lanes;
    relay.down.drop = true;
    await Promise.all(Array.from({ length: 100 }, (_, n) => ledger.add("unanswered", 1n, { id: `${n}` })));
    // It ran, and nobody heard of it.
    await until(async () => (await balanceOf("unanswered")) === "100");
    await until(() => ledger.pending().failing.length === 1);
    assert.equal(ledger.pending().entries, 100);
    relay.down.drop = false;
    await ledger.flush();
    assert.equal(await balanceOf("unanswered"), "100");
    assert.deepEqual([ledger.pending().duplicates, ledger.pending().rebooked], [0, 0]);
  });

  it("C8: (c) in mode fast, what cannot be booked before the end is told by account and amount", async (t) => {
    const relay = await Relay.start(single.value.address);
    t.after(() => relay.stop());
    const lanes = await Keylane.open({ ...ledgerOptions([relay.address], { mode: "fast" }), ...HASTY });
    const told: KeylaneError[] = [];
    lanes.on("error", (error) => told.push(error));
    await relay.refuse();
    relay.cut();
    await Promise.all([lanes.ledger.add("x", 5n, { id: "1" }), lanes.ledger.add("x", 6n, { id: "2" })]);
    assert.deepEqual(await lanes.close({ timeoutMs: 300 }), { lost: 2 });
    const lost = told.filter(({ code }) => code === "KEYLANE_ERR_LOST");
    assert.deepEqual(
      lost.map(({ message }) => message),
      ['ledger: 2 entries of account "x", 11 in all, were not booked'],
    );
  });

  it("C8: (c) callers are refused as soon as it closes, while the ledger still tries to book", async (t) => {
    const relay = await Relay.start(single.value.address);
    t.after(() => relay.stop());
    const lanes = await Keylane.open({ ...ledgerOptions([relay.address], { mode: "fast" }), ...HASTY });
    await lanes.ledger.add("late", 5n, { id: "1" });
    relay.down.stall = true;
    const transaction = lanes.multi("rb:x").incrBy("rb:x");
    const closing = lanes.close({ timeoutMs: 5000 });
    const calls = [
      lanes.get("rb:x"),
      lanes.get("rb:x", { timeoutMs: 100 }),
      lanes.set("rb:x", "1"),
      lanes.command("STRLEN", "rb:x"),
      lanes.command("BLPOP", "rb:x", 1),
      lanes.script("return 1").run("rb:x"),
      transaction.exec(),
    ];
    for (const call of calls) await rejection(call, "KEYLANE_ERR_CLOSED");
    relay.down.stall = false;
    assert.deepEqual(await closing, { lost: 0 });
  });

  it("C8: (c) in mode durable nothing is lost: the next instance books it", async (t) => {
    const relay = await Relay.start(single.value.address);
    t.after(() => relay.stop());
    const directory = makeFolder();
    const lanes = await Keylane.open({ ...ledgerOptions([relay.address], { directory }), ...HASTY });
    await relay.refuse();
    relay.cut();
    await lanes.ledger.add("kept", 5n, { id: "1" });
    assert.deepEqual(await lanes.close({ timeoutMs: 300 }), { lost: 0 });
    const next = await openLanes(ledgerOptions([single.value.address], { directory }));
    await next.ledger.flush();
    assert.equal(await balanceOf("kept"), "5");
  });
});
