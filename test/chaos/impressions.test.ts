/**
 * An ad server is killed (SIGKILL) in turn with a primary of the frequency cluster and one of the billing cluster, each with writes
 * that its replica never saw, while impressions run. Afterwards every id is counted and billed or neither, as it was answered, and
 * the totals of both clusters agree. `KEYLANE_IMPRESSIONS` says how many (default 3,000; a release is given 200,000). Prints
 * its figures.
 */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Keylane } from "keylane";
import { native } from "#dist/native/index.js";
import { bookKey, bookKeys } from "#dist/ledger/keys.js";
import { startCluster } from "keylane/sandbox";
import type { SandboxCluster } from "keylane/sandbox";

import { countedOf } from "../support/impressions.js";
import { accountOf, amountOf, CAMPAIGN_LIMIT, creativeOf, PER_USER, userOf } from "../support/impression-writer.js";
import type { ImpressionOrder, ImpressionReport } from "../support/impression-writer.js";
import { makeFolder } from "../support/ledger.js";
import { until } from "../support/until.js";

const IMPRESSIONS = Number(process.env["KEYLANE_IMPRESSIONS"] ?? 3000);
const USERS = Math.ceil(IMPRESSIONS / PER_USER);
/** Rounds of three deaths, one of each. */
const ROUNDS = IMPRESSIONS >= 100_000 ? 4 : 1;
/** Impressions a second. */
const RATE = IMPRESSIONS >= 100_000 ? 1500 : 300;
/** A replica is cut off for so long before its primary dies. */
const BLIND_MS = 300;
/** A new ad server asks again for so many that are answered. */
const AGAIN = 300;
const PROGRAM = new URL("../support/impression-writer.js", import.meta.url);

/** The ad servers, one after the other, and what they were answered. */
class Writers {
  /** By impression: 1 allowed, -1 denied, 0 not answered. */
  readonly answers = new Int8Array(IMPRESSIONS);
  readonly changed: number[] = [];
  readonly errors: string[] = [];
  answered = 0;
  failed = 0;
  rebooked = 0;
  killed = 0;
  done = false;
  readonly #order: Omit<ImpressionOrder, "from">;
  #child: ChildProcess | null = null;

  constructor(order: Omit<ImpressionOrder, "from">) {
    this.#order = order;
  }

