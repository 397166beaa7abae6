/**
 * Processes with two threads each, whose clocks are ten seconds off and one of which steps back an hour, take the caps of the same
 * users: caps of 1, 3 and 50 in every kind of window. Every decision is judged afterwards. `KEYLANE_CAPS_SECONDS` sets how long
 * (2 by default), `KEYLANE_CAPS_USERS` how many users, `KEYLANE_CAPS_PROCESSES` how many processes.
 */
import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { keysWithoutTtl } from "../support/caps.js";
import type { HammerOrder, HammerReport } from "../support/caps-hammer.js";
import { capOf, WINDOW_MS, Word, WORDS } from "../support/caps-hammer.js";
import { useC3 } from "../support/fixtures.js";

const SECONDS = Number(process.env["KEYLANE_CAPS_SECONDS"] ?? 2);
const USERS = Number(process.env["KEYLANE_CAPS_USERS"] ?? (SECONDS > 30 ? 1000 : 90));
const PROCESSES = Number(process.env["KEYLANE_CAPS_PROCESSES"] ?? (SECONDS > 30 ? 4 : 2));
const SUB_BUCKET_MS = WINDOW_MS / 60;
/** A call that was answered at once may have been noted late on a crowded machine. */
const CLOCK_MS = 5;
const SKEWS = [-10_000, 10_000, 0, 5000];

interface Decision {
  readonly allowed: boolean;
  readonly cached: boolean;
  readonly resetsAt: number;
  readonly sent: number;
  readonly received: number;
  readonly used: number;
}

async function run(order: HammerOrder): Promise<HammerReport[]> {
  const program = new URL("../support/caps-hammer.js", import.meta.url);
  const child: ChildProcess = fork(program, ["hammer"], { serialization: "advanced" });
  try {
    const reports: HammerReport[] = [];
    child.on("message", (report) => reports.push(report as HammerReport));
    const gone = once(child, "exit");
    child.send(order);
    const [code] = (await gone) as [number | null];
    assert.deepEqual([code, reports.length], [0, 2]);
    return reports;
  } finally {
    child.kill("SIGKILL");
  }
}

function byUser(reports: readonly HammerReport[]): Map<number, Decision[]> {
  const users = new Map<number, Decision[]>();
  for (const { decisions } of reports) {
    for (let at = 0; at < decisions.length; at += WORDS) {
      const word = (name: keyof typeof Word): number => decisions[at + Word[name]]!;
      const list = users.get(word("USER")) ?? [];
      users.set(word("USER"), list);
      list.push({
        allowed: word("ALLOWED") === 1,
        cached: word("CACHED") === 1,
        resetsAt: word("RESETS_AT"),
        sent: word("SENT"),
        received: word("RECEIVED"),
        used: word("USED"),
      });
    }
  }
  return users;
}

/** Fixed and civil windows name themselves by their end: each has at most the limit, and is full before it denies. */
function judgeWindows(limit: number, decisions: readonly Decision[], fixed: boolean): string[] {
  const faults: string[] = [];
  const admitted = new Map<number, number>();
  for (const { allowed, resetsAt } of decisions) if (allowed) admitted.set(resetsAt, (admitted.get(resetsAt) ?? 0) + 1);
  for (const [end, count] of admitted) if (count > limit) faults.push(`${count} of ${limit} until ${end}`);
  const ends = [...admitted.keys()].toSorted((a, b) => a - b);
  for (let i = 1; i < ends.length; i += 1) {
    if (fixed && ends[i]! - ends[i - 1]! < WINDOW_MS) faults.push(`windows overlap: ${ends[i - 1]}, ${ends[i]}`);
  }
  for (const { allowed, resetsAt, sent } of decisions) {
    if (allowed) continue;
    const count = admitted.get(resetsAt) ?? 0;
    if (count !== limit) faults.push(`denied with ${count} of ${limit} until ${resetsAt}`);
    if (sent > resetsAt + CLOCK_MS) faults.push(`denied ${sent - resetsAt} ms after the end`);
  }
  return faults;
}

/** No window of the length holds more than the limit; a denial has the limit in it, a sub-bucket longer at most. */
function judgeSliding(limit: number, decisions: readonly Decision[]): string[] {
  const faults: string[] = [];
  const admitted = decisions.filter(({ allowed }) => allowed).toSorted((a, b) => a.received - b.received);
  for (let i = limit; i < admitted.length; i += 1) {
    const span = admitted[i]!.received - Math.min(...admitted.slice(i - limit, i + 1).map(({ sent }) => sent));
    if (span < WINDOW_MS) faults.push(`${limit + 1} of ${limit} in ${span} ms`);
  }
  let from = 0;
  for (const denial of decisions.filter(({ allowed }) => !allowed).toSorted((a, b) => a.sent - b.sent)) {
    const since = denial.sent - WINDOW_MS - SUB_BUCKET_MS - (denial.cached ? CLOCK_MS : 1);
    while (from < admitted.length && admitted[from]!.received < since) from += 1;
    let count = 0;
    for (let i = from; i < admitted.length && count < limit; i += 1)
      if (admitted[i]!.sent <= denial.received) count += 1;
    if (count < limit) faults.push(`denied with ${count} of ${limit} in the window`);
  }
  return faults;
}

describe("caps under load", () => {
  const c3 = useC3();

  it("C4: no window has more than its cap, none is closed before it is full, whatever the callers' clocks say", async (t) => {
    const orders = Array.from({ length: PROCESSES }, (_, i): HammerOrder => {
      const skewMs = SKEWS[i % SKEWS.length]!;
      const laterMs = i === 0 ? skewMs - 3_600_000 : skewMs;
      return { seeds: c3.value.seeds, users: USERS, seconds: SECONDS, seed: i, skewMs, laterMs };
    });
    const reports = (await Promise.all(orders.map(run))).flat();
    assert.deepEqual(
      reports.flatMap(({ faults }) => faults),
      [],
    );
    const users = byUser(reports);
    const faults: string[] = [];
    for (const [user, decisions] of users) {
      const { kind, limit } = capOf(user);
      for (const { allowed, used } of decisions) {
        if (used > limit || (!allowed && used < limit)) faults.push(`user ${user}: used ${used} of ${limit}`);
      }
      const found =
        kind === "sliding" ? judgeSliding(limit, decisions) : judgeWindows(limit, decisions, kind === "fixed");
      for (const fault of found) faults.push(`user ${user}, ${kind}: ${fault}`);
    }
    assert.deepEqual(faults.slice(0, 10), []);
    const all = [...users.values()].flat();
    const count = (of: (decision: Decision) => boolean): number => all.filter(of).length;
    const calls = reports.reduce((sum, report) => sum + report.calls, 0);
    const admitted = count(({ allowed }) => allowed);
    const asked = count(({ allowed, cached }) => !allowed && !cached);
    t.diagnostic(
      `${calls} calls of ${users.size} users, ${admitted} admitted, ${asked} denied by servers, 0 over a cap`,
    );
    assert.ok(admitted > USERS && asked > 0 && calls > admitted + asked);
  });

  it("C1: no key is left without a TTL", async () => {
    const left = await Promise.all(c3.value.primaries.map(keysWithoutTtl));
    assert.deepEqual(left.flat(), []);
  });
});
