/** The loop with copies and sources of the test's own: what is done when, and in which order it is undone. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";

import type { Domain } from "#dist/cache/domain.js";
import type { Detector, HotRow } from "#dist/hotkeys/detector.js";
import { HotLoop } from "#dist/hotkeys/loop.js";
import type { LoopReplicas } from "#dist/hotkeys/loop.js";
import type { SharedHotKey } from "#dist/hotkeys/sources/source.js";
import { HotSet } from "#dist/shared/hot-set.js";

const WINDOW_MS = 100;
const RULES = { warn: 5000, critical: 20_000, nodeLimit: 50_000, replicas: true };

let log: string[] = [];
let rows: HotRow[] = [];
let set = new HotSet();
let loop = make();
let now = 0;
let most = 2;
/** Whether keys change too often for copies. */
let restless = false;
/** What giving copies up waits for. */
let gone: Promise<void> = Promise.resolve();
let say: (others: readonly SharedHotKey[]) => void = () => {};

/** A domain without a cache, whose values are 10 bytes. */
function domainOf(name: string): Domain {
  const topology = { nodeOf: () => 0, node: () => ({ host: "10.0.0.1", port: 7001 }) };
  return { name, cache: null, lane: { topology, own: () => Promise.resolve(10) } } as unknown as Domain;
}

const inSet = (): string[] => [...set.entries()].map(({ key, replicas }) => [key, ...replicas].join("+"));

/** Copies `key#0` … that are there in the next turn, and those of others. */
class Copies implements LoopReplicas {
  readonly own = new Map<string, readonly string[]>();
  readonly theirs = new Map<string, readonly string[]>();

  most(): number {
    return most;
  }

  get any(): boolean {
    return this.own.size > 0;
  }

  want(_: number, key: string, count: number, always: boolean): void {
    log.push(`want ${key} ${count}${always ? " always" : ""}`);
    queueMicrotask(() => {
      if (restless && !always) {
        loop.restless(0, key);
        return;
      }
      this.own.set(
        key,
        Array.from({ length: count }, (__, at) => `${key}#${at}`),
      );
      loop.publish();
    });
  }

  async release(_: number, key: string): Promise<void> {
    log.push(`release ${key} while the set is [${inSet().join()}]`);
    await gone;
    this.own.delete(key);
    loop.publish();
  }

  adopt(_: number, key: string, names: readonly string[]): void {
    if (names.join() === (this.theirs.get(key) ?? []).join()) return;
    this.theirs.set(key, names);
    loop.publish();
  }

  of(_: number, key: string): ReturnType<LoopReplicas["of"]> {
    const replicas = [...this.made(0, key), ...(this.theirs.get(key) ?? [])];
    return { replicas, homes: replicas.map(() => 7) };
  }

  made(_: number, key: string): readonly string[] {
    return this.own.get(key) ?? [];
  }

  async close(): Promise<void> {
    await Promise.all([...this.own.keys()].map((key) => this.release(0, key)));
    log.push("closed");
  }

  destroy(): void {
    log.push("destroyed");
  }
}

function make(): HotLoop {
  const detector = { merge: () => true, top: () => rows, hits: 0 } as unknown as Detector;
  const policy = { rules: [RULES], allow: [], deny: [], topK: 100, source: null } as ConstructorParameters<
    typeof HotLoop
  >[0];
  return new HotLoop(policy, [domainOf("d")], set, detector, {
    hot: ({ key, level, action, node }) => log.push(`hot ${key} ${level} ${action} ${node}`),
    recovered: ({ key, level, action, hotMs }) => log.push(`recovered ${key} ${level} ${action} ${hotMs}`),
  });
}

beforeEach(async () => {
  log = [];
  rows = [];
  now = 0;
  most = 2;
  restless = false;
  gone = Promise.resolve();
  set = new HotSet();
  loop = make();
  loop.act(new Copies());
  await loop.join(
    {
      name: "test",
      start: (changed) => {
        say = changed;
        return Promise.resolve();
      },
      publish: (entries) => {
        const told = entries.map(({ key, level, replicas }) => `${key} ${level} ${replicas.join("+")}`.trim());
        log.push(`told [${told.join()}]`);
      },
      stop: () => {
        log.push("stopped");
        return Promise.resolve();
      },
    },
    () => {},
  );
});

