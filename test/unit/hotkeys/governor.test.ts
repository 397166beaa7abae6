/** The governor alone: when keys become hot, are reported and are let go, on a clock of the test's own. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";

import { Governor } from "#dist/hotkeys/governor.js";
import type { HotRow } from "#dist/hotkeys/detector.js";

const WINDOW_MS = 100;
const RULES = { warn: 5000, critical: 20_000, nodeLimit: 50_000, replicas: true };

let told: string[] = [];
let governor = make();
let now = 0;
let decided = true;

function make(mayAct: (key: string) => boolean = () => true): Governor {
  return new Governor([RULES, null], mayAct, {
    isDecided: () => decided,
    hot: ({ key }, level, rate) => told.push(`hot ${key} ${level} ${rate}`),
    recovered: ({ key, level }) => told.push(`recovered ${key} ${level}`),
    entered: ({ key, level }) => told.push(`entered ${key} ${level}`),
    left: ({ key }) => told.push(`left ${key}`),
  });
}

beforeEach(() => {
  told = [];
  governor = make();
  now = 1000;
  decided = true;
});

function row(key: string, lower: number, upper = lower, domain = 0): HotRow {
  return { id: key, key, whole: true, domain, lower, upper };
}

/** One window. Returns whether anything changed. */
function window(rows: readonly HotRow[], complete = true): boolean {
  now += WINDOW_MS;
  return governor.observe(now, rows, complete);
}

function windows(count: number, rows: readonly HotRow[]): void {
  for (let i = 0; i < count; i += 1) window(rows);
}

/** What was told since the last time. */
function heard(): string[] {
  return told.splice(0);
}

const states = (): string[] => [...governor.keys()].map(({ key, state, level }) => `${key} ${state} ${level}`);

