/**
 * A billing writer is killed (SIGKILL) again and again while a primary dies with bookings that its replica never saw, and all
 * primaries stop for a while. Afterwards every account holds exactly the sum of its entries: none lost, none doubled.
 * `KEYLANE_LEDGER_ENTRIES` says how many (default 30,000; a release is given 1,000,000, which also takes two primaries and
 * stops all for 30 s). Prints its figures.
 */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { native } from "#dist/native/index.js";
import { bookKey } from "#dist/ledger/keys.js";
import { startCluster } from "keylane/sandbox";
import type { SandboxCluster } from "keylane/sandbox";

import { accountOf, amountOf, WRITER_ACCOUNTS } from "../support/ledger-writer.js";
import type { WriterOrder, WriterReport } from "../support/ledger-writer.js";
import { makeFolder } from "../support/ledger.js";
import { runProgram } from "../support/processes.js";
import { until } from "../support/until.js";

const ENTRIES = Number(process.env["KEYLANE_LEDGER_ENTRIES"] ?? 30_000);
const LONG = ENTRIES >= 1_000_000;
/** Entries a second: a million takes two minutes. */
const RATE = 8000;
const KILLS = LONG ? 12 : 3;
const OUTAGE_MS = LONG ? 30_000 : 2000;
/** A replica is cut off for so long before its primary dies. */
const BLIND_MS = 300;
const PROGRAM = new URL("../support/ledger-writer.js", import.meta.url);
const CLI = new URL("cli/main.js", import.meta.resolve("keylane")).pathname;

/** The writers, one after the other. */
class Writers {
  acknowledged = 0;
  rebooked = 0;
  killed = 0;
  done = false;
  readonly errors: string[] = [];
  readonly #order: Omit<WriterOrder, "from">;
  #child: ChildProcess | null = null;
  #rebooked = 0;

  constructor(order: Omit<WriterOrder, "from">) {
    this.#order = order;
  }

  start(): void {
    const child = fork(PROGRAM);
    this.#child = child;
    this.#rebooked = 0;
    this.done = false;
    child.on("message", ({ acknowledged, rebooked, done, errors }: WriterReport) => {
      this.acknowledged = acknowledged;
      this.rebooked += rebooked - this.#rebooked;
      this.#rebooked = rebooked;
      this.done = done;
      this.errors.push(...errors);
    });
    child.send({ ...this.#order, from: this.acknowledged } satisfies WriterOrder);
  }

  /** Resolves when the last one has ended by itself. */
  async ended(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }

  /** Entries that were acknowledged without the parent hearing of it are added again, with the same ids. */
  async kill(): Promise<void> {
    const child = this.#child!;
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
    this.killed += 1;
  }
}

/** Kills a primary whose replica has missed its last bookings, and brings it back once the replica has taken over. */
async function losePrimary(cluster: SandboxCluster): Promise<void> {
  const slot = native.slot(bookKey("rb:", accountOf(0)));
  const primary = await cluster.ownerOf(slot);
  const [replica] = cluster.replicasOf(primary);
  replica!.pause();
  await primary.command("CLIENT", "KILL", "TYPE", "replica");
  await sleep(BLIND_MS);
  await primary.kill();
  replica!.resume();
  await until(async () => (await replica!.info("replication")).get("role") === "master", { timeoutMs: 30_000 });
  await primary.start();
  await cluster.waitHealthy();
}

async function stopAll(cluster: SandboxCluster): Promise<void> {
  for (const node of cluster.primaries) node.pause();
  await sleep(OUTAGE_MS);
  for (const node of cluster.nodes) node.resume();
  await cluster.waitHealthy({ timeoutMs: 60_000 });
}

test(`${ENTRIES} entries are booked exactly once, whatever dies`, { timeout: 120_000 + ENTRIES }, async (t) => {
  const began = performance.now();
  const cluster = await startCluster({ primaries: 3, replicas: 1, nodeTimeoutMs: 1000 });
  t.after(() => cluster.stop());
  const directory = makeFolder();
  const nodes = cluster.nodes.map(({ address }) => address);
  // What is booked may leave the spool during the test.
  const writers = new Writers({ nodes, directory, to: ENTRIES, rate: RATE, keepBookedMs: LONG ? 60_000 : 4000 });
  t.after(() => writers.kill());

  /** Things that happen when so much of all entries is acknowledged. */
  const kill = async (): Promise<void> => {
    await writers.kill();
    writers.start();
  };
  type Event = readonly [share: number, what: () => Promise<void>];
  const kills = Array.from({ length: KILLS }, (_, at): Event => [(at + 1) / (KILLS + 1), kill]);
  // A primary dies soon after a writer was killed, so that the next one lives to see what was lost.
  const lose = (share: number): Event => [share, () => losePrimary(cluster)];
  const stop = (share: number): Event => [share, () => stopAll(cluster)];
  const faults = LONG ? [lose(0.24), stop(0.45), lose(0.7)] : [stop(0.4), lose(0.76)];
  const play = async (list: readonly Event[]): Promise<void> => {
    for (const [share, what] of list) {
      await until(() => writers.acknowledged >= share * ENTRIES, { timeoutMs: 60_000 + ENTRIES });
      await what();
    }
  };
  writers.start();
  await Promise.all([play(kills), play(faults)]);
  const end = { timeoutMs: 60_000 + ENTRIES, what: "the end of a writer" };
  await until(() => writers.done, end);
  // One more has nothing to add: it books anew whatever was lost after the last one ended.
  await writers.ended();
  writers.start();
  await until(() => writers.done, end);

  const sums = new Map<string, bigint>();
  for (let n = 0; n < ENTRIES; n += 1) sums.set(accountOf(n), (sums.get(accountOf(n)) ?? 0n) + amountOf(n));
  assert.equal(sums.size, WRITER_ACCOUNTS);
  for (const [account, sum] of sums) {
    const key = bookKey("rb:", account);
    const owner = await cluster.ownerOf(native.slot(key));
    assert.equal(BigInt(String(await owner.command("HGET", key, "balance"))), sum, account);
  }
  const lost = writers.errors.filter((error) => error.startsWith("KEYLANE_ERR_LOST"));
  assert.deepEqual(lost, []);
  assert.equal(writers.killed, KILLS);
  assert.ok(writers.rebooked > 0, "no booking was lost by a failover");

  const verify = runProgram(CLI, ["ledger", "verify", "--directory", directory, "--nodes", nodes.join(",")], directory);
  assert.match(await verify.firstLine, / 0 not booked yet$/);
  assert.equal(await verify.ended, 0, verify.errors());
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    `ledger: ${ENTRIES} entries in ${seconds} s, writer killed ${writers.killed} times, ` +
      `${writers.rebooked} bookings lost by failovers and booked anew; other errors: ${writers.errors.length}`,
  );
});