/** Windows with these rates, and what was said and done meanwhile. */
async function windows(count: number, rates: Record<string, number>): Promise<string[]> {
  rows = Object.entries(rates).map(([key, rate]) => ({
    id: key,
    key,
    whole: true,
    domain: 0,
    lower: rate,
    upper: rate,
  }));
  for (let i = 0; i < count; i += 1) {
    now += WINDOW_MS;
    loop.window(now);
    await new Promise(setImmediate);
  }
  return log.splice(0);
}

const tries = (lines: string[]): number => lines.filter((line) => line.startsWith("want")).length;

describe("the loop of hot keys", () => {
  it("copies what is critical, as often as its rate asks for, and undoes it in order", async () => {
    assert.deepEqual(await windows(2, { k: 6000 }), [
      "told [k warn]",
      "hot k warn none 10.0.0.1:7001",
      "told [k warn]",
    ]);
    assert.deepEqual(await windows(2, { k: 30_000 }), [
      "want k 1",
      "told [k critical]",
      "told [k critical k#0]",
      "hot k critical replicas 10.0.0.1:7001",
    ]);
    assert.deepEqual(inSet(), ["k+k#0"]);
    const more = await windows(15, { k: 60_000 });
    assert.deepEqual(more, ["want k 2", "told [k critical k#0+k#1]"], "then no more");
    assert.deepEqual(await windows(20, { k: 300_000 }), [], "there are no more primaries");
    assert.deepEqual(await windows(20, { k: 25_000 }), [], "fewer come only when all go");
    const info = loop.list(now)[0]!;
    assert.deepEqual([info.action, info.replicas, info.valueBytes], ["replicas", ["k#0", "k#1"], 10]);
    const end = await windows(60, {});
    const recovered = end.filter((line) => line.startsWith("recovered"));
    assert.equal(recovered.length, 1);
    assert.match(recovered[0]!, /^recovered k critical replicas \d+$/);
    assert.deepEqual(
      end.filter((line) => !line.startsWith("recovered")),
      ["release k while the set is [k+k#0+k#1]", "told [k critical k#0+k#1]", "told []"],
    );
    assert.deepEqual(loop.list(now), []);
    assert.equal(loop.acting, true, "a source must be left");
  });

  it("a key that changes too often is not copied, and tried again after 30 s, 60 s and so on", async () => {
    restless = true;
    const lines = await windows(600, { k: 30_000 });
    assert.equal(lines.filter((line) => line.startsWith("want")).length, 1 + 1, "at 0.2 s and 30.2 s");
    assert.ok(lines.includes("hot k critical none 10.0.0.1:7001"), lines.join("; "));
    assert.deepEqual([loop.list(now)[0]!.action, inSet()], ["none", ["k"]]);
    assert.equal(tries(await windows(300, { k: 30_000 })), 0, "until 90 s");
    assert.equal(tries(await windows(600, { k: 30_000 })), 1);
    assert.equal(tries(await windows(600, { k: 30_000 })), 0, "until 210 s");
    restless = false;
    assert.equal(tries(await windows(600, { k: 30_000 })), 1);
    assert.deepEqual(inSet(), ["k+k#0"]);
    loop.restless(0, "k");
    await windows(1, { k: 30_000 });
    assert.deepEqual([loop.list(now)[0]!.action, inSet()], ["none", ["k"]], "copies that were there are given up");
    assert.equal(tries(await windows(2390, { k: 30_000 })), 0, "for 4 min now");
    assert.equal(tries(await windows(20, { k: 30_000 })), 1);
  });

  it("forgets that when the key has calmed down; pinned copies are made all the same", async () => {
    restless = true;
    assert.equal(tries(await windows(10, { k: 30_000 })), 1);
    loop.pin("k", 0, 1);
    assert.deepEqual(
      (await windows(5, { k: 30_000 })).filter((line) => line.startsWith("want")),
      ["want k 1 always"],
    );
    assert.deepEqual(inSet(), ["k+k#0"]);
    loop.unpin("k");
    assert.deepEqual(
      (await windows(5, { k: 30_000 })).filter((line) => line.startsWith("want")),
      ["want k 1"],
      "now only while it keeps still",
    );
    assert.deepEqual(inSet(), ["k"]);
    await windows(70, {});
    assert.deepEqual(loop.list(now), []);
    assert.equal(tries(await windows(10, { k: 30_000 })), 1);
  });

  it("two processes that began at once: one of them gives its copies up for the other's", async () => {
    const theirs = { domain: "d", key: "k", level: "critical", rate: 40_000 } as const;
    await windows(2, { k: 30_000 });
    say([{ ...theirs, replicas: ["k*1"] }]);
    const kept = await windows(2, { k: 30_000 });
    assert.ok(!kept.some((line) => line.startsWith("release")), kept.join("; "));
    assert.deepEqual(inSet(), ["k+k#0+k*1"], "both are read, and dropped, until the other has heard");
    say([{ ...theirs, replicas: ["k!1"] }]);
    const given = await windows(2, { k: 30_000 });
    assert.ok(given.includes("release k while the set is [k+k#0+k!1]"), given.join("; "));
    assert.deepEqual(inSet(), ["k+k!1"]);
    assert.equal(tries(await windows(5, { k: 30_000 })), 0);
  });

  it("reads another process's copies and makes none of its own, as long as there are some", async () => {
    const theirs = { domain: "d", key: "k", level: "critical", rate: 40_000, replicas: ["k*1"] } as const;
    say([theirs]);
    await windows(1, {});
    assert.deepEqual(inSet(), ["k+k*1"]);
    assert.equal(loop.list(now)[0]?.remote, true);
    assert.equal((await windows(20, { k: 30_000 })).filter((line) => line.startsWith("want")).length, 0);
    assert.deepEqual(inSet(), ["k+k*1"]);
    say([]);
    const lines = await windows(2, { k: 30_000 });
    assert.ok(lines.includes("want k 1"), lines.join("; "));
    assert.deepEqual(inSet(), ["k+k#0"]);
  });

  it("copies that take long to go stay in the set, and are told, until they are gone", async () => {
    let go!: () => void;
    await windows(2, { k: 30_000 });
    gone = new Promise((resolve) => {
      go = resolve;
    });
    await windows(70, {});
    assert.deepEqual(loop.list(now), []);
    assert.deepEqual(inSet(), ["k+k#0"]);
    assert.equal([...set.entries()][0]!.cached, false);
    await windows(2, { other: 6000 });
    assert.deepEqual(inSet(), ["other", "k+k#0"]);
    go();
    const lines = await windows(1, { other: 6000 });
    assert.equal(lines.at(-1), "told [other warn]");
    assert.deepEqual(inSet(), ["other"]);
  });

  it("pins with copies, and takes them back", async () => {
    loop.pin("p", 0, 2);
    const pinned = await windows(2, {});
    assert.ok(pinned.includes("want p 2 always"));
    assert.deepEqual(inSet(), ["p+p#0+p#1"]);
    assert.equal(loop.unpin("p"), true);
    await new Promise(setImmediate);
    assert.deepEqual(log.splice(0).slice(-2), ["told [p warn p#0+p#1]", "told []"]);
  });

  it("stops: the set is empty, copies are gone, then the source is left", async () => {
    await windows(2, { k: 30_000 });
    log = [];
    await loop.stop(1000);
    assert.deepEqual(inSet(), []);
    assert.deepEqual(log, [
      "release k while the set is [k+k#0]",
      "told [k critical]",
      "closed",
      "told [k critical]",
      "stopped",
    ]);
  });
});
