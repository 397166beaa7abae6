/** One cache for all threads of the process: who joins it and how, what they see of each other, and what goes when one leaves. */
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

import { CacheThread, CacheThreads } from "../../support/cache-threads.js";
import type { Passing } from "../../support/cache-threads.js";
import { cachedOn, freeSeats } from "../../support/cached.js";
import { useSingle } from "../../support/fixtures.js";
import { callsOf } from "../../support/keys.js";
import { openLanes } from "../../support/lanes.js";
import { runProgram } from "../../support/processes.js";
import { rawCommand } from "../../support/raw.js";
import { until } from "../../support/until.js";

describe("the shared cache in threads", () => {
  const single = useSingle();
  const open = (cache: object = {}, more: object = {}) => openLanes(cachedOn(single.value.address, cache, more));
  const raw = (...args: (string | number)[]) => rawCommand(single.value.address, ...args);
  const gets = () => callsOf(single.value.node, "get");

  for (const passing of ["workerData", "postMessage", "nested"] satisfies Passing[]) {
    it(`is joined by a handle passed by ${passing}: what one thread loads, all have`, async () => {
      await raw("MSET", "j:main", '{"by":"main"}', "j:thread", '{"by":"thread"}');
      const lanes = await open();
      const thread = await CacheThread.start(lanes.handle(), passing);
      const before = await gets();
      assert.equal(await thread.call("peek", "j:main"), undefined);
      assert.deepEqual(await lanes.get("j:main"), { by: "main" });
      assert.deepEqual(await thread.call("peek", "j:main"), { by: "main" });
      assert.deepEqual(await thread.call("get", "j:main"), { by: "main" });
      assert.deepEqual(await thread.call("get", "j:thread"), { by: "thread" });
      assert.deepEqual(lanes.peek("j:thread"), { by: "thread" });
      assert.equal((await gets()) - before, 2);
      const theirs = (await thread.call("stats")) as ReturnType<typeof lanes.stats>;
      assert.equal(theirs.cache!.loads, 2);
      assert.equal(lanes.stats().cache!.loads, 2);
      assert.deepEqual(await thread.call("route", "j:main"), lanes.route("j:main"));
      assert.equal(await thread.end(), 0);
    });
  }

  it("shows a write, an invalidation and an absent key of one thread to all others by the time they are told", async () => {
    const lanes = await open({ negativeTtlMs: 60_000 });
    await using threads = await CacheThreads.start(lanes.handle(), 2);
    const [one, other] = threads.all as [CacheThread, CacheThread];
    const key = "t:seen";
    const peeks = async (): Promise<unknown[]> => [
      lanes.peek(key),
      await one.call("peek", key),
      await other.call("peek", key),
    ];
    const nobody = [undefined, undefined, undefined];
    /** Reads until all have the value: the server may still tell of a write that they know of. */
    const allHave = async (value: string | null, read: () => Promise<unknown>): Promise<void> => {
      await until(async () => {
        assert.equal(await read(), value);
        return (await peeks()).every((peeked) => peeked === value);
      });
    };
    assert.equal(await one.call("set", key, "1"), true);
    await allHave("1", () => other.call("get", key));
    await other.call("set", key, "2");
    assert.deepEqual(await peeks(), nobody);
    await allHave("2", () => lanes.get(key));
    await one.call("invalidate", key);
    assert.deepEqual(await peeks(), nobody);
    await allHave("2", () => one.call("get", key));
    lanes.invalidatePrefix("t:se");
    assert.deepEqual(await peeks(), nobody);
    await until(async () => (await one.call("warm", [key])) === 1);
    await allHave("2", () => one.call("get", key));
    await lanes.del(key);
    assert.deepEqual(await peeks(), nobody);
    await allHave(null, () => other.call("get", key));
  });

  it("shows another client's write to the thread that did not load the key", async () => {
    await raw("SET", "t:outside", "1");
    const lanes = await open();
    await using threads = await CacheThreads.start(lanes.handle(), 1);
    assert.equal(await threads.all[0]!.call("get", "t:outside"), "1");
    assert.equal(lanes.peek("t:outside"), "1");
    await raw("SET", "t:outside", "2");
    await until(() => lanes.peek("t:outside") === undefined);
    assert.equal(await lanes.get("t:outside"), "2");
  });

  for (const [how, leave] of [
    ["closes", (thread: CacheThread) => thread.end()],
    ["is terminated", (thread: CacheThread) => thread.terminate()],
  ] as const) {
    it(`stays with the others when a thread ${how}; what only that thread heard of goes`, async () => {
      await raw("MSET", "t:main", "main", "t:thread", "thread");
      const lanes = await open();
      const seats = freeSeats(lanes.handle());
      const thread = await CacheThread.start(lanes.handle());
      assert.equal(freeSeats(lanes.handle()), seats - 1);
      assert.equal(await lanes.get("t:main"), "main");
      assert.equal(await thread.call("get", "t:thread"), "thread");
      assert.equal(lanes.peek("t:thread"), "thread");
      await leave(thread);
      assert.equal(freeSeats(lanes.handle()), seats);
      assert.equal(lanes.peek("t:main"), "main");
      assert.equal(lanes.peek("t:thread"), undefined);
      await raw("SET", "t:thread", "changed");
      assert.equal(await lanes.get("t:thread"), "changed");
    });
  }

  it("ends for all when the thread that opened it closes; the others go on with the servers", async () => {
    await raw("SET", "t:open", "1");
    const lanes = await open();
    await using threads = await CacheThreads.start(lanes.handle(), 1);
    const thread = threads.all[0]!;
    const handle = lanes.handle();
    assert.equal(await thread.call("get", "t:open"), "1");
    await lanes.close();
    assert.equal(await thread.call("peek", "t:open"), undefined);
    const before = await gets();
    assert.equal(await thread.call("get", "t:open"), "1");
    await raw("SET", "t:open", "2");
    assert.equal(await thread.call("get", "t:open"), "2");
    assert.equal(await thread.call("set", "t:open", "3"), true);
    assert.equal(await thread.call("get", "t:open"), "3");
    assert.equal((await gets()) - before, 3);
    await assert.rejects(CacheThread.start(handle), { code: "KEYLANE_ERR_ARGUMENT", message: /closed/ });
  });

  it("W4's kind: fifty short-lived threads, some terminated, leave exit code 0 and every seat free", async () => {
    const script = fileURLToPath(new URL("../../support/seats-child.js", import.meta.url));
    const program = runProgram(script, [single.value.address], tmpdir());
    const { before, after, codes, right } = JSON.parse(await program.firstLine) as {
      before: number;
      after: number;
      codes: number[];
      right: boolean;
    };
    assert.equal(await program.ended, 0, program.errors());
    assert.equal(program.errors(), "");
    assert.equal(codes.length, 50);
    const orderly = codes.filter((_, id) => id % 3 !== 2);
    assert.deepEqual(
      orderly,
      orderly.map(() => 0),
    );
    assert.equal(right, true);
    assert.ok(after >= 50, `${after} seats`);
    assert.equal(after, before);
  });
});
