/**
 * The example ad server under load: SIGTERM with 1,000 requests in flight, and threads that die. Every request is answered or
 * refused in words, caps hold, each answered impression is billed once, and the process ends by itself with nothing to say.
 * `KEYLANE_ADSERVER_SECONDS` says how long threads die (default 6; one every 1.5 s). Prints its figures.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane } from "keylane";

import { bookKey } from "#dist/ledger/keys.js";
import { AdServer } from "../support/adserver/program.js";
import type { AdAnswer } from "../support/adserver/program.js";
import { useC3 } from "../support/fixtures.js";
import { makeFolder } from "../support/ledger.js";
import { until, within } from "../support/until.js";

const SECONDS = Number(process.env["KEYLANE_ADSERVER_SECONDS"] ?? 6);
const EVERY_MS = 1500;
const CALLS = 1000;
const USERS = 400;
/** The campaigns of the server: price, and its cap an hour. */
const priceOf = (campaign: number): bigint => BigInt(10 + campaign);
const limitOf = (campaign: number): number => 2 + (campaign % 3);
const INTERESTS = ["books", "music", "sports", "travel"];

/** Each status once. */
function statusesOf(answers: readonly AdAnswer[]): number[] {
  return [...new Set(answers.map(({ status }) => status))];
}

describe("the ad server", () => {
  // Paused nodes are to come back as what they were.
  const c3 = useC3({ nodeTimeoutMs: 60_000 });

  /** Empty servers but for profiles, and a server in front of them. */
  const start = async (t: { after(end: () => unknown): void }, options: object): Promise<AdServer> => {
    const { seeds, primaries } = c3.value;
    for (const node of primaries) await node.command("FLUSHALL");
    const lanes = await Keylane.open({ domains: { up: { prefixes: ["up:"], nodes: seeds, codec: "json" } } });
    const users = Array.from({ length: CALLS }, (_, user) => user);
    await Promise.all(
      users.map((user) => {
        const profile = { interests: [INTERESTS[user % 4], INTERESTS[(user + 1) % 4]] };
        return lanes.set(`up:user:${user}`, profile as never);
      }),
    );
    await lanes.close();
    const server = await AdServer.start({ nodes: seeds, ...options }, makeFolder());
    t.after(() => server.program.kill("SIGKILL"));
    return server;
  };

  /** What is booked, by campaign, and what the answers say ought to be. */
  const audit = async (answers: readonly AdAnswer[]): Promise<void> => {
    const shown = new Map<number, number>();
    const seen = new Map<string, number>();
    for (const { user, campaign } of answers) {
      if (campaign === null) continue;
      shown.set(campaign, (shown.get(campaign) ?? 0) + 1);
      const of = `${user} ${campaign}`;
      seen.set(of, (seen.get(of) ?? 0) + 1);
      assert.ok(seen.get(of)! <= limitOf(campaign), `campaign ${campaign} was shown too often to ${user}`);
    }
    const lanes = await Keylane.open({ domains: { rb: { prefixes: ["rb:"], nodes: c3.value.seeds } } });
    for (const [campaign, count] of shown) {
      const balance = await lanes.command("HGET", bookKey("rb:", `campaign:${campaign}`), "balance");
      assert.equal(BigInt(String(balance)), priceOf(campaign) * BigInt(count), `campaign ${campaign}`);
    }
    await lanes.close();
  };

  /** SIGTERM with all requests in flight at servers that stand still; `meanwhile` is done then. */
  const terminate = async (server: AdServer, meanwhile: () => Promise<void> | void): Promise<AdAnswer[]> => {
    for (const node of c3.value.primaries) node.pause();
    try {
      const asked = Array.from({ length: CALLS }, (_, at) => server.ask(`user:${at}`, `i${at}`));
      await until(async () => (await server.stats())?.inFlight === CALLS, { what: "all requests in flight" });
      server.program.kill("SIGTERM");
      await until(async () => (await server.stats()) === null, { what: "the signal" });
      await meanwhile();
      return await within(Promise.all(asked), 20_000, "the requests");
    } finally {
      for (const node of c3.value.primaries) node.resume();
    }
  };
  for (const threads of [0, 2]) {
    it(`C8: SIGTERM with ${CALLS} requests in flight: all are answered, and billed, threads: ${threads}`, async (t) => {
      const server = await start(t, { threads, commandTimeoutMs: 15_000, graceMs: 15_000 });
      const answers = await terminate(server, () => {
        for (const node of c3.value.primaries) node.resume();
      });
      assert.deepEqual([statusesOf(answers), answers.length], [[200], CALLS], answers[0]!.reason);
      assert.equal(await within(server.program.ended, 15_000, "the end"), 0);
      assert.equal(server.program.errors(), "");
      assert.ok(answers.every(({ campaign }) => campaign !== null));
      await audit(answers);
      assert.equal((await server.ask("user:1", "later")).reason, "ECONNREFUSED");
      server.disconnect();
    });
  }

  it(`C8: SIGTERM with ${CALLS} requests in flight and silent servers: all are refused in time, and nothing is billed`, async (t) => {
    const server = await start(t, { threads: 2, commandTimeoutMs: 60_000, graceMs: 300 });
    const answers = await terminate(server, async () => {
      assert.equal(await within(server.program.ended, 15_000, "the end"), 0);
    });
    assert.deepEqual([statusesOf(answers), answers.length], [[503], CALLS]);
    assert.deepEqual([...new Set(answers.map(({ reason }) => reason))], ["the server is closing"]);
    assert.equal(server.program.errors(), "");
    await audit(answers);
    server.disconnect();
  });

  it(`threads die for ${SECONDS} s: every impression gets its ad, caps hold, each is billed once`, async (t) => {
    const server = await start(t, { threads: 2, deciders: 2 });
    const end = performance.now() + SECONDS * 1000;
    const loaded = server.load(USERS, 48, () => performance.now() < end);
    let ended = 0;
    for (; performance.now() + EVERY_MS < end; ended += 1) {
      await sleep(EVERY_MS);
      server.endThread();
    }
    const { answers, repeats } = await within(loaded, SECONDS * 1000 + 20_000, "the load");
    const ads = answers.filter(({ campaign }) => campaign !== null);
    console.log(
      `${answers.length} impressions, ${ads.length} with an ad, ${ended} threads ended; asked for again:`,
      repeats,
    );
    server.program.kill("SIGTERM");
    assert.equal(await within(server.program.ended, 15_000, "the end"), 0);
    assert.ok(ended >= 3 && ads.length > 48, `${ads.length} ads`);
    assert.doesNotMatch(server.program.errors(), /unhandled|internal/i);
    await audit(answers);
    server.disconnect();
  });
});
