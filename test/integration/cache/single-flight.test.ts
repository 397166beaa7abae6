/** L2: of all callers in all threads that miss a key, one loads it; a load that fails or never ends frees those who wait. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { CacheThreads } from "../../support/cache-threads.js";
import { cachedOn } from "../../support/cached.js";
import { useFixture, useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes, rejection, useLanes } from "../../support/lanes.js";
import { rawCommand } from "../../support/raw.js";
import { Stub } from "../../support/stub.js";
import { until, within } from "../../support/until.js";

const THREADS = 4;

/** `count` times the same answer. */
const answers = (count: number, value: unknown): unknown[] => Array.from({ length: count }, () => ({ value }));

describe("L2: single flight over threads", () => {
  const single = useSingle();
  const lanes = useLanes(() => cachedOn(single.value.address, { negativeTtlMs: 60_000 }));
  const threads = useFixture(
    () => CacheThreads.start(lanes.value.handle(), THREADS),
    (started) => started[Symbol.asyncDispose](),
  );
  const raw = (...args: (string | number)[]) => rawCommand(single.value.address, ...args);
  const gets = () => callsOf(single.value.node, "get");

  for (const reads of [200, 1000]) {
    it(`L2: ${reads} concurrent reads of one absent key over 4 threads are exactly one GET`, async () => {
      const [before, { loads }] = [await gets(), lanes.value.stats().cache!];
      assert.deepEqual(await threads.value.calls(reads / THREADS, "get", `t:absent:${reads}`), answers(reads, null));
      assert.equal((await gets()) - before, 1);
      assert.equal(lanes.value.stats().cache!.loads - loads, 1);
    });

    it(`L2: ${reads} concurrent reads of one key that is not cached over 4 threads are exactly one GET`, async () => {
      const key = `j:present:${reads}`;
      await raw("SET", key, '{"n":1}');
      const before = await gets();
      assert.deepEqual(await threads.value.calls(reads / THREADS, "get", key), answers(reads, { n: 1 }));
      assert.equal((await gets()) - before, 1);
    });
  }

  it("L2: many keys at once, each of them loaded once for all threads", async () => {
    const keys = Array.from({ length: 100 }, (_, at) => `t:many:${at}`);
    await raw("MSET", ...keys.flatMap((key) => [key, `of ${key}`]));
    const before = await gets();
    const wanted = keys.map((key) => `of ${key}`);
    assert.deepEqual(await threads.value.calls(3, "getMany", keys), answers(3 * THREADS, wanted));
    assert.equal((await gets()) - before, 100);
  });

  it("L2: a load that the server refuses fails all who wait in the thread, is not kept, and the next call asks again", async () => {
    const key = "t:list";
    await raw("RPUSH", key, "element");
    const before = await gets();
    const failed = await threads.value.calls(25, "get", key);
    assert.deepEqual(
      failed.map((answer) => ("error" in answer ? answer.error.code : answer)),
      Array.from({ length: 25 * THREADS }, () => "KEYLANE_ERR_WRONGTYPE"),
    );
    assert.equal((await gets()) - before, THREADS, "a GET a thread");
    assert.equal(lanes.value.peek(key), undefined);
    const { invalidations } = lanes.value.stats().cache!;
    await raw("DEL", key);
    await raw("SET", key, "a text now");
    // Every thread that asked hears of the change; a load that is overtaken by it would be made again.
    await until(() => lanes.value.stats().cache!.invalidations - invalidations >= THREADS);
    assert.deepEqual(await threads.value.calls(25, "get", key), answers(25 * THREADS, "a text now"));
    assert.equal((await gets()) - before, THREADS + 1);
  });

  it("L2: a value that cannot be decoded fails all who wait, and is not kept", async () => {
    const key = "j:broken";
    await raw("SET", key, "{");
    const before = await gets();
    await Promise.all(Array.from({ length: 50 }, () => rejection(lanes.value.get(key), "KEYLANE_ERR_CODEC")));
    assert.equal((await gets()) - before, 1);
    assert.equal(lanes.value.peek(key), undefined);
    await raw("SET", key, "[1]");
    assert.deepEqual(await lanes.value.get(key), [1]);
  });
});

describe("L2: loads that do not end", () => {
  it("L2: a server that never answers: the deadline frees those who wait in all threads, and the next call asks again", async () => {
    await using silent = await silentServer();
    const lanes = await openLanes(cachedOn(silent.stub.address, {}, { commandTimeoutMs: 300 }));
    await using threads = await CacheThreads.start(lanes.handle(), 2);
    const all = threads.calls(10, "get", "t:k");
    const own = Array.from({ length: 10 }, () => rejection(lanes.get("t:k"), "KEYLANE_ERR_TIMEOUT"));
    await within(Promise.all(own), 5000);
    assert.deepEqual(
      (await within(all, 5000)).map((answer) => ("error" in answer ? answer.error.code : answer)),
      Array.from({ length: 20 }, () => "KEYLANE_ERR_TIMEOUT"),
    );
    const asked = silent.stub.calls("GET").length;
    assert.ok(asked >= 1 && asked <= 3, `${asked} GETs`);
    assert.equal(lanes.peek("t:k"), undefined);
    silent.speak();
    assert.equal(await until(() => lanes.get("t:k")), "value");
    assert.equal(await until(() => threads.all[0]!.call("get", "t:k")), "value");
  });

  for (const [how, end] of [
    ["is terminated", (threads: CacheThreads) => threads.all[0]!.terminate()],
    ["ends", (threads: CacheThreads) => threads.all[0]!.call("close", { timeoutMs: 1 })],
  ] as const) {
    it(`L2: a thread that ${how} while it loads frees the others, of which one loads`, async () => {
      await using silent = await silentServer();
      const lanes = await openLanes(cachedOn(silent.stub.address, {}, { commandTimeoutMs: 60_000 }));
      await using threads = await CacheThreads.start(lanes.handle(), 2);
      const [loader, other] = threads.all;
      const load = loader!.calls(5, "get", "t:k");
      await until(() => silent.stub.calls("GET").length === 1);
      const waiting = other!.calls(5, "get", "t:k");
      const own = lanes.get("t:k");
      await waiting.asked;
      assert.equal(silent.stub.calls("GET").length, 1, "the others wait");
      silent.speak();
      await end(threads);
      assert.equal(await within(own, 10_000, "the opener's call"), "value");
      assert.deepEqual(await within(waiting.answers, 10_000), answers(5, "value"));
      assert.equal(silent.stub.calls("GET").length, 2);
      assert.equal(lanes.peek("t:k"), "value");
      const lost = await Promise.allSettled([load.answers]);
      assert.equal(lost[0].status, how === "ends" ? "fulfilled" : "rejected");
    });
  }
});

/** A server that leaves GETs unanswered until it is told to speak; those left so far stay so. */
interface SilentServer extends AsyncDisposable {
  readonly stub: Stub;
  speak(): void;
}

async function silentServer(): Promise<SilentServer> {
  const stub = await Stub.start({ cluster: false });
  let speaks = false;
  stub.answer("PTTL", () => -1);
  stub.answer("GET", () => (speaks ? "value" : new Promise<never>(() => undefined)));
  const speak = (): void => {
    speaks = true;
  };
  return { stub, speak, [Symbol.asyncDispose]: () => stub.stop() };
}
