/** The parts of a hot key source without a place: documents, the roster with a clock of the test's, troubles, the bell. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Bell } from "#dist/hotkeys/sources/bell.js";
import { readDocument, writeDocument } from "#dist/hotkeys/sources/document.js";
import { Roster } from "#dist/hotkeys/sources/roster.js";
import type { SharedHotKey } from "#dist/hotkeys/sources/source.js";
import { redact, Troubles } from "#dist/hotkeys/sources/troubles.js";
import { KeylaneError } from "keylane";
import { until } from "../../support/until.js";
import { hot } from "../../support/hot-sources/party.js";

const A = "aaaaaaaa-1";
const B = "bbbbbbbb-2";
const BEAT_MS = 5000;

function text(holder: string, beat: number, keys: readonly SharedHotKey[], beatMs = BEAT_MS): string {
  return writeDocument({ holder, beat, beatMs, keys }, 1 << 20);
}

const rosterAt = (
  own = "own-0000",
): {
  roster: Roster;
  pass(ms: number): [string, string][];
  bad: [string, string | null][];
  heard(): string[] | null;
} => {
  let now = 1e6;
  const bad: [string, string | null][] = [];
  const roster = new Roster({ own, beatMs: BEAT_MS, clock: () => now, bad: (...told) => void bad.push(told) });
  // Time passes a second at a time, as ticks come.
  const pass = (ms: number): [string, string][] => {
    const fallen: [string, string][] = [];
    for (const end = now + ms; now < end;) {
      now += Math.min(1000, end - now);
      fallen.push(...roster.tick());
    }
    return fallen;
  };
  return { roster, pass, bad, heard: () => roster.take(true)?.map(({ key }) => key) ?? null };
};

describe("documents", () => {
  test("what is written is read again, the hottest first, rates as integers", () => {
    const cold = hot("up:a", { level: "warn", rate: 90_000 });
    const keys = [cold, hot("up:\ud800", { rate: 5.4 }), hot("up:ü", { rate: 7, replicas: ["x", "y"] })];
    const read = readDocument(A, text(A, 3, keys));
    assert.deepEqual(read.keys, [keys[2], { ...keys[1], rate: 5 }, cold]);
    assert.deepEqual([read.holder, read.beat, read.beatMs], [A, 3, BEAT_MS]);
  });

  test("what does not fit is left out, the coldest first, and the bytes are never more than allowed", () => {
    const keys = Array.from({ length: 2000 }, (_, at) => hot(`up:${"ü".repeat(at % 50)}${at}`, { rate: at }));
    for (const maxBytes of [200, 1000, 20_000, 1 << 20]) {
      const written = writeDocument({ holder: A, beat: 1, beatMs: BEAT_MS, keys }, maxBytes);
      assert.ok(Buffer.byteLength(written) <= maxBytes);
      const { keys: kept } = readDocument(A, written);
      assert.deepEqual(
        kept.map(({ rate }) => rate),
        Array.from({ length: kept.length }, (_, at) => 1999 - at),
      );
      assert.equal(kept.length === 1000, maxBytes === 1 << 20);
    }
  });

  test("what is no document is refused with a reason that quotes nothing of it", () => {
    const good = { keylane: 1, holder: A, beat: 1, beatMs: 1, keys: [] as unknown[] };
    const secret = "s3cret";
    const bad: [string, unknown, RegExp][] = [
      [A, `{"${secret}`, /not JSON/],
      [A, [secret], /no document/],
      [A, { ...good, keylane: secret }, /no document of keylane: keylane/],
      [A, { ...good, beat: 0 }, /beat/],
      [A, { ...good, beatMs: 1e9 }, /beatMs/],
      [A, { ...good, keys: Array.from({ length: 1001 }, () => hot("a")) }, /keys/],
      [A, { ...good, keys: [hot("a", { rate: -1 })] }, /keys\.0\.rate/],
      [A, { ...good, keys: [hot("a", { level: secret as "warn" })] }, /keys\.0\.level/],
      [A, { ...good, holder: B }, /another holder's/],
      ["../x", good, /no name of a holder/],
      [A, " ".repeat(1 << 21), /longer/],
    ];
    for (const [holder, value, expected] of bad) {
      assert.throws(
        () => readDocument(holder, typeof value === "string" ? value : JSON.stringify(value)),
        (error: Error) => expected.test(error.message) && !error.message.includes(secret),
      );
    }
  });
});

describe("the roster", () => {
  test("a holder counts while its beat changes, and is silent after 15 s of this process's clock", () => {
    const { roster, pass, heard } = rosterAt();
    roster.put(A, text(A, 1, [hot("up:1")]));
    assert.deepEqual(heard(), ["up:1"]);
    assert.deepEqual(pass(14_000), []);
    roster.put(A, text(A, 2, [hot("up:1")]));
    assert.deepEqual(pass(14_999), []);
    assert.deepEqual(pass(1), [[A, text(A, 2, [hot("up:1")])]]);
    assert.deepEqual(heard(), []);
    assert.deepEqual(pass(60_000), []);
  });

  test("an old document that is still found revives nothing; a new beat does", () => {
    const { roster, pass, heard } = rosterAt();
    const last = text(A, 7, [hot("up:1")]);
    roster.put(A, last);
    pass(15_000);
    assert.deepEqual(heard(), []);
    roster.all(new Map([[A, last]]), new Set());
    roster.put(A, text(A, 6, [hot("up:0")]));
    assert.equal(heard(), null);
    roster.put(A, text(A, 8, [hot("up:2")]));
    assert.deepEqual(heard(), ["up:2"]);
  });

  test("a beat that came late never takes back a newer word", () => {
    const { roster, heard } = rosterAt();
    roster.put(A, text(A, 2, [hot("up:2")]));
    roster.put(A, text(A, 1, [hot("up:1")]));
    assert.deepEqual(heard(), ["up:2"]);
  });

  test("one that beats slowly is waited for longer, one that beats fast no shorter", () => {
    const { roster, pass } = rosterAt();
    roster.put(A, text(A, 1, [hot("up:1")], 10_000));
    roster.put(B, text(B, 1, [hot("up:2")], 50));
    assert.deepEqual(pass(14_000), []);
    assert.deepEqual(
      pass(1000).map(([name]) => name),
      [B],
    );
    assert.deepEqual(pass(14_999), []);
    assert.deepEqual(
      pass(1).map(([name]) => name),
      [A],
    );
  });

  test("time in which this process stood still is nobody's silence", () => {
    let now = 0;
    const roster = new Roster({ own: "own-0000", beatMs: BEAT_MS, clock: () => now, bad: () => undefined });
    roster.put(A, text(A, 1, [hot("up:1")]));
    now = 3_600_000;
    assert.deepEqual(roster.tick(), []);
    // A beat of it counts.
    for (let at = 1; at < 10; at++) {
      now += 1000;
      assert.deepEqual(roster.tick(), [], String(at));
    }
    now += 1000;
    assert.equal(roster.tick().length, 1);
  });

  test("a look keeps what was heard while it was under way, and drops what is gone", () => {
    const { roster, heard } = rosterAt();
    roster.put(A, text(A, 2, [hot("up:a2")]));
    roster.put(B, text(B, 1, [hot("up:b")]));
    roster.all(new Map([[A, text(A, 1, [hot("up:a1")])]]), new Set([A]));
    assert.deepEqual(heard(), ["up:a2"]);
    roster.remove(A);
    assert.deepEqual(heard(), []);
  });

  test("its own document is passed over", () => {
    const { roster, heard } = rosterAt(A);
    roster.all(new Map([[A, text(A, 1, [hot("up:1")])]]), new Set());
    assert.equal(heard(), null);
  });

  test("a key of several holders is one: highest level, sum of rates, replicas of the lowest id", () => {
    const { roster } = rosterAt();
    roster.put(B, text(B, 1, [hot("up:1", { rate: 30_000, replicas: ["b"] }), hot("up:2", { rate: 9 })]));
    roster.put(
      A,
      text(A, 1, [hot("up:1", { level: "warn", rate: 6000, replicas: ["a"] }), hot("up:2", { domain: "other" })]),
    );
    assert.deepEqual(roster.take(false), [
      hot("up:1", { rate: 36_000, replicas: ["a"] }),
      hot("up:2", { domain: "other" }),
      hot("up:2", { rate: 9 }),
    ]);
  });

  test("rates alone are taken when they are asked for", () => {
    const { roster } = rosterAt();
    roster.put(A, text(A, 1, [hot("up:1", { rate: 1 })]));
    assert.equal(roster.take(false)?.length, 1);
    roster.put(A, text(A, 2, [hot("up:1", { rate: 2 })]));
    assert.equal(roster.take(false), null);
    assert.equal(roster.take(true)?.[0]?.rate, 2);
    assert.equal(roster.take(true), null);
  });

  test("what is no good is told once, and once when it is over; holders have a bound", () => {
    const { roster, bad, heard } = rosterAt();
    roster.put(A, "{");
    roster.put(A, "{");
    roster.put(A, text(A, 1, [hot("up:1")]));
    roster.put("Foreign", new Error("it is a foreign file"));
    roster.put("Foreign", new Error("it is a foreign file"));
    roster.all(new Map(), new Set());
    assert.deepEqual(bad, [
      [A, "it is not JSON"],
      [A, null],
      ["Foreign", "it is a foreign file"],
      ["Foreign", null],
    ]);
    for (let at = 0; at < 1100; at++) {
      const holder = `holder-${at}`;
      roster.put(holder, text(holder, 1, [hot(`up:${at}`)]));
    }
    assert.equal(bad.length, 4 + 1100 - 1024);
    assert.match(String(bad.at(-1)?.[1]), /more than 1024 holders/);
    assert.equal(heard()?.length, 1000);
  });
});

describe("troubles", () => {
  test("the last word is true: each cause once, null when nothing is wrong, the rest when one ends", () => {
    const told: (string | null)[] = [];
    const troubles = new Troubles(
      "x",
      () => [],
      (error) => void told.push(error?.message ?? null),
    );
    troubles.add("place", "down");
    troubles.add("place", "still down");
    troubles.add("document a", "bad");
    troubles.end("document a");
    troubles.add("document b", "bad too");
    troubles.end("place");
    troubles.end("place");
    troubles.end("document b");
    const reasons = told.map((message) => message?.replace(/^hot key source x: /, "") ?? null);
    assert.deepEqual(reasons, ["down", "bad", "down", "bad too", null]);
  });

  test("secrets are taken out, as they are and as they stand in addresses", () => {
    const told: unknown[] = [];
    const troubles = new Troubles(
      "x",
      () => ["", "p@ss word"],
      (error) => void told.push(error),
    );
    troubles.add("place", "no p@ss word in p%40ss%20word");
    const [error] = told;
    assert.ok(error instanceof KeylaneError);
    assert.equal(error.message, "hot key source x: no *** in ***");
    assert.equal(error.cause, undefined);
    assert.equal(redact("abc", [""]), "abc");
  });
});

describe("the bell", () => {
  test("a ring is heard once, also when nobody waited at the time", async () => {
    const bell = new Bell();
    bell.ring();
    bell.ring();
    await bell.wait(Infinity);
    let woken = false;
    const waiting = bell.wait(Infinity).then(() => (woken = true));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(woken, false);
    bell.ring();
    await waiting;
    let late = false;
    void bell.wait(1).then(() => (late = true));
    await until(() => late);
  });
});
