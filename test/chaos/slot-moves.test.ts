/**
 * Slots move to and fro between two primaries while counters are counted and read, pipelined, without a pause. Every call is
 * judged by its value: the n-th INCRBY of a key gives n, a GET gives what was counted before it was issued, and so does a cap of a
 * user of the same slot. So one repeated, lost or overtaken operation fails the test, as does one call that fails or hangs.
 *
 * KEYLANE_CHAOS_SECONDS sets the duration (default 6; 60 by hand).
 */
import assert from "node:assert/strict";
import { test } from "node:test";

import { Keylane } from "keylane";
import type { CapsResult } from "keylane";
import { startCluster } from "keylane/sandbox";
import type { SandboxCluster, SandboxNode } from "keylane/sandbox";

import { within } from "../support/until.js";

const SECONDS = Number(process.env["KEYLANE_CHAOS_SECONDS"] ?? 6);
const WORKERS = 8;
/** Operations that one worker has in flight at most. */
const BURST = 48;
const KEYS_PER_WORKER = 25;
/** Slots under way at once. */
const MOVING = 12;

const CAPS = [{ name: "a", limit: 1_000_000, windowMs: 86_400_000 }];

interface Client {
  incrBy(key: string): Promise<number | bigint>;
  get(key: string): Promise<unknown>;
  readonly caps: { take(user: string, caps: typeof CAPS): Promise<CapsResult> };
}

/** Counts its own keys in bursts until `over`; gives the calls made and the last count of each key. */
async function count(
  lanes: Client,
  keys: readonly string[],
  over: () => boolean,
): Promise<[number, Map<string, number>]> {
  const issued = new Map(keys.map((key) => [key, 0]));
  const taken = new Map(keys.map((key) => [key, 0]));
  let calls = 0;
  for (let step = 0; !over();) {
    const burst: Promise<void>[] = [];
    for (let i = 0; i < BURST; i += 1, step += 1) {
      const key = keys[(step * 7) % keys.length]!;
      const before = issued.get(key)!;
      if (step % 4 === 1) {
        const used = taken.get(key)! + 1;
        taken.set(key, used);
        burst.push(
          lanes.caps.take(key, CAPS).then((result) => assert.equal(result.caps[0]!.used, used, `take ${key}`)),
        );
      } else if (step % 3 === 0)
        burst.push(
          lanes.get(key).then((value) => assert.equal(value, before === 0 ? null : String(before), `GET ${key}`)),
        );
      else {
        issued.set(key, before + 1);
        burst.push(lanes.incrBy(key).then((sum) => assert.equal(sum, before + 1, `INCRBY ${key}`)));
      }
    }
    await Promise.all(burst);
    calls += burst.length;
  }
  return [calls, issued];
}

/** Moves `slots`, those longest at rest first, to whichever of the two nodes lacks them, until `over`. Gives the moves made. */
async function shuffle(
  cluster: SandboxCluster,
  pair: readonly [SandboxNode, SandboxNode],
  slots: readonly number[],
  over: () => boolean,
): Promise<number> {
  // Each side's slots, in the order in which they came.
  const sides = [[...slots], []] as [number[], number[]];
  let moves = 0;
  while (!over()) {
    const from = sides[0].length > sides[1].length || (sides[0].length > 0 && Math.random() < 0.5) ? 0 : 1;
    const to = from === 0 ? 1 : 0;
    const chosen = sides[from].splice(0, MOVING);
    await cluster.moveSlots(chosen, pair[from], pair[to]);
    sides[to].push(...chosen);
    moves += chosen.length;
  }
  return moves;
}

test(`counters stay exact while slots move for ${SECONDS} s`, { timeout: (SECONDS + 60) * 1000 }, async (t) => {
  await using cluster = await startCluster({ primaries: 3 });
  await using lanes = await Keylane.open({
    domains: { all: { prefixes: [""], nodes: cluster.seeds } },
    caps: { domain: "all", onError: "throw" },
    commandTimeoutMs: 10_000,
  });
  const pair = cluster.primaries.slice(0, 2) as [SandboxNode, SandboxNode];
  const all: string[] = [];
  for (let i = 0; all.length < WORKERS * KEYS_PER_WORKER; i += 1) {
    // A quarter of the keys is anywhere and stays; the others are where slots move.
    if (all.length % 4 === 0 || lanes.route(`c${i}`).node === pair[0].address) all.push(`c${i}`);
  }
  const moving = all.filter((key) => lanes.route(key).node === pair[0].address);
  const slots = [...new Set(moving.map((key) => lanes.route(key).slot))];
  const end = performance.now() + SECONDS * 1000;
  const over = (): boolean => performance.now() >= end;
  const workers = Array.from({ length: WORKERS }, (_, worker) =>
    count(
      lanes,
      all.filter((_key, i) => i % WORKERS === worker),
      over,
    ),
  );
  const running = Promise.all([shuffle(cluster, pair, slots, over), ...workers]);
  const [moves, ...counted] = await within(running, (SECONDS + 30) * 1000, "the traffic");
  for (const [, issued] of counted) {
    for (const [key, sum] of issued) assert.equal(await lanes.get(key), sum === 0 ? null : String(sum), key);
  }
  const { failed, timeouts, moved, asked, retries, pending } = lanes.stats().domains["all"]!;
  const calls = counted.reduce((sum, [made]) => sum + made, 0);
  t.diagnostic(`${calls} calls, ${moves} slot moves, ${moved} MOVED, ${asked} ASK, ${retries} sent again`);
  assert.deepEqual({ failed, timeouts, pending }, { failed: 0, timeouts: 0, pending: 0 });
  assert.ok(moves > 0 && moved > 0 && asked > 0, `${moves} moves, ${moved} MOVED, ${asked} ASK`);
});
