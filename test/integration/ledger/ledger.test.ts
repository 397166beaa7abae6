/** The ledger on real servers: exact sums, ids, arguments, order, and what happens when it ends. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { describe, it } from "node:test";
import { Keylane } from "keylane";
import type { KeylaneError } from "keylane";
import { useSingle } from "../../support/fixtures.js";
import { openLanes, rejection, thrown } from "../../support/lanes.js";
import { ledgerOptions, makeFolder } from "../../support/ledger.js";
import { nextEvent, until } from "../../support/until.js";

const MAX = 2n ** 63n - 1n;

describe("the ledger", () => {
  const single = useSingle();
  const options = (ledger: object): ReturnType<typeof ledgerOptions> => ledgerOptions([single.value.address], ledger);
  const open = (ledger: object = { directory: makeFolder() }): Promise<Keylane> =>
    openLanes(options(ledger)) as unknown as Promise<Keylane>;

  for (const mode of ["durable", "fast"] as const) {
    it(`books every entry once, mode ${mode}`, async () => {
      const { ledger } = await open(mode === "fast" ? { mode } : { directory: makeFolder() });
      const sums = new Map<string, bigint>();
      const added = Array.from({ length: 5000 }, (_, n) => {
        const account = `${mode}:${n % 7}`;
        const amount = BigInt((n * 7919) % 1000) - 300n;
        sums.set(account, (sums.get(account) ?? 0n) + amount);
        return ledger.add(account, amount, { id: `id${n}` });
      });
      await Promise.all(added);
      await ledger.flush();
      for (const [account, sum] of sums) assert.equal(await ledger.balance(account), sum, account);
      const { entries, accounts, kept, failing } = ledger.pending();
      assert.deepEqual({ entries, accounts, kept, failing }, { entries: 0, accounts: 0, kept: 5000, failing: [] });
      assert.equal(await ledger.balance(`${mode}:none`), 0n);
    });
  }

  it("an id is booked once, whoever adds it, and however often", async () => {
    const [one, two] = [await open(), await open()];
    await Promise.all([1, 2, 3].map(() => one.ledger.add("dup", 10n, { id: "same" })));
    await one.ledger.flush();
    await two.ledger.add("dup", 10n, { id: "same" });
    await two.ledger.add("dup", 1n, { id: "other" });
    await two.ledger.add("dup2", 5n, { id: "same" });
    await two.ledger.flush();
    assert.equal(await one.ledger.balance("dup"), 11n);
    assert.equal(await one.ledger.balance("dup2"), 5n);
    assert.deepEqual([one.ledger.pending().duplicates, two.ledger.pending().duplicates], [2, 1]);
  });

  it("C6: sums are exact beyond 2^53, to the last of 64 bits", async () => {
    const { ledger } = await open();
    await ledger.add("exact", 9_007_199_254_740_992n, { id: "1" });
    await ledger.add("exact", 1n, { id: "2" });
    await ledger.flush();
    assert.equal(await ledger.balance("exact"), 9_007_199_254_740_993n);
    await ledger.add("exact", MAX - 9_007_199_254_740_993n, { id: "3" });
    await ledger.flush();
    assert.equal(await ledger.balance("exact"), MAX);
    await ledger.add("exact", -MAX, { id: "4" });
    await ledger.add("exact", -MAX, { id: "5" });
    await ledger.flush();
    assert.equal(await ledger.balance("exact"), -MAX);
  });

  it("C6: a balance never leaves 64 bits: the entry waits and is told, those before it are booked", async () => {
    const lanes = await open();
    const { ledger } = lanes;
    const told = nextEvent(lanes, "error");
    const entries = [MAX - 5n, 3n, 4n, 1n].map((amount, n) => ledger.add("full", amount, { id: `${n}` }));
    await Promise.all(entries);
    await rejection(ledger.flush(), "KEYLANE_ERR_OVERFLOW", {
      message: /^ledger: 4 \(id "2"\) would take account "full"/,
    });
    const [error] = (await told) as [KeylaneError];
    assert.equal(error.code, "KEYLANE_ERR_OVERFLOW");
    assert.equal(await ledger.balance("full"), MAX - 2n);
    assert.deepEqual(ledger.pending().failing, [{ account: "full", code: "KEYLANE_ERR_OVERFLOW" }]);
    // Others go on, and so does it once there is room.
    await ledger.add("free", 1n, { id: "x" });
    await until(async () => (await ledger.balance("free")) === 1n);
    const book = "rb:ledger:{full}";
    const fields = (await single.value.node.command("HKEYS", book)) as string[];
    for (const field of ["balance", fields.find((name) => name.endsWith(":sum"))!]) {
      await single.value.node.command("HINCRBY", book, field, -100);
    }
    await ledger.flush();
    assert.equal(await ledger.balance("full"), MAX + 3n - 100n);
  });

  it("C6: bad input is refused before anything is written", async () => {
    const { ledger } = await open();
    const add = ledger.add.bind(ledger) as (...args: unknown[]) => Promise<void>;
    const charge = ledger.charge.bind(ledger) as unknown as (...args: unknown[]) => Promise<void>;
    const bad: unknown[][] = [
      ["a", 1.5, { id: "1" }],
      ["a", 1, { id: "1" }],
      ["a", "1", { id: "1" }],
      ["a", Number.NaN, { id: "1" }],
      ["a", MAX + 1n, { id: "1" }],
      ["a", -MAX - 1n, { id: "1" }],
      ["", 1n, { id: "1" }],
      [7, 1n, { id: "1" }],
      ["\ud800", 1n, { id: "1" }],
      ["a", 1n, {}],
      ["a", 1n, undefined],
      ["a", 1n, { id: "" }],
      ["a", 1n, { id: "1", at: Number.NaN }],
      ["a", 1n, { id: "1", at: -1 }],
    ];
    for (const args of bad) await rejection(add(...args), "KEYLANE_ERR_ARGUMENT", { outcome: "not-sent" });
    await rejection(add("a".repeat(513), 1n, { id: "1" }), "KEYLANE_ERR_TOO_LARGE");
    await rejection(add("a", 1n, { id: "ä".repeat(128) }), "KEYLANE_ERR_TOO_LARGE");
    for (const budget of [undefined, null, "b", 5, -1n, 2n ** 53n, { name: "b" }, { name: "", limit: 1n }]) {
      await rejection(charge("a", 1n, { id: "1", budget }), "KEYLANE_ERR_ARGUMENT");
    }
    await rejection(charge("a", -1n, { id: "1", budget: 10n }), "KEYLANE_ERR_ARGUMENT");
    await rejection(charge("a", 1n, { id: "1", budget: 10n, timeoutMs: 0 }), "KEYLANE_ERR_ARGUMENT");
    await rejection(ledger.balance(7 as never), "KEYLANE_ERR_ARGUMENT");
    await rejection(ledger.flush({ timeoutMs: -1 }), "KEYLANE_ERR_ARGUMENT");
    assert.deepEqual([ledger.pending().entries, ledger.pending().kept], [0, 0]);
  });

  it("C7: an account of another type is an error of that account only, told once, and never a balance", async () => {
    const lanes = await open();
    const { ledger } = lanes;
    await single.value.node.command("RPUSH", "rb:ledger:{list}", "x");
    const errors: KeylaneError[] = [];
    lanes.on("error", (error) => errors.push(error));
    await Promise.all([ledger.add("list", 1n, { id: "1" }), ledger.add("sound", 1n, { id: "1" })]);
    await rejection(ledger.flush(), "KEYLANE_ERR_WRONGTYPE");
    await rejection(ledger.balance("list"), "KEYLANE_ERR_WRONGTYPE");
    await until(async () => (await ledger.balance("sound")) === 1n);
    assert.deepEqual(
      errors.map(({ code }) => code),
      ["KEYLANE_ERR_WRONGTYPE"],
    );
    await single.value.node.command("DEL", "rb:ledger:{list}");
    await ledger.flush();
    assert.equal(await ledger.balance("list"), 1n);
  });

  it("C7: a server out of memory books nothing by halves; entries are booked when there is room", async (t) => {
    const { node } = single.value;
    const { ledger } = await open();
    await ledger.add("oom", 1n, { id: "1" });
    await ledger.flush();
    await node.command("CONFIG", "SET", "maxmemory", "1mb");
    t.after(() => node.command("CONFIG", "SET", "maxmemory", "0"));
    await ledger.add("oom", 2n, { id: "2" });
    await until(() => ledger.pending().failing.length === 1);
    assert.deepEqual(ledger.pending().failing, [{ account: "oom", code: "KEYLANE_ERR_OOM" }]);
    assert.equal(await node.command("HGET", "rb:ledger:{oom}", "balance"), "1");
    await rejection(ledger.flush({ timeoutMs: 50 }), "KEYLANE_ERR_TIMEOUT", { outcome: "not-sent" });
    await node.command("CONFIG", "SET", "maxmemory", "0");
    await ledger.flush();
    assert.equal(await ledger.balance("oom"), 3n);
  });

  it("an account that cannot be booked keeps no other from being booked before the end", async () => {
    await single.value.node.command("RPUSH", "rb:ledger:{stuck}", "x");
    const lanes = await Keylane.open(options({ mode: "fast", batchSize: 1 }));
    const { ledger } = lanes;
    const added = Array.from({ length: 300 }, (_, n) => ledger.add("behind", 1n, { id: `${n}` }));
    await Promise.all([ledger.add("stuck", 1n, { id: "1" }), ...added]);
    assert.deepEqual(await lanes.close(), { lost: 1 });
    assert.equal(await single.value.node.command("HGET", "rb:ledger:{behind}", "balance"), "300");
  });

  it("accounts of any name have balances of their own", async () => {
    const { ledger } = await open();
    const names = ["a}b", "a%7db", "{", "{}", "%", "ü", "a b", "\0", "a\r\nb"];
    await Promise.all(names.map((name, n) => ledger.add(name, BigInt(n + 1), { id: "1" })));
    await ledger.flush();
    for (const [n, name] of names.entries()) assert.equal(await ledger.balance(name), BigInt(n + 1), name);
  });

  it("what a closed or destroyed one left in its spool is booked by the next", async () => {
    const directory = makeFolder();
    const first = await Keylane.open(options({ directory }));
    await first.ledger.add("left", 1n, { id: "1" });
    first.destroy();
    await rejection(first.ledger.add("left", 1n, { id: "2" }), "KEYLANE_ERR_CLOSED");
    const second = await Keylane.open(options({ directory }));
    await second.ledger.flush();
    assert.equal(await second.ledger.balance("left"), 1n);
    await second.ledger.add("left", 1n, { id: "3" });
    assert.deepEqual(await second.close(), { lost: 0 });
    assert.equal(await single.value.node.command("HGET", "rb:ledger:{left}", "balance"), "2");
  });

  it("a folder that was copied while its ledger went on is told", async () => {
    const [directory, copy] = [makeFolder(), makeFolder()];
    for (const id of ["1", "2"]) {
      const lanes = await Keylane.open(options({ directory }));
      await lanes.ledger.add("copied", 1n, { id });
      await lanes.ledger.flush();
      await lanes.close();
      if (id === "1") cpSync(directory, copy, { recursive: true });
    }
    const lanes = await open({ directory: copy });
    const [error] = (await nextEvent(lanes, "error")) as [KeylaneError];
    assert.equal(error.code, "KEYLANE_ERR_SPOOL");
    assert.match(error.message, /entries of account "copied" that it does not hold/);
    await lanes.ledger.flush();
    assert.equal(await lanes.ledger.balance("copied"), 2n);
  });

  it("options are checked; without them there is no ledger", async () => {
    const lanes = await openLanes({
      domains: { d: { prefixes: ["x:"], nodes: [single.value.address], mode: "single" } },
    });
    thrown(() => lanes.ledger, "KEYLANE_ERR_OPTIONS", { message: /no ledger/ });
    const wrong: [object, RegExp][] = [
      [{}, /ledger\.directory: mode "durable" needs it/],
      [{ mode: "fast", directory: "x" }, /ledger\.directory: mode "fast"/],
      [{ mode: "slow" }, /ledger\.mode/],
      [{ directory: "x", domain: "none" }, /ledger\.domain: there is no domain "none"/],
      [{ directory: "x", batchSize: 0 }, /ledger\.batchSize/],
      [{ directory: "x", keepBookedMs: 2 ** 31 }, /ledger\.keepBookedMs/],
      [{ directory: "x", leaseMs: 1 }, /ledger\.leaseMs/],
    ];
    for (const [ledger, message] of wrong)
      await rejection(Keylane.open(options(ledger)), "KEYLANE_ERR_OPTIONS", { message });
    const nodes = [single.value.address];
    const domains = {
      a: { prefixes: ["rb:"], nodes, mode: "single" },
      b: { prefixes: ["rb:ledger:"], nodes, mode: "single" },
    } as const;
    await rejection(Keylane.open({ domains, ledger: { mode: "fast" } }), "KEYLANE_ERR_OPTIONS", {
      message: /go to b, not to a/,
    });
  });
});
