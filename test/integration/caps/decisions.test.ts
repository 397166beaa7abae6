/** Decisions about caps on real servers: every kind of window, ids, reservations, refunds, and what is left behind. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "node:test";
import type { Cap, CapsResult } from "keylane";
import { capsOptions, keysWithoutTtl } from "../../support/caps.js";
import { useC3 } from "../../support/fixtures.js";
import { rejection, useLanes } from "../../support/lanes.js";
import { until } from "../../support/until.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const fixed = (name: string, limit: number, windowMs = DAY): Cap => ({ name, limit, windowMs });
const sliding = (name: string, limit: number, windowMs = HOUR): Cap => ({ name, limit, windowMs, sliding: true });
const used = ({ caps: states }: CapsResult): number[] => states.map((state) => state.used);

describe("caps", () => {
  const c3 = useC3();
  const fixture = useLanes(() => capsOptions(c3.value.seeds));
  const caps = (): (typeof fixture.value)["caps"] => fixture.value.caps;

  describe("take", () => {
    it("counts all caps until one is used up, and then none", async () => {
      const list: Cap[] = [
        fixed("campaign:1", 3),
        sliding("creative:9", 2),
        { name: "advertiser:4", limit: 10, per: "day", timeZone: "America/Los_Angeles" },
      ];
      const results: CapsResult[] = [];
      for (let i = 0; i < 4; i += 1) results.push(await caps().take("all-or-none", list));
      assert.deepEqual(
        results.map(({ allowed, source }) => [allowed, source]),
        [
          [true, "redis"],
          [true, "redis"],
          [false, "redis"],
          [false, "cache"],
        ],
      );
      assert.deepEqual(results.slice(0, 3).map(used), [
        [1, 1, 1],
        [2, 2, 2],
        [2, 2, 2],
      ]);
      const [campaign, creative, advertiser] = results[1]!.caps;
      assert.deepEqual(
        [campaign, creative, advertiser].map((cap) => [cap!.name, cap!.limit, cap!.remaining]),
        [
          ["campaign:1", 3, 1],
          ["creative:9", 2, 0],
          ["advertiser:4", 10, 8],
        ],
      );
      const { caps: states } = await caps().check("all-or-none", [list[0]!, list[2]!]);
      assert.deepEqual(
        states.map((state) => state.used),
        [2, 2],
        "the caps that had room were not counted",
      );
    });

    it("concurrent calls of one tick admit exactly the limit", async () => {
      const list = [fixed("race", 50), sliding("race too", 60)];
      const results = await Promise.all(Array.from({ length: 300 }, () => caps().take("concurrent", list)));
      assert.equal(results.filter(({ allowed }) => allowed).length, 50);
      assert.deepEqual(used(await caps().check("concurrent", [list[1]!])), [50]);
    });

    it("C1: a fixed window begins with its first count and is not prolonged by later ones", async () => {
      const list = [fixed("w", 2, 400)];
      const user = "first count";
      const first = await caps().take(user, list);
      await sleep(150);
      const second = await caps().take(user, list);
      assert.equal(second.caps[0]!.resetsAtMs, first.caps[0]!.resetsAtMs);
      const denied = await caps().take(user, list);
      assert.deepEqual([denied.allowed, denied.caps[0]!.resetsAtMs], [false, first.caps[0]!.resetsAtMs]);
      const again = await until(async () => {
        const result = await caps().take(user, list);
        return result.allowed ? result : null;
      });
      assert.deepEqual(used(again), [1]);
      assert.ok(again.caps[0]!.resetsAtMs >= first.caps[0]!.resetsAtMs + 400);
    });

    it("a sliding window gives back one count after the other", async () => {
      const list = [sliding("s", 2, 600)];
      const first = await caps().take("slides", list);
      await sleep(300);
      const second = await caps().take("slides", list);
      assert.deepEqual([used(first), used(second)], [[1], [2]]);
      const third = await until(async () => {
        const result = await caps().take("slides", list);
        return result.allowed ? result : null;
      });
      assert.deepEqual(used(third), [2], "only the first count has left");
    });

    it("civil days end at the zone's midnight by the server's clock", async () => {
      const zones = ["UTC", "Asia/Kathmandu", "America/Los_Angeles"];
      const list = zones.map((timeZone): Cap => ({ name: timeZone, limit: 1, per: "day", timeZone }));
      const { caps: states } = await caps().take("civil", list);
      for (const { name, resetsAtMs } of states) {
        const shown = new Intl.DateTimeFormat("sv-SE", { timeZone: name, timeStyle: "medium" }).format(resetsAtMs);
        assert.equal(shown, "00:00:00", name);
        assert.ok(resetsAtMs > Date.now() && resetsAtMs - Date.now() <= 25 * HOUR, name);
      }
    });

    it("the limit belongs to the call: raised, it is asked for; lowered, it denies until enough has left", async () => {
      const user = "limits";
      for (let i = 0; i < 3; i += 1) await caps().take(user, [fixed("x", 3)]);
      assert.equal((await caps().take(user, [fixed("x", 3)])).allowed, false);
      assert.equal((await caps().take(user, [fixed("x", 3)])).source, "cache");
      assert.deepEqual(used(await caps().take(user, [fixed("x", 4)])), [4]);
      const lowered = await caps().take(user, [fixed("x", 2)]);
      assert.deepEqual([lowered.allowed, lowered.caps[0]!.used, lowered.caps[0]!.remaining], [false, 4, 0]);
    });

    it("names, users and ids of any text", async () => {
      const list = [fixed('na me "}{"\r\n', 1), fixed("ünï 💶", 1, HOUR)];
      for (const user of ["{}", "}{", "a b\r\n", "💶", "{tag}more"]) {
        assert.equal((await caps().take(user, list, { id: "i d}\n" })).allowed, true, user);
        assert.equal((await caps().take(user, list, { id: "i d}\n" })).allowed, true, user);
        assert.equal((await caps().take(user, list, { id: "other" })).allowed, false, user);
      }
    });

    it("what has ended leaves the user's hash, which ends with its last window", async () => {
      const user = "short lived";
      for (let i = 0; i < 120; i += 1) await caps().take(user, [fixed(`c${i}`, 1, 5)], { id: `id${i}` });
      const fields = (await fixture.value.command("HLEN", `fc:caps:{${user}}`)) as number;
      assert.ok(fields < 120, `${fields} fields`);
      await until(async () => (await fixture.value.ttl(`fc:caps:{${user}}`)) === null);
    });
  });

  describe("ids", () => {
    it("the same id is answered as before and not counted, even when the user is denied by now", async () => {
      const list = [fixed("a", 2), sliding("b", 5)];
      const first = await caps().take("idempotent", list, { id: "one" });
      assert.deepEqual(await caps().take("idempotent", list, { id: "one" }), first);
      await caps().take("idempotent", list, { id: "two" });
      assert.equal((await caps().take("idempotent", list, { id: "three" })).allowed, false);
      assert.equal((await caps().take("idempotent", list, { id: "four" })).source, "cache");
      const again = await caps().take("idempotent", list.toReversed(), { id: "one" });
      assert.deepEqual([again.allowed, again.source, used(again)], [true, "redis", [2, 2]]);
    });

    it("an id of other caps is refused", async () => {
      await caps().take("other caps", [fixed("a", 2)], { id: "x" });
      const expected = { message: /stands for other caps/, outcome: "rejected" } as const;
      await rejection(caps().take("other caps", [fixed("b", 2)], { id: "x" }), "KEYLANE_ERR_ARGUMENT", expected);
      await rejection(caps().refund("other caps", [fixed("b", 2)], { id: "x" }), "KEYLANE_ERR_ARGUMENT", expected);
    });

    it("is forgotten after the longest window of its caps", async () => {
      const list = [fixed("a", 9, 100), fixed("b", 9, 200)];
      await caps().take("forgets", list, { id: "x" });
      await sleep(220);
      assert.deepEqual(used(await caps().take("forgets", list, { id: "x" })), [1, 1]);
    });
  });

  describe("reserve, commit, release, refund", () => {
    const list = [fixed("a", 2), sliding("b", 2), { name: "c", limit: 2, per: "month" } as const];

    it("places are held, counted by commit, and given back by release", async () => {
      const user = "reserves";
      assert.deepEqual(used(await caps().reserve(user, list, { id: "1" })), [1, 1, 1]);
      assert.deepEqual(used(await caps().reserve(user, list, { id: "1" })), [1, 1, 1]);
      assert.deepEqual(used(await caps().reserve(user, list, { id: "2" })), [2, 2, 2]);
      assert.equal((await caps().take(user, list)).allowed, false);
      assert.equal((await caps().take(user, list)).source, "cache");
      assert.equal(await caps().release(user, list, { id: "2" }), true);
      assert.equal(await caps().release(user, list, { id: "2" }), false);
      assert.deepEqual(used(await caps().commit(user, list, { id: "1" })), [1, 1, 1]);
      assert.deepEqual(used(await caps().commit(user, list, { id: "1" })), [1, 1, 1]);
      assert.equal(await caps().release(user, list, { id: "1" }), false, "a count is not released");
      assert.deepEqual(used(await caps().take(user, list, { id: "3" })), [2, 2, 2]);
    });

    it("a commit goes through though the limit was lowered meanwhile; a take of the id is a commit", async () => {
      await caps().reserve("promise", [fixed("a", 5)], { id: "1" });
      await caps().reserve("promise", [fixed("a", 5)], { id: "2" });
      assert.equal((await caps().commit("promise", [fixed("a", 1)], { id: "1" })).allowed, true);
      assert.deepEqual(used(await caps().take("promise", [fixed("a", 5)], { id: "2" })), [2]);
      assert.deepEqual(used(await caps().check("promise", [fixed("a", 5)])), [2]);
    });

    it("a reservation expires; a late commit takes, if there is room", async () => {
      const one = [fixed("a", 1)];
      await caps().reserve("expires", one, { id: "1", ttlMs: 80 });
      assert.equal((await caps().take("expires", one, { id: "2" })).allowed, false);
      const taken = await until(async () => {
        const result = await caps().take("expires", one, { id: "2" });
        return result.allowed ? result : null;
      });
      assert.deepEqual(used(taken), [1]);
      assert.equal((await caps().commit("expires", one, { id: "1" })).allowed, false);
      await caps().reserve("expires too", one, { id: "1", ttlMs: 20 });
      await sleep(40);
      assert.deepEqual(used(await caps().commit("expires too", one, { id: "1" })), [1]);
    });

    it("a refund takes back what the id counted, once, and only while its window lasts", async () => {
      const user = "refunds";
      await caps().take(user, list, { id: "1" });
      await caps().take(user, list, { id: "2" });
      assert.equal((await caps().take(user, list)).allowed, false);
      assert.equal(await caps().refund(user, list, { id: "1" }), true);
      assert.equal(await caps().refund(user, list, { id: "1" }), false);
      assert.equal(await caps().refund(user, list, { id: "never" }), false);
      const taken = await caps().take(user, list, { id: "1" });
      assert.deepEqual([taken.allowed, taken.source, used(taken)], [true, "redis", [2, 2, 2]]);
      const mixed = [fixed("short", 3, 60), fixed("long", 3)];
      await caps().take("partly", mixed, { id: "1" });
      await sleep(80);
      await caps().take("partly", mixed, { id: "2" });
      assert.equal(await caps().refund("partly", mixed, { id: "1" }), true);
      assert.deepEqual(used(await caps().check("partly", mixed)), [1, 1], "the new short window keeps its count");
    });
  });

  describe("takeKey", () => {
    it("counts in the key itself, whose TTL is set once", async () => {
      const key = "fc:ad_slot_1234:user_5678";
      const cap = { limit: 2, windowMs: HOUR };
      const results = [];
      for (let i = 0; i < 4; i += 1) results.push(await caps().takeKey(key, cap));
      assert.deepEqual(
        results.map(({ allowed, source, caps: [state] }) => [allowed, source, state!.used]),
        [
          [true, "redis", 1],
          [true, "redis", 2],
          [false, "redis", 2],
          [false, "cache", 2],
        ],
      );
      assert.equal(await fixture.value.get(key), "2");
      assert.equal((await caps().takeKey(key, { ...cap, limit: 3 })).allowed, true);
      assert.equal((await caps().takeKey("fc:{tag}:x", { ...cap, id: "1" })).caps[0]!.used, 1);
    });

    it("an id is counted once", async () => {
      for (const key of ["fc:plain", "fc:{tagged}:k"]) {
        const take = (id: string): Promise<CapsResult> => caps().takeKey(key, { limit: 1, windowMs: HOUR, id });
        assert.equal((await take("1")).allowed, true);
        assert.equal((await take("2")).allowed, false);
        assert.deepEqual([(await take("1")).allowed, used(await take("1"))], [true, [1]]);
      }
      const odd = caps().takeKey("fc:}{", { limit: 1, windowMs: HOUR, id: "1" });
      await rejection(odd, "KEYLANE_ERR_ARGUMENT", { message: /hash tag/ });
    });

    it("C1: a counter found without TTL gets one; TTLs only fall", async () => {
      await fixture.value.set("fc:left", "5" as never);
      assert.equal((await caps().takeKey("fc:left", { limit: 3, windowMs: 500 })).allowed, false);
      const ttl = await fixture.value.ttl("fc:left");
      assert.ok(ttl !== null && ttl > 0 && ttl <= 500, String(ttl));
      await fixture.value.command("PERSIST", "fc:caps:{all-or-none}");
      await caps().check("all-or-none", [fixed("campaign:1", 3)]);
      assert.notEqual(await fixture.value.ttl("fc:caps:{all-or-none}"), Infinity);
      for (const list of [[fixed("a", 9)], [fixed("a", 9), fixed("b", 9)]]) {
        const user = `found ${list.length}`;
        for (const [i, change] of [[], ["PERSIST"], ["PEXPIRE", "60000"], []].entries()) {
          if (change.length > 0) await fixture.value.command(change[0]!, `fc:caps:{${user}}`, ...change.slice(1));
          const taken = await caps().take(user, list);
          assert.deepEqual(
            used(taken),
            list.map(() => i + 1),
          );
          const ends = Date.now() + (await fixture.value.ttl(`fc:caps:{${user}}`))!;
          assert.ok(ends >= Math.max(...taken.caps.map(({ resetsAtMs }) => resetsAtMs)) - 50, `${user}, call ${i + 1}`);
        }
      }
      let last = Infinity;
      for (let i = 0; i < 5; i += 1) {
        await caps().takeKey("fc:falls", { limit: 9, windowMs: 1000 });
        const left = (await fixture.value.ttl("fc:falls"))!;
        assert.ok(left <= last && left > 0);
        last = left;
        await sleep(20);
      }
    });
  });

  it("C1: leaves no key without a TTL", async () => {
    const left = await Promise.all(c3.value.primaries.map(keysWithoutTtl));
    assert.deepEqual(left.flat(), []);
  });
});
