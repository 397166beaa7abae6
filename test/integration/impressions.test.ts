/** Impressions on two servers: counted and billed, or neither, wherever the process or a server dies. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane } from "keylane";
import type { Cap, Impression, ImpressionResult, LedgerOptions, OpenOptions } from "keylane";
import { keysWithoutTtl } from "../support/caps.js";
import { useSingle } from "../support/fixtures.js";
import { capOf, DAY, dieBilled, impressionOf, impressionOptions, totalsOf } from "../support/impressions.js";
import type { Totals } from "../support/impressions.js";
import { openLanes, rejection } from "../support/lanes.js";
import { makeFolder } from "../support/ledger.js";
import { until } from "../support/until.js";

const answer = ({ allowed, booked, deniedBy, source }: ImpressionResult): unknown => [
  allowed,
  booked,
  deniedBy,
  source,
];

describe("impressions", () => {
  const frequency = useSingle();
  const billing = useSingle();
  const options = (ledger: LedgerOptions, caps: OpenOptions["caps"] = {}): OpenOptions =>
    impressionOptions([frequency.value.address, billing.value.address], ledger, caps);
  const totals = (user: string): Promise<Totals> => totalsOf(frequency.value.node, billing.value.node, user);
  /** Opens, asks, and closes when all is counted and booked. */
  async function ask(directory: string, ...impressions: readonly Impression[]): Promise<ImpressionResult[]> {
    await using lanes = await Keylane.open(options({ directory }));
    return Promise.all(impressions.map((impression) => lanes.impression(impression)));
  }

  it("count and bill what the caps allow, and neither what they deny", async () => {
    const lanes = await openLanes(options({ directory: makeFolder() }));
    const caps = [capOf("campaign", 2), { name: "creative", limit: 5, windowMs: DAY, sliding: true } as Cap];
    const results = [];
    for (const id of ["1", "2", "3"]) results.push(await lanes.impression(impressionOf("one", id, { caps })));
    assert.deepEqual(results.map(answer), [
      [true, true, null, "redis"],
      [true, true, null, "redis"],
      [false, false, "caps", "redis"],
    ]);
    assert.deepEqual(
      results.map((result) => result.caps.map(({ used, remaining }) => [used, remaining])),
      [
        [
          [1, 1],
          [1, 4],
        ],
        [
          [2, 0],
          [2, 3],
        ],
        [
          [2, 0],
          [2, 3],
        ],
      ],
    );
    await lanes.ledger.flush();
    assert.equal(lanes.ledger.pending().uncounted, 0);
    assert.deepEqual(await totals("one"), {
      used: { campaign: 2, creative: 2 },
      held: 0,
      ids: { 1: "b", 2: "b" },
      balance: 14n,
    });
  });

  it("answer an id always alike: at the same time, later, after a restart, in another process", async () => {
    const directory = makeFolder();
    const caps = [capOf("campaign", 1)];
    const first = impressionOf("alike", "first", { caps });
    const second = impressionOf("alike", "second", { caps });
    const lanes = await Keylane.open(options({ directory }));
    const [one, same] = await Promise.all([lanes.impression(first), lanes.impression({ ...first })]);
    assert.equal(one, same);
    const denied = await lanes.impression(second);
    assert.deepEqual([one, denied].map(answer), [
      [true, true, null, "redis"],
      [false, false, "caps", "redis"],
    ]);
    assert.deepEqual(await lanes.impression(first), one);
    await lanes.close();
    const again = await ask(directory, first, second);
    assert.deepEqual(again, [
      { ...one, source: "spool" },
      { ...denied, source: "spool" },
    ]);
    const [other] = await ask(makeFolder(), first);
    assert.deepEqual(answer(other!), [true, true, null, "redis"]);
    assert.deepEqual(await totals("alike"), { used: { campaign: 1 }, held: 0, ids: { first: "b" }, balance: 7n });
  });

  it("remember a denial after its window has ended", async () => {
    const lanes = await openLanes(options({ directory: makeFolder() }));
    const caps = [{ name: "campaign", limit: 1, windowMs: 40 }];
    await lanes.impression(impressionOf("remembers", "1", { caps }));
    assert.equal((await lanes.impression(impressionOf("remembers", "2", { caps }))).allowed, false);
    await sleep(60);
    assert.equal((await lanes.impression(impressionOf("remembers", "2", { caps }))).allowed, false);
    assert.equal((await lanes.impression(impressionOf("remembers", "3", { caps }))).allowed, true);
  });

  describe("when the process dies", () => {
    it("with the places reserved: they expire, nothing is billed, and the id can be asked again", async () => {
      const directory = makeFolder();
      const dying = await Keylane.open(options({ directory }, { reservationMs: 80 }));
      const caps = [capOf("campaign", 1)];
      assert.equal((await dying.caps.reserve("reserved", caps, { id: "1" })).allowed, true);
      dying.destroy();
      await sleep(100);
      assert.deepEqual(await totals("reserved"), { used: {}, held: 0, ids: {}, balance: 0n });
      const [result] = await ask(directory, impressionOf("reserved", "1", { caps }));
      assert.deepEqual(answer(result!), [true, true, null, "redis"]);
      assert.deepEqual(await totals("reserved"), { used: { campaign: 1 }, held: 0, ids: { 1: "b" }, balance: 7n });
    });

    for (const held of ["held", "expired"]) {
      it(`with the impression billed, and its reservation ${held}: it is counted though others have filled the cap`, async () => {
        const user = `billed-${held}`;
        const directory = makeFolder();
        const impression = impressionOf(user, "1", { caps: [capOf("campaign", 1)] });
        const dying = await Keylane.open(options({ directory }, { reservationMs: held === "held" ? 5000 : 20 }));
        await dying.caps.reserve(user, impression.caps, { id: "1" });
        dying.destroy();
        await dieBilled(directory, impression, Date.now());
        if (held === "expired") {
          await sleep(40);
          await ask(makeFolder(), impressionOf(user, "2", { caps: impression.caps }));
        }
        const [result, other] = await ask(directory, impression, impressionOf(user, "3", { caps: impression.caps }));
        assert.deepEqual(answer(result!), [true, true, null, "spool"]);
        assert.equal(other!.allowed, false);
        const count = held === "held" ? 1 : 2;
        const { used, balance, held: left } = await totals(user);
        assert.deepEqual([used, balance, left], [{ campaign: count }, BigInt(count) * 7n, 0]);
      });
    }

    it("with everything done: nothing is done twice, however often it is opened", async () => {
      const directory = makeFolder();
      const [one] = await ask(directory, impressionOf("done", "1"));
      assert.equal(one!.booked, true);
      for (let opened = 0; opened < 3; opened += 1) await ask(directory);
      assert.deepEqual(await totals("done"), { used: { campaign: 1 }, held: 0, ids: { 1: "b" }, balance: 7n });
    });
  });

  describe("when the frequency servers lose counts", () => {
    it("they are counted again, each once, and the cap stands", async () => {
      const lanes = await openLanes(options({ directory: makeFolder() }));
      const users = ["lost", "kept"];
      const ids = Array.from({ length: 20 }, (_, n) => `${n}`);
      const caps = [capOf("campaign", 20)];
      await Promise.all(
        users.flatMap((user) => ids.map((id) => lanes.impression(impressionOf(user, `${user}${id}`, { caps })))),
      );
      await lanes.ledger.flush();
      await frequency.value.node.command("DEL", "fc:caps:{lost}");
      await frequency.value.node.command("CLIENT", "KILL", "TYPE", "normal");
      await until(async () => (await totals("lost")).used["campaign"] === 20);
      await lanes.ledger.flush();
      for (const user of users) {
        const { used, balance } = await totals(user);
        assert.deepEqual([user, used, balance], [user, { campaign: 20 }, 140n]);
      }
      const late = await lanes.impression(impressionOf("lost", "late", { caps }));
      assert.deepEqual(answer(late), [false, false, "caps", "redis"]);
    });

    it("a count whose window has ended by then is not made in the next one", async () => {
      const at = Date.now() - 5000;
      const caps: Cap[] = [
        { name: "fixed", limit: 1, windowMs: 4000 },
        { name: "sliding", limit: 1, windowMs: 4000, sliding: true },
        { name: "long", limit: 1, windowMs: 60_000 },
        { name: "long sliding", limit: 1, windowMs: 60_000, sliding: true },
      ];
      const directory = makeFolder();
      await dieBilled(directory, impressionOf("ended", "1", { caps }), at);
      const monthly = impressionOf("ended", "2", { caps: [{ name: "civil", limit: 1, per: "month" }] });
      await dieBilled(directory, monthly, at - 40 * DAY);
      for (let opened = 0; opened < 3; opened += 1) await ask(directory);
      const { used, ids, balance } = await totals("ended");
      assert.deepEqual([used, ids, balance], [{ long: 1, "long sliding": 1 }, { 1: "b", 2: "b" }, 14n]);
      const [field] = (await frequency.value.node.command("HMGET", "fc:caps:{ended}", "f60000 long")) as [unknown];
      assert.ok(Number.parseInt(String(field), 10) <= at + 60_000, "the window began when it happened");
    });
  });

  it("take the place that a bid has reserved, and bill what a take has counted", async () => {
    const lanes = await openLanes(options({ directory: makeFolder() }));
    const caps = [capOf("campaign", 2)];
    await lanes.caps.reserve("bid", caps, { id: "1" });
    await lanes.caps.take("bid", caps, { id: "2" });
    const results = await Promise.all(["1", "2", "3"].map((id) => lanes.impression(impressionOf("bid", id, { caps }))));
    assert.deepEqual(
      results.map(({ allowed }) => allowed),
      [true, true, false],
    );
    await lanes.ledger.flush();
    const { used, ids, balance } = await totals("bid");
    assert.deepEqual([used, ids, balance], [{ campaign: 2 }, { 1: "b", 2: "b" }, 14n]);
    assert.equal(await lanes.caps.release("bid", caps, { id: "1" }), false);
  });

  for (const onError of ["allow", "deny", "throw"] as const) {
    it(`C7: undecided caps bill nothing, onError ${onError}`, async () => {
      const user = `undecided-${onError}`;
      const lanes = await openLanes({ ...options({ directory: makeFolder() }, { onError }), commandTimeoutMs: 100 });
      await frequency.value.node.command("SET", `fc:caps:{${user}}`, "no hash");
      const asked = lanes.impression(impressionOf(user, "1"));
      if (onError === "throw") await rejection(asked, "KEYLANE_ERR_WRONGTYPE");
      else {
        const denied = onError === "deny" ? "caps" : null;
        assert.deepEqual(answer(await asked), [denied === null, false, denied, "degraded"]);
      }
      await frequency.value.node.command("DEL", `fc:caps:{${user}}`);
      assert.equal((await totals(user)).balance, 0n);
      const later = await lanes.impression(impressionOf(user, "1"));
      assert.deepEqual(answer(later), [true, true, null, "redis"]);
      await lanes.ledger.flush();
      const { used, balance } = await totals(user);
      assert.deepEqual([used, balance], [{ campaign: 1 }, 7n]);
    });
  }

  it("deny what a budget has not left, and give the places back", async () => {
    const directory = makeFolder();
    const lanes = await Keylane.open(options({ directory }));
    const more = { caps: [capOf("campaign", 3)], budget: { name: "budget", limit: 15n } };
    const results = [];
    for (const id of ["1", "2", "3"]) results.push(await lanes.impression(impressionOf("budget", id, more)));
    assert.deepEqual(results.map(answer), [
      [true, true, null, "redis"],
      [true, true, null, "redis"],
      [false, false, "budget", "redis"],
    ]);
    await lanes.close();
    const [again] = await ask(
      directory,
      impressionOf("budget", "3", { ...more, budget: { name: "budget", limit: 99n } }),
    );
    assert.deepEqual(answer(again!), [false, false, "budget", "spool"]);
    const { used, held, balance } = await totals("budget");
    assert.deepEqual([used, held, balance], [{ campaign: 2 }, 0, 14n]);
  });

  it("give the places back when the spool takes no more", async () => {
    const lanes = await openLanes(options({ directory: makeFolder(), maxPending: 1 }));
    await billing.value.node.command("SET", "rb:ledger:{full}", "no hash");
    assert.equal((await lanes.impression(impressionOf("full", "1"))).booked, true);
    await rejection(lanes.impression(impressionOf("full", "2")), "KEYLANE_ERR_OVERLOADED", { outcome: "not-sent" });
    await until(async () => (await frequency.value.node.command("HEXISTS", "fc:caps:{full}", "i2")) === 0);
    await until(() => lanes.ledger.pending().uncounted === 0);
    assert.deepEqual((await frequency.value.node.command("HEXISTS", "fc:caps:{full}", "i1")) as number, 1);
    await billing.value.node.command("DEL", "rb:ledger:{full}");
    await lanes.ledger.flush();
    assert.equal((await lanes.impression(impressionOf("full", "2"))).booked, true);
    await lanes.ledger.flush();
    const { used, held, balance } = await totals("full");
    assert.deepEqual([used, held, balance], [{ campaign: 2 }, 0, 14n]);
  });

  it("run over a pool's workers, too; P4: a server that has lost the scripts gets them again", async () => {
    const lanes = await openLanes({ ...options({ directory: makeFolder() }), threads: 1 });
    for (const id of ["1", "2"]) {
      assert.equal((await lanes.impression(impressionOf("pooled", id))).booked, true);
      await lanes.ledger.flush();
      await frequency.value.node.command("SCRIPT", "FLUSH");
      await billing.value.node.command("SCRIPT", "FLUSH");
    }
    const { used, balance } = await totals("pooled");
    assert.deepEqual([used, balance], [{ campaign: 2 }, 14n]);
  });

  it("C6: amounts and sums past 2^53 are exact", async () => {
    const amounts = [2n ** 53n, 1n, 2n ** 62n, -3n];
    const asked = amounts.map((amount, n) => impressionOf("exact", `${n}`, { amount, caps: [capOf("campaign", 9)] }));
    await ask(makeFolder(), ...asked);
    const { used, balance } = await totals("exact");
    assert.deepEqual([used, balance], [{ campaign: 4 }, 2n ** 62n + 2n ** 53n - 2n]);
  });

  it("refuse what is not valid, an id of another impression, and a ledger that is not durable", async () => {
    const directory = makeFolder();
    const lanes = await openLanes(options({ directory }));
    const valid = impressionOf("valid", "1");
    await lanes.impression(valid);
    const wrong: readonly [Partial<Record<keyof Impression, unknown>>, RegExp][] = [
      [{ user: "" }, /user/],
      [{ caps: [] }, /caps/],
      [{ caps: undefined }, /caps/],
      [{ amount: 5 }, /amount/],
      [{ account: "" }, /account/],
      [{ id: undefined }, /id/],
      [{ timeoutMs: 0 }, /timeoutMs/],
      [{ budget: 5 }, /budget/],
    ];
    for (const [part, message] of wrong) {
      const asked = { ...valid, id: "wrong", ...part } as Impression;
      await rejection(lanes.impression(asked), "KEYLANE_ERR_ARGUMENT", { outcome: "not-sent", message });
    }
    const long = Array.from({ length: 64 }, (_, n) => capOf(`${n}${"\0".repeat(200)}`));
    await rejection(lanes.impression({ ...valid, id: "long", caps: long }), "KEYLANE_ERR_TOO_LARGE");
    for (const part of [{ amount: 8n }, { user: "other" }, { caps: [capOf("other")] }]) {
      await rejection(lanes.impression({ ...valid, ...part }), "KEYLANE_ERR_ARGUMENT", {
        message: /another impression/,
      });
    }
    await lanes.ledger.flush();
    assert.deepEqual(await totals("valid"), { used: { campaign: 1 }, held: 0, ids: { 1: "b" }, balance: 7n });
    const fast = await openLanes(options({ mode: "fast" }));
    await rejection(fast.impression(valid), "KEYLANE_ERR_OPTIONS", { message: /durable/ });
    await lanes.close();
    await rejection(lanes.impression({ ...valid, id: "late" }), "KEYLANE_ERR_CLOSED");
  });

  it("C1: leave no key of the frequency servers without a TTL", async () => {
    assert.deepEqual(await keysWithoutTtl(frequency.value.node), []);
  });
});