describe("governor", () => {
  it("enters on what is sure, at 95 % of a threshold, level by level", () => {
    assert.equal(window([row("k", 4749, 9000)]), false);
    assert.deepEqual(heard(), []);
    assert.equal(window([row("k", 4750)]), true);
    assert.deepEqual(heard(), ["entered k warn", "hot k warn 4750"]);
    assert.deepEqual(states(), ["k warm warn"]);
    assert.equal(window([row("k", 18_999)]), false);
    assert.equal(window([row("k", 19_000)]), true);
    assert.deepEqual(heard(), ["entered k critical", "hot k critical 19000"]);
    assert.deepEqual(states(), ["k hot critical"]);
    window([row("other", 60_000)]);
    assert.deepEqual(heard(), ["entered other warn", "entered other critical", "hot other critical 60000"]);
  });

  it("a report waits until it is decided what can be done, for a second at most, and while the key stays there", () => {
    decided = false;
    windows(5, [row("k", 6000)]);
    assert.deepEqual(heard(), ["entered k warn"]);
    decided = true;
    window([row("k", 6100)]);
    assert.deepEqual(heard(), ["hot k warn 6100"]);
    decided = false;
    windows(10, [row("k", 30_000)]);
    assert.deepEqual(heard(), ["entered k critical"]);
    window([row("k", 31_000)]);
    assert.deepEqual(heard(), ["hot k critical 31000"], "a second later");
    windows(3, [row("l", 6000)]);
    windows(3, [row("l", 30_000)]);
    assert.deepEqual(heard(), ["entered l warn", "entered l critical"], "the warning gives way");
    window([row("l", 15_000)]);
    assert.deepEqual(heard(), ["hot l critical 30000"], "before it leaves the level");
    windows(20, [row("l", 15_000)]);
    assert.deepEqual(heard(), []);
  });

  it("reports once a minute per key and level, while the key stays there", () => {
    windows(599, [row("k", 6000), row("l", 30_000)]);
    assert.deepEqual(heard(), [
      "entered k warn",
      "hot k warn 6000",
      "entered l warn",
      "entered l critical",
      "hot l critical 30000",
    ]);
    windows(2, [row("k", 7000), row("l", 40_000)]);
    assert.deepEqual(heard(), ["hot k warn 7000", "hot l critical 40000"]);
    windows(10, [row("k", 4000), row("l", 6000)]);
    assert.deepEqual(heard(), [], "neither is critical again, and both are known to be warm");
    window([row("k", 25_000)]);
    assert.deepEqual(heard(), ["entered k critical", "hot k critical 25000"], "another level is another report");
  });

  it("H3: lets go below 70 % of warn, after 3 windows and 5 s, and not by fewer", () => {
    window([row("k", 6000)]);
    heard();
    windows(20, [row("k", 100, 3500)]);
    assert.deepEqual(states(), ["k warm warn"], "at most 3,500 may be 3,500");
    windows(50, [row("k", 100, 3499)]);
    assert.deepEqual(states(), ["k cooling warn"], "4.9 s");
    assert.deepEqual(heard(), []);
    window([row("k", 3500)]);
    assert.deepEqual(states(), ["k warm warn"]);
    windows(50, []);
    assert.deepEqual(states(), ["k cooling warn"]);
    assert.equal(window([]), true);
    assert.deepEqual(heard(), ["recovered k warn", "left k"]);
    assert.deepEqual(states(), []);
  });

  it("H3: an event loop that stood still lets nothing go: three windows are looked at", () => {
    window([row("k", 6000)]);
    now += 60_000;
    window([]);
    now += 60_000;
    window([]);
    assert.deepEqual(states(), ["k cooling warn"]);
    window([]);
    assert.deepEqual(states(), []);
  });

  it("keeps a critical key at its level until it cools", () => {
    window([row("k", 30_000)]);
    windows(100, [row("k", 4000)]);
    assert.deepEqual(states(), ["k hot critical"]);
    windows(52, []);
    assert.deepEqual(heard().slice(-2), ["recovered k critical", "left k"]);
  });

  it("a key that comes back within the minute is acted on at once, and reported when the minute is over", () => {
    window([row("k", 6000)]);
    windows(60, []);
    assert.deepEqual(heard(), ["entered k warn", "hot k warn 6000", "recovered k warn", "left k"]);
    window([row("k", 6000)]);
    assert.deepEqual(heard(), ["entered k warn"]);
    windows(600, [row("k", 6000)]);
    assert.deepEqual(heard(), ["hot k warn 6000"]);
  });

  it("follows 1,000 keys and counts what finds no place; keys that are not shown for want of room stay as they are", () => {
    const many = Array.from({ length: 1001 }, (_, at) => row(`k${at}`, 6000));
    window(many);
    assert.equal(governor.size, 1000);
    assert.equal(governor.refused, 1);
    for (let i = 0; i < 100; i += 1) window(many.slice(0, 10), false);
    assert.equal(governor.size, 1000);
    windows(52, many.slice(0, 10));
    assert.equal(governor.size, 10);
  });

  it("leaves domains without rules alone, and marks keys that nothing may be done about", () => {
    window([row("k", 90_000, 90_000, 1), row("none", 90_000, 90_000, -1)]);
    assert.equal(governor.size, 0);
    governor = make((key) => key !== "denied");
    window([row("denied", 6000), row("allowed", 6000), { ...row("cut", 6000), whole: false }]);
    assert.deepEqual(
      [...governor.keys()].map(({ key, actable }) => [key, actable]),
      [
        ["denied", false],
        ["allowed", true],
        ["cut", false],
      ],
    );
  });

  it("pins a key whatever its rate, and leaves it to its rate again", () => {
    governor.pin("k", 0, 2, now);
    assert.deepEqual(states(), ["k warm warn"]);
    assert.equal(governor.find("k")?.pinned, 2);
    windows(100, []);
    assert.equal(governor.size, 1);
    windows(1, [row("k", 30_000)]);
    windows(60, []);
    assert.deepEqual(states(), ["k warm warn"], "recovered, and still pinned");
    assert.ok(heard().includes("recovered k critical"));
    assert.equal(governor.unpin("k", now), true);
    assert.deepEqual(heard(), ["left k"]);
    assert.equal(governor.unpin("k", now), false);
    governor.pin("k", 0, 0, now);
    window([row("k", 6000)]);
    assert.equal(governor.unpin("k", now), true);
    assert.deepEqual(states(), ["k warm warn"], "hot by itself");
  });

  it("takes what other processes say as a reason of its own", () => {
    const say = (...others: [string, "warn" | "critical", number, string[]?][]): boolean =>
      governor.told(
        others.map(([key, level, rate, replicas = []]) => ({ domain: "d", key, level, rate, replicas })),
        (name) => (name === "d" ? 0 : -1),
        now,
      );
    assert.equal(say(["a", "warn", 6000], ["b", "critical", 30_000]), true);
    assert.deepEqual(states(), ["a warm warn", "b hot critical"]);
    assert.equal(say(["a", "warn", 6000], ["b", "critical", 30_000]), false, "nothing new");
    say(["a", "warn", 9000], ["a", "critical", 30_000], ["a", "critical", 25_000, ["a{x}"]]);
    assert.deepEqual(governor.find("a")?.remote?.replicas, ["a{x}"], "who made copies is listened to");
    assert.deepEqual(states(), ["a hot critical"]);
    windows(100, []);
    assert.equal(governor.size, 1, "its rate here is no reason to let go");
    heard();
    assert.equal(say(), true);
    assert.deepEqual(heard(), ["left a"], "and no recovery of what was not found here");
    say(["c", "warn", 6000]);
    window([row("c", 8000)]);
    assert.equal(say(), true);
    assert.deepEqual(states(), ["c warm warn"]);
    assert.equal(say(["x", "warn", 9000]), true);
    assert.equal(
      governor.told([{ domain: "elsewhere", key: "y", level: "warn", rate: 1, replicas: [] }], () => -1, now),
      true,
      "x is no longer said",
    );
    assert.equal(governor.find("y"), undefined);
  });
});
