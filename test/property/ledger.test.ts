/**
 * The whole protocol, spool and booker, against a sum: whatever order of entries, crashes, lost calls, lost replies, failovers that
 * lose bookings, and segments that leave, the balances are the sums of what was acknowledged, each id counted once.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as fc from "fast-check";
import { Ledger } from "#dist/ledger/ledger.js";
import { type Fate, ModelServers } from "../support/ledger-model.js";
import { policyOf } from "../support/ledger.js";

const ACCOUNTS = ["a", "b", "c"];
const TUNING = { segmentBytes: 300, lingerMs: 0, maxPauseMs: 1, tickMs: 1 };

type Step =
  | { readonly do: "add"; readonly account: number; readonly id: number; readonly amount: bigint }
  | { readonly do: "crash" | "replicate" | "fail over" | "flush" }
  | { readonly do: "turns"; readonly count: number }
  | { readonly do: "fate"; readonly fates: readonly Fate[] };

const fate = fc.constantFrom<Fate>("answered", "answered", "lost before", "lost after");
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("add" as const),
      account: fc.nat({ max: ACCOUNTS.length - 1 }),
      id: fc.nat({ max: 60 }),
      amount: fc.bigInt({ min: -(2n ** 56n), max: 2n ** 56n }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("crash", "replicate", "fail over", "flush" as const) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("turns" as const), count: fc.integer({ min: 1, max: 20 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("fate" as const), fates: fc.array(fate, { minLength: 1 }) }) },
);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function play(steps: readonly Step[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "keylane-protocol-"));
  const servers = new ModelServers();
  // Nothing leaves the spool before a replica has it: what a failover may lose is kept for longer.
  const policy = policyOf(folder, { batchSize: 3, keepBookedMs: 600_000 });
  let ledger = await Ledger.open(policy, servers, TUNING);
  const sums = new Map<string, bigint>();
  const known = new Set<string>();
  let added: Promise<void>[] = [];
  try {
    for (const one of steps) {
      if (one.do === "add") {
        const account = ACCOUNTS[one.account]!;
        added.push(ledger.add(account, one.amount, { id: String(one.id) }));
        const key = `${account} ${one.id}`;
        if (!known.has(key)) sums.set(account, (sums.get(account) ?? 0n) + one.amount);
        known.add(key);
      } else if (one.do === "crash") {
        await Promise.all(added);
        added = [];
        ledger.destroy();
        ledger = await Ledger.open(policy, servers, TUNING);
      } else if (one.do === "fate") {
        let calls = 0;
        servers.fate = () => one.fates[calls++ % one.fates.length]!;
        if (!one.fates.includes("answered")) servers.fate = () => "lost before";
      } else if (one.do === "turns") for (let n = 0; n < one.count; n += 1) await turn();
      else if (one.do === "replicate") servers.replicate();
      else if (one.do === "fail over") servers.failOver();
      else {
        servers.fate = () => "answered";
        await ledger.flush();
      }
    }
    await Promise.all(added);
    servers.fate = () => "answered";
    await ledger.flush();
    // Whatever a failover lost after it was booked is found by a replay of the whole spool.
    ledger.destroy();
    ledger = await Ledger.open(policy, servers, TUNING);
    await ledger.flush();
    for (const account of ACCOUNTS) assert.equal(servers.balance(account), sums.get(account) ?? 0n, account);
    assert.deepEqual(servers.told, []);
  } finally {
    ledger.destroy();
    rmSync(folder, { recursive: true, force: true });
  }
}

test("balances are the sums of what was acknowledged, whatever happens in between", async () => {
  // A ledger's timers keep no process alive, and its servers are a model: without connections nothing else does.
  const alive = setInterval(() => {}, 1000);
  try {
    await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 60 }), play), { numRuns: 150 });
  } finally {
    clearInterval(alive);
  }
});
