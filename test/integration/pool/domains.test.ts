/** Frequency caps and the ledger through workers that die: nothing is delivered twice, and nothing is charged twice. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Cap, Keylane, OpenOptions } from "keylane";

import { keysWithoutTtl } from "../../support/caps.js";
import { useC3 } from "../../support/fixtures.js";
import { openLanes } from "../../support/lanes.js";
import { makeFolder } from "../../support/ledger.js";
import { WAYS, endWorker, runningWorkers } from "../../support/pool/workers.js";
import { until } from "../../support/until.js";

const HOUR_MS = 3_600_000;
const USERS = 24;
const LIMIT = 5;

/** Calls again while the call fails, as often as it takes; the answer, and how often it failed. */
async function persist<T>(call: () => Promise<T>): Promise<{ answer: T; failures: number }> {
  for (let failures = 0; ; failures += 1) {
    const [done] = await Promise.allSettled([call()]);
    if (done.status === "fulfilled") return { answer: done.value, failures };
    assert.match((done.reason as { code: string }).code, /^KEYLANE_ERR_(WORKER_LOST|TIMEOUT)$/);
  }
}

/** Ends the workers one after the other, each in another way, while `work` lasts. */
async function whileDying<T>(work: Promise<T>): Promise<T> {
  const state = { over: false };
  const done = work.finally(() => {
    state.over = true;
  });
  for (let at = 0; !state.over && at < WAYS.length; at += 1) {
    const worker = await until(() => runningWorkers()[0]);
    await endWorker(worker, WAYS[at]!);
  }
  return done;
}

describe("threads: 2, workers die", () => {
  const c3 = useC3();
  const open = (more: object): Promise<Keylane> =>
    openLanes({
      domains: {
        freq: { prefixes: ["fc:"], nodes: c3.value.seeds },
        billing: { prefixes: ["rb:"], nodes: c3.value.seeds },
      },
      threads: 2,
      commandTimeoutMs: 5000,
      ...more,
    } as OpenOptions) as unknown as Promise<Keylane>;

  it("caps: with ids every cap is filled exactly; without, never beyond", async () => {
    const lanes = await open({ caps: { onError: "throw" } });
    const caps: readonly Cap[] = [
      { name: "campaign", limit: LIMIT, windowMs: HOUR_MS },
      { name: "advertiser", limit: 3 * LIMIT, windowMs: HOUR_MS, sliding: true },
    ];
    let failures = 0;
    const deliver = async (user: string, named: boolean): Promise<number> => {
      let allowed = 0;
      const one = async (at: number): Promise<void> => {
        const id = named ? `${user}.${at}` : undefined;
        const call = () => lanes.caps.take(user, caps, id === undefined ? {} : { id });
        const told = await persist(call);
        failures += told.failures;
        if (told.answer.allowed) allowed += 1;
      };
      for (let round = 0; round < 6; round += 1) {
        await Promise.all(Array.from({ length: 4 }, (_, k) => one(round * 4 + k)));
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return allowed;
    };
    const users = Array.from({ length: USERS }, (_, user) => user);
    const work = Promise.all(users.map((user) => deliver(`u${user}`, user % 2 === 0)));
    const delivered = await whileDying(work);
    for (const [user, allowed] of delivered.entries()) {
      if (user % 2 === 0) assert.equal(allowed, LIMIT, `user ${user}`);
      else assert.ok(allowed <= LIMIT, `user ${user}: ${allowed}`);
      const { caps: states } = await lanes.caps.check(`u${user}`, caps);
      assert.ok(states[0] === undefined || states[0].used === LIMIT, `user ${user}: ${JSON.stringify(states)}`);
    }
    assert.ok(failures > 0, "no call met a death");
    const left = await Promise.all(c3.value.primaries.map(keysWithoutTtl));
    assert.deepEqual(left.flat(), []);
  });

  it("ledger: every entry is booked once, a budget is never overspent, and what was charged is booked", async () => {
    const lanes = await open({ ledger: { directory: makeFolder(), leaseMs: 300 } });
    const { ledger } = lanes;
    const budget = { name: "shared", limit: 20_000n };
    const sums = new Map<string, bigint>();
    const add = (account: string, amount: bigint): void => void sums.set(account, (sums.get(account) ?? 0n) + amount);
    let charged = 0n;
    const spend = async (spender: number): Promise<void> => {
      for (let at = 0; at < 30; at += 1) {
        const account = `a${at % 7}`;
        const amount = BigInt(1 + ((at * 31 + spender * 7) % 50));
        await ledger.add(account, amount, { id: `add ${spender}.${at}` });
        add(account, amount);
        const charge = () => ledger.charge(account, amount, { id: `charge ${spender}.${at}`, budget });
        const { answer } = await persist(charge);
        if (answer.charged) {
          add(account, amount);
          charged += amount;
        }
        if (at % 5 === 0) await new Promise((resolve) => setTimeout(resolve, 40));
      }
    };
    await whileDying(Promise.all(Array.from({ length: 32 }, (_, spender) => spend(spender))));
    await ledger.flush();
    for (const [account, sum] of sums) assert.equal(await ledger.balance(account), sum, account);
    assert.ok(charged > 0n && charged <= budget.limit, `${charged}`);
    assert.equal(ledger.pending().entries, 0);
  });
});
