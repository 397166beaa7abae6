/** MOVED, ASK and TRYAGAIN of a real cluster under traffic: judged per reply, counted exactly, in order per key. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import type { Keylane } from "keylane";

import { useC3 } from "../support/fixtures.js";
import { openLanes, rejection, useLanes } from "../support/lanes.js";
import { rawCommand } from "../support/raw.js";
import { until } from "../support/until.js";

interface Tally {
  /** Results of one key's INCRBY 1 calls, in the order in which they were issued. */
  readonly sums: Map<string, Promise<number | bigint>[]>;
  readonly reads: Promise<(string | null)[]>[];
}

/** Issues INCRBY and GET of all keys again and again, without waiting, until `stop` says so. */
async function traffic(lanes: Keylane<never>, keys: readonly string[], stop: () => boolean): Promise<Tally> {
  const tally: Tally = { sums: new Map(keys.map((key) => [key, []])), reads: [] };
  while (!stop()) {
    for (const key of keys) tally.sums.get(key)!.push(lanes.incrBy(key));
    tally.reads.push(lanes.getMany(keys) as Promise<(string | null)[]>);
    for (const key of keys) tally.sums.get(key)!.push(lanes.incrBy(key));
    await new Promise(setImmediate);
  }
  return tally;
}

/** Each key's sums are 1, 2, 3, … in issue order, and the server holds the last one. Returns the number of INCRBY. */
async function assertExact(lanes: Keylane<never>, tally: Tally): Promise<number> {
  let count = 0;
  for (const [key, sums] of tally.sums) {
    const seen = await Promise.all(sums);
    assert.deepEqual(
      seen,
      seen.map((_, i) => i + 1),
      `the sums of ${key} are not the order in which they were asked for`,
    );
    assert.equal(await lanes.get(key), String(seen.length));
    count += seen.length;
  }
  const reads = await Promise.all(tally.reads);
  const before = new Map<number, number>();
  for (const values of reads) {
    for (const [i, value] of values.entries()) {
      assert.ok(Number(value) >= (before.get(i) ?? 0), "a read went back in time");
      before.set(i, Number(value));
    }
  }
  return count;
}

