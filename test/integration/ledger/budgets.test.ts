/** Budgets: many spenders, leases that return, holders that die. The budget is never overspent, and hardly a unit is left. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Keylane } from "keylane";
import type { KeylaneError } from "keylane";
import { useC3, useSingle } from "../../support/fixtures.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { ledgerOptions, makeFolder } from "../../support/ledger.js";
import { Relay } from "../../support/relay.js";
import { until } from "../../support/until.js";

describe("budgets", () => {
  const c3 = useC3();
  const single = useSingle();
  const options = (ledger: object): ReturnType<typeof ledgerOptions> =>
    ledgerOptions(c3.value.seeds, ledger, "cluster");
  const open = (ledger: object): Promise<Keylane> => openLanes(options(ledger)) as unknown as Promise<Keylane>;

  /** Scripts that the servers have run. */
  const scriptsRun = async (): Promise<number> => {
    const stats = await Promise.all(c3.value.primaries.map((node) => node.command("INFO", "commandstats")));
    return stats.reduce((sum: number, text) => sum + Number(/evalsha:calls=(\d+)/.exec(String(text))?.[1] ?? 0), 0);
  };

  it("8 spenders race for 1,000,000 units: never above, and 99.9 % spent in the end", async () => {
    const LIMIT = 1_000_000n;
    const budget = { name: "race", limit: LIMIT };
    const spenders = await Promise.all(
      Array.from({ length: 8 }, (_, at) => open(at % 2 === 0 ? { mode: "fast" } : { directory: makeFolder() })),
    );
    let spent = 0n;
    const spend = async ({ ledger }: Keylane, at: number): Promise<void> => {
      for (let n = 0, refused = 0; refused < 3; n += 1) {
        const charges = Array.from({ length: 40 }, (_, k) => {
          const amount = BigInt(1 + ((n * 31 + k * 17 + at * 7) % 60));
          return ledger.charge(`race:${at}`, amount, { id: `${at}.${n}.${k}`, budget }).then(({ charged }) => {
            if (charged) spent += amount;
            assert.ok(spent <= LIMIT, `${spent}`);
            return charged;
          });
        });
        refused = (await Promise.all(charges)).some(Boolean) ? 0 : refused + 1;
      }
    };
    await Promise.all(spenders.map(spend));
    await Promise.all(spenders.map(({ ledger }) => ledger.flush()));
    const balances = await Promise.all(spenders.map((_, at) => spenders[0]!.ledger.balance(`race:${at}`)));
    assert.equal(
      balances.reduce((sum, balance) => sum + balance),
      spent,
    );
    assert.ok(spent <= LIMIT && spent >= (LIMIT * 999n) / 1000n, `${spent} of ${LIMIT}`);
  });

  it("what a closed spender did not spend is there for others at once", async () => {
    const budget = { name: "closed", limit: 1000n };
    for (const ledger of [{ mode: "fast" }, { directory: makeFolder() }]) {
      const one = await Keylane.open(options(ledger));
      assert.equal(
        (await one.ledger.charge("x", 1n, { id: `closed:${JSON.stringify(ledger)}`, budget })).charged,
        true,
      );
      await one.close();
    }
    const two = await open({ mode: "fast" });
    assert.equal((await two.ledger.charge("x", 999n, { id: "much", budget })).charged, false);
    assert.equal((await two.ledger.charge("x", 998n, { id: "all", budget })).charged, true);
  });

  it("a lease that nobody uses returns by itself", async () => {
    const budget = { name: "unused", limit: 100n };
    const one = await open({ mode: "fast", leaseMs: 100 });
    const two = await open({ mode: "fast", leaseMs: 100 });
    await one.ledger.charge("x", 1n, { id: "unused:1", budget });
    const result = await until(async () => {
      const { charged } = await two.ledger.charge("x", 99n, { id: "unused:2", budget });
      return charged;
    });
    assert.equal(result, true);
  });

  it("a crashed holder's lease expires back; what it may have spent returns with its spool; nothing is overspent", async () => {
    const budget = { name: "crash", limit: 1000n };
    const directory = makeFolder();
    const one = await Keylane.open(options({ directory, leaseMs: 100 }));
    const first = await one.ledger.charge("x", 2n, { id: "crash:1", budget });
    assert.ok(first.charged && first.leased > 0n);
    one.destroy();
    const two = await open({ mode: "fast", leaseMs: 60_000 });
    let spent = 2n;
    const spend = async (): Promise<boolean> => {
      const { charged } = await two.ledger.charge("x", 1n, { id: `crash:${spent}`, budget });
      if (charged) spent += 1n;
      return charged;
    };
    // All but what the dead one could have spent without asking.
    const most = 1000n - first.leased;
    await until(async () => {
      while (await spend());
      return spent >= most;
    });
    assert.equal(spent, most);
    const again = await open({ directory, leaseMs: 100 });
    await until(async () => {
      while (await spend());
      return spent === 1000n;
    });
    assert.equal((await again.ledger.charge("x", 1n, { id: "crash:over", budget })).charged, false);
  });

  it("a repeated charge gets the same answer and is charged once; a duplicate of another process is refunded", async () => {
    const budget = { name: "twice", limit: 10n };
    const one = await open({ mode: "fast" });
    const two = await open({ mode: "fast" });
    const charge = ({ ledger }: Keylane, id: string, amount: bigint): Promise<{ charged: boolean }> =>
      ledger.charge("twice", amount, { id, budget });
    assert.deepEqual(
      (await Promise.all([charge(one, "a", 6n), charge(one, "a", 6n), charge(one, "a", 6n)])).map((r) => r.charged),
      [true, true, true],
    );
    await one.ledger.flush();
    assert.equal((await charge(two, "a", 4n)).charged, true);
    await two.ledger.flush();
    assert.equal((await charge(two, "b", 4n)).charged, true);
    await two.ledger.flush();
    assert.equal(await one.ledger.balance("twice"), 10n);
    assert.equal((await charge(two, "c", 1n)).charged, false);
  });

  it("a bigint is the limit of the account's own budget; a limit may be raised", async () => {
    const { ledger } = await open({ mode: "fast" });
    const charge = async (id: string, amount: bigint, budget: bigint): Promise<boolean> =>
      (await ledger.charge("own", amount, { id, budget })).charged;
    assert.equal(await charge("1", 5n, 5n), true);
    assert.equal(await charge("2", 1n, 5n), false);
    assert.equal(await charge("2", 1n, 6n), true);
    assert.equal(await charge("3", 0n, 6n), true);
    await ledger.flush();
    assert.equal(await ledger.balance("own"), 6n);
  });

  it("charges that wait keep their own time limits and signals, and end nobody else's", async (t) => {
    const relay = await Relay.start(single.value.address);
    t.after(() => relay.stop());
    const { ledger } = (await openLanes(ledgerOptions([relay.address], { mode: "fast" }))) as unknown as Keylane;
    const charge = (id: string, more: object = {}): Promise<{ charged: boolean }> =>
      ledger.charge("wait", 1n, { id, budget: 100n, ...more });
    relay.down.stall = true;
    const given = new AbortController();
    const first = charge("1", { signal: given.signal });
    const second = charge("2");
    await rejection(charge("3", { timeoutMs: 20 }), "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent" });
    given.abort();
    await rejection(first, "KEYLANE_ERR_ABORTED", { outcome: "not-sent" });
    relay.down.stall = false;
    assert.equal((await second).charged, true);
    await ledger.flush();
    assert.equal(await ledger.balance("wait"), 1n);
  });

  it("a budget that is used up refuses all that wait by one answer", async () => {
    const { ledger } = await open({ mode: "fast" });
    const budget = { name: "used up", limit: 10n };
    const charges = (turn: string, amount: bigint): Promise<boolean>[] =>
      Array.from({ length: 500 }, async (_, n) => {
        const { charged } = await ledger.charge("x", amount, { id: `up:${turn}:${n}`, budget });
        return charged;
      });
    const first = await Promise.all(charges("1", 1n));
    assert.equal(first.filter(Boolean).length, 10);
    await ledger.flush();
    const before = await scriptsRun();
    assert.ok((await Promise.all(charges("2", 1n))).every((charged) => !charged));
    assert.ok((await scriptsRun()) - before <= 10, `${(await scriptsRun()) - before} calls`);
  });

  it("a ledger that is closed takes nothing out of a budget", async () => {
    const lanes = await Keylane.open(options({ mode: "fast" }));
    const { ledger } = lanes;
    const budget = { name: "after", limit: 10n };
    await ledger.charge("x", 1n, { id: "after:1", budget });
    await lanes.close();
    await rejection(ledger.charge("x", 1n, { id: "after:2", budget }), "KEYLANE_ERR_CLOSED", { outcome: "not-sent" });
  });

  it("C7: servers that cannot be asked, or hold something else, charge nothing and say so", async () => {
    const { ledger } = await open({ mode: "fast" });
    const key = "rb:budget:{odd}";
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: c3.value.seeds } } });
    await lanes.command("RPUSH", key, "x");
    await rejection(ledger.charge("x", 1n, { id: "odd", budget: { name: "odd", limit: 5n } }), "KEYLANE_ERR_WRONGTYPE");
    const aborted = ledger.charge("x", 1n, {
      id: "odd2",
      budget: { name: "other", limit: 5n },
      signal: AbortSignal.abort(),
    });
    await rejection(aborted, "KEYLANE_ERR_ABORTED");
    assert.equal(ledger.pending().entries, 0);
    await lanes.del(key);
    const again = await ledger.charge("x", 1n, { id: "odd", budget: { name: "odd", limit: 5n } });
    assert.equal(again.charged, true);
    await ledger.flush().catch((error: KeylaneError) => assert.fail(error));
  });
});
