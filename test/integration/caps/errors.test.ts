/** What is refused before it is sent, and what `onError` makes of servers that cannot decide. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Cap, Keylane, KeyCap, OpenOptions } from "keylane";
import { capsOptions } from "../../support/caps.js";
import { useC3, useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { failure, Stub, type StubReply } from "../../support/stub.js";
import { until } from "../../support/until.js";

const HOUR = 3_600_000;
const list: readonly Cap[] = [{ name: "a", limit: 2, windowMs: HOUR }];

async function scripted(
  answers: readonly StubReply[],
  caps: NonNullable<OpenOptions["caps"]>,
): Promise<{ stub: Stub; lanes: Keylane }> {
  const stub = await Stub.start({ cluster: false });
  let next = 0;
  stub.answer("EVALSHA", () => answers[Math.min(next++, answers.length - 1)]!);
  const domains = { freq: { prefixes: ["fc:"], nodes: [stub.address], mode: "single" } } as const;
  const lanes = (await openLanes({ domains, caps })) as unknown as Keylane;
  return { stub, lanes };
}

describe("bad input of caps", () => {
  const single = useSingle();
  const options = (caps: NonNullable<OpenOptions["caps"]>): OpenOptions => ({
    domains: { freq: { prefixes: ["fc:"], nodes: [single.value.address], mode: "single" } },
    caps,
  });

  it("is refused with a typed error before anything is sent", async () => {
    const { caps } = await openLanes(options({ onError: "allow" }));
    const wrong: [unknown, RegExp][] = [
      [[], /1 to 64/],
      [Array.from({ length: 65 }, (_, i) => ({ name: `n${i}`, limit: 1, windowMs: 1 })), /1 to 64/],
      ["a", /a list/],
      [[null], /must be an object/],
      [[{ name: "", limit: 1, windowMs: 1 }], /name must be a non-empty string/],
      [[{ name: "\ud800", limit: 1, windowMs: 1 }], /lone surrogate/],
      [[{ name: "x".repeat(257), limit: 1, windowMs: 1 }], /longer than 256/],
      ...[0, -1, 1.5, Number.NaN, 2 ** 53, "3", 3n].map((limit): [unknown, RegExp] => [
        [{ name: "a", limit, windowMs: 1 }],
        /cap a: limit must be a positive safe integer/,
      ]),
      ...[0, -1, 1.5, undefined, 34_560_000_001].map((windowMs): [unknown, RegExp] => [
        [{ name: "a", limit: 1, windowMs }],
        /cap a: windowMs must be a whole number/,
      ]),
      [[{ name: "a", limit: 1, windowMs: 1, sliding: 1 }], /sliding must be a boolean/],
      [[{ name: "a", limit: 1, per: "year" }], /per must be day, week or month/],
      [[{ name: "a", limit: 1, per: "day", timeZone: "Mars/Olympus" }], /no time zone Mars/],
      [[{ name: "a", limit: 1, per: "day", timeZone: "" }], /timeZone must be/],
      [[{ name: "a", limit: 1, per: "day", windowMs: 5 }], /exclude each other/],
      [[{ name: "a", limit: 1, windowMs: 5, timeZone: "UTC" }], /only civil windows/],
      [[list[0], { ...list[0], limit: 9 }], /the name a is there twice/],
    ];
    await single.value.node.command("CONFIG", "RESETSTAT");
    for (const [given, message] of wrong) {
      const expected = { message, outcome: "not-sent" } as const;
      await rejection(caps.take("u", given as Cap[]), "KEYLANE_ERR_ARGUMENT", expected);
      await rejection(caps.refund("u", given as Cap[], { id: "1" }), "KEYLANE_ERR_ARGUMENT", expected);
    }
    for (const user of ["", undefined, 5, "x".repeat(513), "\udc00"]) {
      await rejection(caps.take(user as string, list), "KEYLANE_ERR_ARGUMENT", { message: /user/ });
    }
    for (const id of ["", 7, null, "x".repeat(257)]) {
      await rejection(caps.take("u", list, { id: id as string }), "KEYLANE_ERR_ARGUMENT", { message: /id/ });
      await rejection(caps.reserve("u", list, { id: id as string }), "KEYLANE_ERR_ARGUMENT", { message: /id/ });
      await rejection(caps.commit("u", list, { id: id as string }), "KEYLANE_ERR_ARGUMENT", { message: /id/ });
      await rejection(caps.release("u", list, { id: id as string }), "KEYLANE_ERR_ARGUMENT", { message: /id/ });
    }
    await rejection(caps.reserve("u", list, { id: "1", ttlMs: 0 }), "KEYLANE_ERR_ARGUMENT", { message: /ttlMs/ });
    await rejection(caps.take("u", list, { timeoutMs: -1 }), "KEYLANE_ERR_ARGUMENT", { message: /timeoutMs/ });
    for (const cap of [undefined, {}, { limit: 0, windowMs: 1 }, { limit: 1, windowMs: 0 }]) {
      await rejection(caps.takeKey("fc:k", cap as KeyCap), "KEYLANE_ERR_ARGUMENT");
    }
    await rejection(caps.takeKey("other:k", { limit: 1, windowMs: 1 }), "KEYLANE_ERR_ROUTE");
    assert.equal(await callsOf(single.value.node, "evalsha"), 0);
  });

  it("C6: fractions are refused; counts near 2^53 are exact", async () => {
    const lanes = await openLanes(options({}));
    const cap = { limit: Number.MAX_SAFE_INTEGER, windowMs: HOUR };
    await lanes.set("fc:huge", String(2 ** 53 - 3) as never);
    assert.equal((await lanes.caps.takeKey("fc:huge", cap)).caps[0]!.used, 2 ** 53 - 2);
    assert.equal((await lanes.caps.takeKey("fc:huge", cap)).caps[0]!.used, 2 ** 53 - 1);
    assert.equal((await lanes.caps.takeKey("fc:huge", cap)).allowed, false);
    assert.equal(await lanes.get("fc:huge"), "9007199254740991");
    const key = "fc:caps:{huge}";
    const field = `f${HOUR} a`;
    await lanes.command("HSET", key, field, `${Date.now() + HOUR}:${2 ** 53 - 3}`);
    const caps = [{ name: "a", limit: 2 ** 53 - 1, windowMs: HOUR }];
    assert.equal((await lanes.caps.take("huge", caps)).caps[0]!.used, 2 ** 53 - 2);
    assert.match(String(await lanes.command("HGET", key, field)), /:9007199254740990$/);
  });

  it("a cap of no domain is refused; the option names one, or the prefix fc: does", async () => {
    const nodes = [single.value.address];
    const domains = {
      x: { prefixes: ["x:", "y:"], nodes, mode: "single" },
      f: { prefixes: ["z:"], nodes, mode: "single" },
    } as const;
    const without = await openLanes({ domains });
    await rejection(without.caps.take("u", list), "KEYLANE_ERR_OPTIONS", { message: /no domain has the prefix/ });
    const named = await openLanes({ domains, caps: { domain: "x" } });
    await named.caps.take("u", list);
    assert.equal(await named.exists("x:caps:{u}"), true);
    await rejection(openLanes({ domains, caps: { domain: "nowhere" } }), "KEYLANE_ERR_OPTIONS", {
      message: /caps.domain/,
    });
  });

  for (const onError of ["allow", "deny", "throw"] as const) {
    it(`C7: an error reply is never a count; onError ${onError} decides, counted and told once`, async () => {
      const lanes = await openLanes(options({ onError }));
      const told: string[] = [];
      lanes.on("degraded", ({ reason }) => void told.push(reason));
      const user = `wrong ${onError}`;
      await lanes.command("RPUSH", `fc:caps:{${user}}`, "a list");
      await lanes.command("RPUSH", `fc:list:${onError}`, "a list");
      await lanes.set(`fc:text:${onError}`, "NaN" as never);
      await lanes.command("HSET", `fc:caps:{text ${onError}}`, `f${HOUR} a`, "NaN", "", "");
      const cap = { limit: 2, windowMs: HOUR };
      const calls = [
        () => lanes.caps.take(user, list),
        () => lanes.caps.reserve(user, list, { id: "1" }),
        () => lanes.caps.takeKey(`fc:list:${onError}`, cap),
        () => lanes.caps.takeKey(`fc:text:${onError}`, cap),
        () => lanes.caps.take(`text ${onError}`, list),
      ];
      for (const call of calls) {
        if (onError === "throw") await assert.rejects(call, { name: "KeylaneError" });
        else assert.deepEqual(await call(), { allowed: onError === "allow", caps: [], source: "degraded" });
      }
      assert.equal(lanes.stats().caps.degraded, calls.length);
      assert.equal(told.length, 1, told.join("; "));
      await rejection(lanes.caps.refund(user, list, { id: "1" }), "KEYLANE_ERR_WRONGTYPE");
    });
  }

  it("C7: a server without memory neither allows nor denies", async () => {
    const { node } = single.value;
    const lanes = await openLanes(options({ onError: "throw" }));
    await lanes.caps.check("memory", list);
    await node.command("CONFIG", "SET", "maxmemory", "1mb");
    try {
      await rejection(lanes.caps.take("memory", list), "KEYLANE_ERR_OOM", { outcome: "rejected" });
      await rejection(lanes.caps.takeKey("fc:memory", { limit: 1, windowMs: HOUR }), "KEYLANE_ERR_OOM");
    } finally {
      await node.command("CONFIG", "SET", "maxmemory", "0");
    }
    assert.equal((await lanes.caps.take("memory", list)).caps[0]!.used, 1);
    assert.notEqual(await node.command("PTTL", "fc:caps:{memory}"), -1);
  });
});

describe("caps on a scripted server", () => {
  const decided: StubReply = [1, 1_800_000, 0, 1, 500, 500, 0];

  it("C7: replies that are no decision are errors", async (t) => {
    const odd: StubReply[] = [
      null,
      "1",
      1,
      [],
      [1],
      [1, 5, "now"],
      [-1, 5, 0, 0],
      [-1, "now", 0],
      [1, 5, 0, null, 3, 3, 0],
      [1, 5, 0, 1, 3, 3, "0"],
      [1, 5, 0, 1, 3, 3, 0, 0, 0],
      [1, 5, 0, 1, 3],
      failure("ERR odd"),
    ];
    const { stub, lanes } = await scripted(odd, { onError: "throw" });
    t.after(() => stub.stop());
    for (const _ of odd) await assert.rejects(lanes.caps.take("u", list), { name: "KeylaneError" });
    assert.equal(lanes.stats().caps.degraded, odd.length);
  });

  it("takes that a server asked to wait are answered once, and so are those behind them", async (t) => {
    const { stub, lanes } = await scripted([null], { onError: "throw" });
    t.after(() => stub.stop());
    const ends = Date.now() + HOUR;
    let [refusals, counted] = [0, 0];
    stub.answer("EVALSHA", () => {
      if (refusals === 0) return `${ends}:${(counted += 1)}`;
      refusals -= 1;
      return failure("LOADING Redis is loading the dataset in memory");
    });
    const wide: Cap[] = [{ name: "a", limit: 100, windowMs: HOUR }];
    const take = async (): Promise<number> => (await lanes.caps.take("u", wide)).caps[0]!.used;
    for (let round = 0; round < 3; round += 1) {
      refusals = 2;
      const hasty = assert.rejects(lanes.caps.take("u", wide, { timeoutMs: 1 }), { name: "KeylaneError" });
      const before = counted;
      const counts = await Promise.all(Array.from({ length: 6 }, take));
      await hasty;
      assert.deepEqual(
        counts.toSorted((a, b) => a - b),
        counts.map((_, i) => before + i + 1),
      );
      assert.equal(await take(), before + 7);
    }
  });

  it("an outage is told once, and again when it comes back", async (t) => {
    const { stub, lanes } = await scripted([failure("ERR down")], { onError: "deny" });
    t.after(() => stub.stop());
    let told = 0;
    lanes.on("degraded", () => void (told += 1));
    for (let i = 0; i < 5; i += 1) assert.equal((await lanes.caps.take("u", list)).source, "degraded");
    assert.equal(told, 1);
    stub.answer("EVALSHA", () => decided);
    await until(async () => (await lanes.caps.take("u", list)).source === "redis");
    await new Promise((resolve) => setTimeout(resolve, 1050));
    await lanes.caps.take("u", list);
    stub.answer("EVALSHA", () => failure("ERR down again"));
    await lanes.caps.take("u", list);
    assert.equal(told, 2);
  });

  it("C4: a server whose day is another one is sent its own day's boundaries", async (t) => {
    const theirs = Date.UTC(2031, 5, 5, 12);
    const { stub, lanes } = await scripted([[-1, Math.floor(theirs / 1_000_000), theirs % 1_000_000], decided], {
      onError: "throw",
    });
    t.after(() => stub.stop());
    const day: Cap[] = [{ name: "d", limit: 1, per: "day" }];
    assert.equal((await lanes.caps.take("u", day)).allowed, true);
    const boundaries = (): (string | undefined)[] =>
      stub.calls("EVALSHA").map(({ args }) => /c[\d ]+/.exec(String(args.at(-1)))?.[0]);
    const [first, second] = boundaries();
    assert.notEqual(first, second);
    const noon = [-36, -12, 12, 36].map((hours) => theirs + hours * HOUR);
    assert.equal(second, `c${noon.join(" ")}`);
    await lanes.caps.take("v", day);
    assert.equal(boundaries().at(-1), second, "the difference is remembered");
  });
});

describe("P4: scripts of the caps", () => {
  const c3 = useC3();

  it("P4: after SCRIPT FLUSH a decision is made by EVAL once, then by digest; no count is doubled", async () => {
    const lanes = await openLanes(capsOptions(c3.value.seeds, { onError: "throw" }));
    const caps: Cap[] = [{ name: "a", limit: 100, windowMs: HOUR }];
    const users = Array.from({ length: 30 }, (_, i) => `flush ${i}`);
    const round = async (): Promise<number[]> =>
      (await Promise.all(users.map((user) => lanes.caps.take(user, caps)))).map((result) => result.caps[0]!.used);
    await round();
    await Promise.all(c3.value.primaries.map((node) => node.command("SCRIPT", "FLUSH")));
    assert.deepEqual(new Set(await round()), new Set([2]));
    await Promise.all(c3.value.primaries.map((node) => node.command("CONFIG", "RESETSTAT")));
    assert.deepEqual(new Set(await round()), new Set([3]));
    const evals = await Promise.all(c3.value.primaries.map((node) => callsOf(node, "eval")));
    assert.deepEqual(evals, [0, 0, 0]);
  });
});