describe("redirects", () => {
  const c3 = useC3();
  const open = useLanes(() => ({
    domains: { all: { prefixes: [""], nodes: c3.value.seeds } },
    commandTimeoutMs: 15_000,
  }));
  const stats = (): ReturnType<Keylane["stats"]>["domains"][string] => open.value.stats().domains["all"]!;

  it("MOVED: a slot moves to and fro under pipelined INCRBY and getMany; every INCRBY is exactly +1, in order", async () => {
    const lanes = open.value as unknown as Keylane<never>;
    const [a, b] = c3.value.primaries as [(typeof c3.value.primaries)[0], (typeof c3.value.primaries)[0]];
    const slot = lanes.route("{moving}").slot;
    const owner = await c3.value.ownerOf(slot);
    const [from, to] = owner === a ? [a, b] : [owner, a];
    const still = Array.from({ length: 40 }, (_, i) => `still:${i}`);
    let over = false;
    const running = traffic(lanes, ["{moving}1", "{moving}2", ...still], () => over);
    for (let round = 0; round < 3; round += 1) {
      await c3.value.moveSlots([slot], from, to);
      await until(() => lanes.route("{moving}").node === to.address);
      await c3.value.moveSlots([slot], to, from);
      await until(() => lanes.route("{moving}").node === from.address);
    }
    over = true;
    const count = await assertExact(lanes, await running);
    assert.ok(count > 500, `${count} INCRBY`);
    assert.ok(stats().moved > 0);
    assert.equal(stats().failed, 0);
  });

  it("MOVED: one slot moves while a getMany over ten slots is in flight; order, a duplicate and an absent key are right", async () => {
    const lanes = open.value;
    const keys = Array.from({ length: 10 }, (_, i) => `ten:{${i}}`);
    assert.equal(new Set(keys.map((key) => lanes.route(key).slot)).size, 10);
    await Promise.all(keys.map((key) => lanes.set(key, `value of ${key}`)));
    const slot = lanes.route(keys[4]!).slot;
    const from = await c3.value.ownerOf(slot);
    const to = c3.value.primaries.find((node) => node !== from)!;
    const asked = [...keys, keys[4]!, "ten:absent", "{4}:absent"];
    const expected = [...keys.map((key) => `value of ${key}`), `value of ${keys[4]}`, null, null];
    const moved = c3.value.moveSlots([slot], from, to);
    let rounds = 0;
    do {
      assert.deepEqual(await lanes.getMany(asked), expected);
      rounds += 1;
    } while (lanes.route(keys[4]!).node === from.address);
    await moved;
    assert.deepEqual(await lanes.getMany(asked), expected);
    assert.equal(lanes.route(keys[4]!).node, to.address);
    assert.ok(rounds > 0);
  });

  it("ASK: during a half-done migration keys are served where they are, and the map stays", async () => {
    const lanes = open.value;
    const slot = lanes.route("{ask}").slot;
    const from = await c3.value.ownerOf(slot);
    const to = c3.value.primaries.find((node) => node !== from)!;
    await Promise.all(["{ask}here", "{ask}there"].map((key) => lanes.set(key, "10")));
    const move = await c3.value.beginMove(slot, from, to);
    await move.migrate(["{ask}there"]);
    const before = stats();
    const calls = Array.from({ length: 50 }, () => [lanes.incrBy("{ask}here"), lanes.incrBy("{ask}there")]).flat();
    const sums = await Promise.all(calls);
    assert.deepEqual(
      sums,
      sums.map((_, i) => 11 + Math.floor(i / 2)),
    );
    assert.deepEqual(await lanes.getMany(["{ask}here", "{ask}there", "{ask}none"]), ["60", "60", null]);
    assert.equal(await lanes.set("{ask}new", "born on the target"), true);
    const after = stats();
    assert.equal(after.asked - before.asked, 50 + 2 + 1);
    assert.equal(after.moved, before.moved);
    assert.equal(lanes.route("{ask}there").node, from.address);
    assert.deepEqual(await rawCommand(from.address, "GET", "{ask}here"), Buffer.from("60"));
    await move.finish();
    assert.deepEqual(await lanes.getMany(["{ask}here", "{ask}there", "{ask}new"]), ["60", "60", "born on the target"]);
    await until(() => lanes.route("{ask}there").node === to.address);
    assert.ok(stats().moved > after.moved);
  });

  it("TRYAGAIN: a command over keys on both sides waits for the migration", async () => {
    const lanes = open.value;
    const slot = lanes.route("{try}").slot;
    const from = await c3.value.ownerOf(slot);
    const to = c3.value.primaries.find((node) => node !== from)!;
    assert.equal(await lanes.command("MSET", "{try}a", 1, "{try}b", 2), "OK");
    const move = await c3.value.beginMove(slot, from, to);
    await move.migrate(["{try}a"]);
    await rejection(lanes.command("MGET", "{try}a", "{try}b", { timeoutMs: 200 }), "KEYLANE_ERR_TRYAGAIN", {
      command: "MGET",
      slot,
      outcome: "rejected",
      retryable: true,
    });
    const retries = stats().retries;
    const waiting = lanes.command("MGET", "{try}a", "{try}b");
    await until(() => stats().retries > retries + 2);
    await move.finish();
    assert.deepEqual(await waiting, ["1", "2"]);
  });

  it("many slots move at once under traffic", async () => {
    const lanes = (await openLanes({
      domains: { all: { prefixes: [""], nodes: c3.value.seeds } },
      commandTimeoutMs: 15_000,
    })) as unknown as Keylane<never>;
    const [from, to] = c3.value.primaries as [(typeof c3.value.primaries)[0], (typeof c3.value.primaries)[0]];
    const keys: string[] = [];
    for (let i = 0; keys.length < 60; i += 1)
      if (lanes.route(`many:${i}`).node === from.address) keys.push(`many:${i}`);
    const slots = [...new Set(keys.map((key) => lanes.route(key).slot))];
    let over = false;
    const running = traffic(lanes, keys, () => over);
    await c3.value.moveSlots(slots, from, to);
    await until(() => keys.every((key) => lanes.route(key).node === to.address));
    over = true;
    await assertExact(lanes, await running);
    const { moved, failed } = lanes.stats().domains["all"]!;
    assert.ok(moved > 0);
    assert.equal(failed, 0);
  });
});
