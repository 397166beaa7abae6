/**
 * GETs that miss the cache where the connections live in workers: who loads is decided there. Whatever happens on the way, each
 * caller gets what its own moment allows.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";

import { KeylaneError } from "keylane";
import { CacheThreads } from "../../support/cache-threads.js";
import { cachedOn } from "../../support/cached.js";
import { useFixture, useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes, rejection, useLanes } from "../../support/lanes.js";
import { endWorker, runningWorkers } from "../../support/pool/workers.js";
import { rawCommand } from "../../support/raw.js";
import { Stub } from "../../support/stub.js";
import { until, within } from "../../support/until.js";

/** A server whose GETs are answered one by one, when the test says so. */
class Slow implements AsyncDisposable {
  readonly stub: Stub;
  readonly #waiting: ((value: string) => void)[] = [];

  private constructor(stub: Stub) {
    this.stub = stub;
    stub.answer("PTTL", () => -1);
    stub.answer("SET", () => "OK");
    stub.answer("GET", () => new Promise<string>((resolve) => this.#waiting.push(resolve)));
  }

  static async start(): Promise<Slow> {
    return new Slow(await Stub.start({ cluster: false }));
  }

  /** Resolves when `count` GETs have come, answered ones included. */
  asked(count: number): Promise<unknown> {
    return until(() => this.stub.calls("GET").length === count, { what: `${count} GETs` });
  }

  /** Answers the oldest GET. */
  answer(value: string): void {
    this.#waiting.shift()!(value);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stub.stop();
  }
}

describe("misses through workers", () => {
  const server = useSingle();
  const lanes = useLanes(() => cachedOn(server.value.address, { negativeTtlMs: 60_000 }, { threads: 2 }));
  const raw = (...args: (string | number)[]) => rawCommand(server.value.address, ...args);
  const gets = () => callsOf(server.value.node, "get");

  it("give values of every codec, keys of every kind, absent ones, in one turn with other calls", async () => {
    const keys = ["t:plain", "t:ключ", `t:${"x".repeat(900)}`, "t:none", "t:plain"];
    await raw("MSET", keys[0]!, "a", keys[1]!, "ё", keys[2]!, "long", "j:o", '{"n":[1]}', "b:b", "bytes");
    const before = await gets();
    const [texts, json, bytes, stored] = await Promise.all([
      Promise.all(keys.map((key) => lanes.value.get(key))),
      lanes.value.get("j:o"),
      lanes.value.get("b:b"),
      lanes.value.set("t:other", "set"),
    ]);
    assert.deepEqual([texts, json, stored], [["a", "ё", "long", null, "a"], { n: [1] }, true]);
    assert.deepEqual(bytes, Buffer.from("bytes"));
    assert.equal((await gets()) - before, 6, "a key that is asked for twice is loaded once");
    assert.ok(Object.isFrozen(json) && Object.isFrozen((json as unknown as { n: number[] }).n));
    const again = await Promise.all([...keys, "j:o", "b:b"].map((key) => lanes.value.get(key)));
    assert.deepEqual(again, [...texts, json, bytes]);
    assert.equal((await gets()) - before, 6, "all of them are cached");
    assert.equal(lanes.value.peek("t:none"), null);
  });

  it("renew what the thread's own map holds, and give later callers values that they may change", async () => {
    await raw("SET", "b:mine", "one");
    const [one, two] = (await Promise.all([lanes.value.get("b:mine"), lanes.value.get("b:mine")])) as unknown[];
    assert.deepEqual([one, two], [Buffer.from("one"), Buffer.from("one")]);
    assert.notEqual(one, two);
    await raw("SET", "j:mine", "[1]");
    await lanes.value.get("j:mine");
    assert.deepEqual(await lanes.value.get("j:mine"), [1], "it is in the map now");
    const { l0Hits } = lanes.value.stats().cache!;
    lanes.value.invalidate("j:mine");
    await raw("SET", "j:mine", "[2]");
    assert.deepEqual(await until(async () => String(await lanes.value.get("j:mine")) === "2"), true);
    lanes.value.invalidate("j:mine");
    assert.deepEqual(await lanes.value.get("j:mine"), [2]);
    assert.deepEqual(await lanes.value.get("j:mine"), [2]);
    assert.ok(lanes.value.stats().cache!.l0Hits > l0Hits, "a load brings the map's entry up to date");
  });

  it("fail all who wait where the server refuses or the value cannot be decoded, and are asked again", async () => {
    await raw("RPUSH", "t:list", "x");
    await raw("SET", "j:broken", "{");
    const [lists, broken] = await Promise.all([
      Promise.all(Array.from({ length: 20 }, () => rejection(lanes.value.get("t:list"), "KEYLANE_ERR_WRONGTYPE"))),
      Promise.all(Array.from({ length: 20 }, () => rejection(lanes.value.get("j:broken"), "KEYLANE_ERR_CODEC"))),
    ]);
    assert.deepEqual(new Set(lists.map(({ outcome, domain }) => `${outcome} ${domain}`)), new Set(["rejected texts"]));
    assert.equal(new Set(broken).size, 1);
    assert.equal(lanes.value.peek("t:list"), undefined);
    await raw("DEL", "t:list");
    assert.equal(await until(async () => (await lanes.value.get("t:list").catch(() => "still")) === null), true);
    const { domains } = lanes.value.stats();
    assert.equal(domains["texts"]!.pending + domains["jsons"]!.pending, 0);
  });

  it("are counted as hits of their keys once each, joined ones too", async () => {
    const own = await openLanes(cachedOn(server.value.address, {}, { threads: 2 }));
    const hits = (): number => own.hotKeys.stats().hits;
    await Promise.all(Array.from({ length: 30 }, () => own.get("t:hot")));
    await Promise.all(Array.from({ length: 70 }, (_, at) => own.get(`t:cold:${at}`)));
    await until(() => hits() >= 100);
    await own.close();
    assert.equal(hits(), 100);
  });

  it("of more keys than the table has places are all told apart", async () => {
    const keys = Array.from({ length: 9000 }, (_, at) => `t:many:${at}`);
    await raw("MSET", ...keys.flatMap((key) => [key, `of ${key}`]));
    const values = await Promise.all([...keys, ...keys].map((key) => lanes.value.get(key)));
    assert.deepEqual(
      values,
      [...keys, ...keys].map((key) => `of ${key}`),
    );
  });
});

describe("misses that something overtakes", () => {
  const slow = useFixture(
    () => Slow.start(),
    (started) => started[Symbol.asyncDispose](),
  );
  const open = (commandTimeoutMs = 10_000) =>
    openLanes(cachedOn(slow.value.stub.address, {}, { threads: 1, commandTimeoutMs }));

  it("a write: who asks afterwards does not get what was read before it", async () => {
    const lanes = await open();
    const asked = slow.value.stub.calls("GET").length;
    const early = Promise.all([lanes.get("t:k"), lanes.get("t:k")]);
    await slow.value.asked(asked + 1);
    const written = lanes.set("t:k", "new");
    const late = Promise.all([lanes.get("t:k"), lanes.get("t:k")]);
    slow.value.answer("old");
    assert.deepEqual(await early, ["old", "old"]);
    assert.equal(await written, true);
    await slow.value.asked(asked + 2);
    slow.value.answer("new");
    assert.deepEqual(await late, ["new", "new"]);
    // The answered write dropped the key once more, so what was loaded before that is not kept; what is loaded now is.
    const now = lanes.get("t:k");
    if (lanes.peek("t:k") === undefined) {
      await slow.value.asked(asked + 3);
      slow.value.answer("new");
    }
    assert.equal(await now, "new");
    assert.equal(lanes.peek("t:k"), "new");
    await lanes.close();
  });

  it("a load by a thread with connections of its own: its value is waited for and passed on", async () => {
    const lanes = await open();
    await using threads = await CacheThreads.start(lanes.handle(), 1);
    const asked = slow.value.stub.calls("GET").length;
    const theirs = threads.all[0]!.call("get", "t:theirs");
    await slow.value.asked(asked + 1);
    const ours = Promise.all([lanes.get("t:theirs"), lanes.get("t:theirs")]);
    // A call that the worker answers after it has taken the reads up.
    await lanes.set("t:else", "x");
    slow.value.answer("é");
    assert.deepEqual(await within(ours, 5000), ["é", "é"]);
    assert.equal(await theirs, "é");
    assert.equal(slow.value.stub.calls("GET").length, asked + 1, "one load for all");
    await lanes.close();
  });

  it("the deadline: all who wait are freed, and the next call asks again", async () => {
    const lanes = await open(200);
    const asked = slow.value.stub.calls("GET").length;
    const errors = await Promise.all(
      Array.from({ length: 10 }, () => rejection(lanes.get("t:late"), "KEYLANE_ERR_TIMEOUT")),
    );
    assert.equal(new Set(errors).size, 1);
    assert.equal(slow.value.stub.calls("GET").length, asked + 1);
    slow.value.answer("too late");
    const again = lanes.get("t:late");
    await slow.value.asked(asked + 2);
    slow.value.answer("in time");
    assert.equal(await again, "in time");
    await lanes.close();
  });

  it("the worker's end: the next worker is asked, once", async () => {
    const lanes = await open();
    const asked = slow.value.stub.calls("GET").length;
    const reads = Promise.all([lanes.get("t:lost"), lanes.get("t:lost")]);
    await slow.value.asked(asked + 1);
    const exits = once(lanes, "worker:exit");
    await endWorker(runningWorkers().at(-1)!, "exit");
    await exits;
    slow.value.answer("nobody hears this");
    await slow.value.asked(asked + 2);
    slow.value.answer("first");
    assert.deepEqual(await within(reads, 5000), ["first", "first"]);
    assert.equal(lanes.peek("t:lost"), "first");
    await lanes.close();
  });

  it("`close` and `destroy`: nobody is left waiting", async () => {
    for (const end of ["close", "destroy"] as const) {
      const lanes = await open();
      const asked = slow.value.stub.calls("GET").length;
      const reads = Array.from({ length: 5 }, () => lanes.get("t:never"));
      const errors = Promise.all(reads.map((read) => read.catch((error: unknown) => error)));
      await slow.value.asked(asked + 1);
      if (end === "close") assert.deepEqual(await lanes.close({ timeoutMs: 50 }), { lost: 1 });
      else lanes.destroy();
      for (const error of await within(errors, 2000, end)) assert.ok(error instanceof KeylaneError, String(error));
      slow.value.answer("unheard");
    }
  });
});
