/**
 * Two processes of four threads each write and read the same keys at random through their shared caches. Nothing is read that
 * a key never held, own writes are seen at once, and afterwards every cache agrees with the servers.
 *
 * How long after its invalidation was sent a value was still read is printed. A thread that gets no processor hears late, so
 * the limit of 50 ms is held only where `KEYLANE_COHERENCE_SECONDS` gives a length (a release: 60) and the machine to the run.
 * `KEYLANE_COHERENCE_SEED` chooses the choices.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { native } from "#dist/native/index.js";
import { startCluster } from "keylane/sandbox";
import type { SandboxCluster } from "keylane/sandbox";

import { Contestant } from "../support/coherence/contestant.js";
import { FOLLOWED } from "../support/coherence/history.js";
import { judge, report } from "../support/coherence/judge.js";
import { Monitor, offsetOf } from "../support/coherence/monitor.js";
import { keysOf } from "../support/coherence/player.js";
import { until } from "../support/until.js";

const GIVEN = process.env["KEYLANE_COHERENCE_SECONDS"];
const SECONDS = Number(GIVEN ?? 6);
const SEED = Number(process.env["KEYLANE_COHERENCE_SEED"] ?? 5);
const PROCESSES = ["a", "b"];
const THREADS = 4;
/** Each of two keys. */
const TAGS = 100;
const LIMIT_MS = GIVEN === undefined ? Infinity : 50;
/** The clocks of servers and threads may be so far apart from where they are taken to be, in milliseconds. */
const CLOCK_ERROR_MS = 1;

test(
  `two processes of ${THREADS} threads stay coherent for ${SECONDS} s`,
  { timeout: (SECONDS + 60) * 1000 },
  async (t) => {
    const cluster = await startCluster({ primaries: 3 });
    t.after(() => cluster.stop());
    const plan = { nodes: cluster.seeds, threads: THREADS, tags: TAGS };
    const starts = PROCESSES.map((name, at) => Contestant.start({ ...plan, name, seed: SEED + at * THREADS }));
    const contestants = await Promise.all(starts);
    t.after(() => contestants.forEach((one) => one.kill()));
    const before = await offsetOf(cluster.primaries[0]!);
    const monitors = await Promise.all(cluster.primaries.map((node) => Monitor.start(node)));

    await Promise.all(contestants.map((one) => one.play()));
    await sleep(SECONDS * 1000);
    const logs = await Promise.all(contestants.map((one) => one.stop()));

    const keys = keysOf(TAGS);
    const stored = await until(() => atRest(cluster, keys), { what: "the end of all lives" });
    const caches = await Promise.all(contestants.map((one) => one.rest()));
    const ran = monitors.flatMap((monitor) => monitor.stop(FOLLOWED));
    const after = await offsetOf(cluster.primaries[0]!);

    const drift = after.ms - before.ms;
    const exact = Math.max(before.within, after.within);
    const judgement = judge(keys, ran, logs, (before.ms + after.ms) / 2);
    console.log(
      report(judgement, SECONDS, `known within ${exact.toFixed(3)} ms, apart by ${drift.toFixed(3)} ms afterwards`),
    );

    for (const [process, threads] of caches.entries()) {
      for (const [thread, seen] of threads.entries()) {
        const where = `thread ${thread} of process ${process}`;
        for (const [at, key] of keys.entries()) {
          const [first, got, last] = seen[at]!;
          if (first !== undefined) assert.equal(first, stored[at], `${key} was cached in ${where}`);
          assert.equal(got, stored[at], `${key} was read in ${where}`);
          assert.equal(last, stored[at], `${key} is cached in ${where}`);
        }
      }
    }
    assert.deepEqual(judgement.errors, []);
    assert.deepEqual(judgement.foreign, []);
    assert.deepEqual(judgement.unseen, [], "writes of the own process that were not seen once they were acknowledged");
    assert.ok(Math.abs(drift) + exact < CLOCK_ERROR_MS, "the clocks can be compared");
    assert.ok(judgement.writes > 100 * SECONDS, `only ${judgement.writes} writes`);
    assert.ok(judgement.reads > 1000 * SECONDS, `only ${judgement.reads} reads`);
    assert.ok(
      judgement.all.max <= LIMIT_MS,
      `a value was read ${judgement.all.max} ms after its invalidation was sent`,
    );
    assert.ok(
      judgement.expired.max <= LIMIT_MS,
      `a value was read ${judgement.expired.max} ms after its life was over`,
    );
    for (const one of contestants) assert.equal(await one.end(), 0);
  },
);

/** The values of all keys once none of them is going to expire; null before. */
async function atRest(cluster: SandboxCluster, keys: readonly string[]): Promise<(string | null)[] | null> {
  const owners = await Promise.all(
    cluster.primaries.map(
      async (node) => [node, (await cluster.view(node)).find(({ id }) => id === node.id)!] as const,
    ),
  );
  const ownerOf = (key: string) => {
    const slot = native.slot(key);
    return owners.find(([, { slots }]) => slots.some(([from, to]) => from <= slot && slot <= to))![0];
  };
  const lives = await Promise.all(keys.map((key) => ownerOf(key).command("PTTL", key)));
  if (lives.some((life) => Number(life) >= 0)) return null;
  return Promise.all(keys.map(async (key) => (await ownerOf(key).command("GET", key)) as string | null));
}