  start(): void {
    const child = fork(PROGRAM);
    this.#child = child;
    this.done = false;
    let rebooked = 0;
    child.on("message", (report: ImpressionReport) => {
      for (const n of report.allowed) this.#note(n, 1);
      for (const n of report.denied) this.#note(n, -1);
      this.failed += report.failed;
      this.rebooked += report.rebooked - rebooked;
      rebooked = report.rebooked;
      this.errors.push(...report.errors);
      this.done = report.done;
    });
    const first = this.answers.indexOf(0);
    const from = Math.max(0, (first === -1 ? IMPRESSIONS : first) - AGAIN);
    child.send({ ...this.#order, from } satisfies ImpressionOrder);
  }

  async ended(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }

  async kill(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
    this.killed += 1;
  }

  #note(n: number, answer: 1 | -1): void {
    const before = this.answers[n]!;
    if (before === 0) this.answered += 1;
    else if (before !== answer) this.changed.push(n);
    this.answers[n] = answer;
  }
}

/**
 * Kills the primary of a key whose replica has missed its last writes. Resolves when the replica has taken over, to the promise
 * that the dead one is back.
 */
async function losePrimary(cluster: SandboxCluster, key: string): Promise<{ readonly back: Promise<void> }> {
  const primary = await cluster.ownerOf(native.slot(key));
  const [replica] = cluster.replicasOf(primary);
  replica!.pause();
  await primary.command("CLIENT", "KILL", "TYPE", "replica");
  await sleep(BLIND_MS);
  await primary.kill();
  replica!.resume();
  await until(async () => (await replica!.info("replication")).get("role") === "master", { timeoutMs: 30_000 });
  return { back: primary.start().then(() => cluster.waitHealthy({ timeoutMs: 60_000 })) };
}

/** What both clusters have, by impression and in sum. */
interface Found {
  readonly counted: Set<number>;
  readonly billed: Set<number>;
  readonly faults: string[];
  /** Largest count of a campaign. */
  readonly most: number;
}

async function lookAt(frequency: readonly string[], billing: readonly string[]): Promise<Found> {
  const domains = {
    freq: { prefixes: ["fc:"], nodes: frequency },
    billing: { prefixes: ["rb:"], nodes: billing },
  };
  await using lanes = await Keylane.open({ domains });
  const [counted, billed, faults] = [new Set<number>(), new Set<number>(), [] as string[]];
  let most = 0;
  const freq = lanes.redis("freq");
  for (let at = 0; at < USERS; at += 1) {
    const user = userOf(at, USERS);
    const { used, held, ids } = countedOf(await freq.hgetall(`fc:caps:{${user}}`), Date.now());
    const of = Object.keys(ids).map(Number);
    for (const n of of) counted.add(n);
    const expected: Record<string, number> = { campaign: of.length };
    for (const n of of) expected[creativeOf(n)] = (expected[creativeOf(n)] ?? 0) + 1;
    for (const name of new Set([...Object.keys(expected), ...Object.keys(used)])) {
      const [is, should] = [used[name] ?? 0, expected[name] ?? 0];
      if (is !== should) faults.push(`${user} ${name}: ${is} counted, ${should} ids`);
    }
    if (held > 0) faults.push(`${user}: ${held} places held`);
    if (Object.values(ids).some((state) => state !== "b")) faults.push(`${user}: an id is not settled`);
    most = Math.max(most, used["campaign"] ?? 0);
  }
  const book = lanes.redis("billing");
  const accounts = new Set(Array.from({ length: Math.min(IMPRESSIONS, 1000) }, (_, n) => accountOf(n)));
  for (const account of accounts) {
    const [, ids0, ids1] = bookKeys("rb:", account);
    const ids = [...(await book.smembers(ids0)), ...(await book.smembers(ids1))].map(Number);
    for (const n of ids) billed.add(n);
    const sum = ids.reduce((total, n) => total + amountOf(n), 0n);
    const balance = BigInt((await book.hget(bookKey("rb:", account), "balance")) ?? 0);
    if (balance !== sum) faults.push(`${account}: ${balance} booked, the ids come to ${sum}`);
  }
  return { counted, billed, faults, most };
}

test(
  `${IMPRESSIONS} impressions are counted and billed, or neither, whatever dies`,
  { timeout: 600_000 },
  async (t) => {
    const began = performance.now();
    const [frequency, billing] = await Promise.all(
      [0, 1].map(() => startCluster({ primaries: 3, replicas: 1, nodeTimeoutMs: 1000 })),
    );
    t.after(() => Promise.all([frequency!.stop(), billing!.stop()]));
    const nodes = {
      frequency: frequency!.nodes.map(({ address }) => address),
      billing: billing!.nodes.map(({ address }) => address),
    };
    const directory = makeFolder();
    const writers = new Writers({
      ...nodes,
      directory,
      to: IMPRESSIONS,
      rate: RATE,
      users: USERS,
      keepBookedMs: 15_000,
    });
    t.after(() => writers.kill());

    writers.start();
    for (let round = 0; round < ROUNDS; round += 1) {
      const due = (part: number): Promise<unknown> => {
        const share = (round + part / 4) / ROUNDS;
        return until(() => writers.answered >= share * IMPRESSIONS, {
          timeoutMs: 300_000,
          what: `${share} of the answers`,
        });
      };
      await due(1);
      const counts = await losePrimary(frequency!, `fc:caps:{${userOf(round, USERS)}}`);
      await due(2);
      const books = await losePrimary(billing!, bookKey("rb:", accountOf(round)));
      await due(3);
      await writers.kill();
      writers.start();
      await Promise.all([counts.back, books.back]);
    }
    const end = { timeoutMs: 300_000, what: "the end of a writer" };
    await until(() => writers.done, end);
    // One more asks again for the last ones, and recovers whatever was lost after the last one ended.
    await writers.ended();
    writers.start();
    await until(() => writers.done, end);
    await writers.ended();

    const { counted, billed, faults, most } = await lookAt(nodes.frequency, nodes.billing);
    // Connections may break; nothing else may happen.
    const errors = writers.errors.filter((error) => !error.startsWith("KEYLANE_ERR_CONNECTION_LOST"));
    assert.deepEqual(errors, []);
    assert.deepEqual(writers.changed, [], "an id was answered in two ways");
    assert.deepEqual(faults.slice(0, 10), []);
    const split = Array.from({ length: IMPRESSIONS }, (_, n) => n).filter((n) => {
      const allowed = writers.answers[n] === 1;
      return counted.has(n) !== allowed || billed.has(n) !== allowed || writers.answers[n] === 0;
    });
    assert.deepEqual(
      split.slice(0, 10).map((n) => [n, writers.answers[n], counted.has(n), billed.has(n)]),
      [],
    );
    assert.equal(counted.size, billed.size);
    assert.equal(writers.killed, ROUNDS);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(
      `impressions: ${IMPRESSIONS} in ${seconds} s, ${billed.size} counted and billed, the others neither; ${ROUNDS} times each ` +
        `a process, a frequency and a billing primary killed; ${writers.failed} calls failed and were repeated, ` +
        `${writers.rebooked} entries booked anew; most of ${CAMPAIGN_LIMIT} counted for a user: ${most}`,
    );
  },
);
