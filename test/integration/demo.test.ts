/** `keylane demo` as a user runs it: a process of its own, real clusters, and what it prints, writes and ends with. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { profileOf } from "#dist/cli/demo/ads.js";

const MAIN = fileURLToPath(new URL("cli/main.js", import.meta.resolve("keylane")));
const CAMPAIGNS = 1000;
const folder = mkdtempSync(join(tmpdir(), "keylane-demo-test-"));
after(() => rmSync(folder, { recursive: true }));

interface Output {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Report {
  readonly ok: boolean;
  readonly traffic: { readonly kind: string; readonly users: number; readonly requests: number | null };
  readonly phases: readonly {
    readonly name: string;
    readonly ok: boolean;
    readonly requests: number;
    readonly failed: number;
    readonly domains: Readonly<Record<string, { readonly commands: number; readonly share: number }>>;
    readonly reads: { readonly right: number; readonly wrong: number; readonly reached: number };
    readonly counters: Readonly<Record<"read" | "exact" | "immortal" | "impressions" | "spend", number>>;
    readonly faults: readonly string[];
  }[];
}

function start(args: readonly string[], env: NodeJS.ProcessEnv = process.env): ChildProcess {
  return spawn(process.execPath, [MAIN, "demo", ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
}

async function outcome(child: ChildProcess): Promise<Output> {
  let [stdout, stderr] = ["", ""];
  child.stdout!.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr!.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stdout, stderr };
}

/** Runs the demo to its end and returns what it printed and its JSON report. */
async function run(...args: string[]): Promise<Output & { report: Report }> {
  const file = join(folder, "report.json");
  const output = await outcome(start([...args, "--json", file]));
  assert.equal(output.code, 0, output.stderr + output.stdout);
  return { ...output, report: JSON.parse(readFileSync(file, "utf8")) as Report };
}

function traceFile(name: string, content: Uint8Array): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

/** 5,000 requests of 300 users, the first of them with the least and the greatest number there is. */
const users = Array.from({ length: 300 }, (_, i) => (i === 1 ? 2 ** 32 - 1 : i * 65_537));
const requests = Array.from({ length: 5000 }, (_, i) => users[(i < 300 ? i : i * i) % users.length]);
const bytes = Buffer.alloc(requests.length * 4);
for (const [i, user] of requests.entries()) bytes.writeUInt32BE(user, i * 4);

const PHASES = ["three clusters, ioredis", "three clusters, keylane", "three clusters, keylane + L1"];

/** Asserts that all phases are whole; `requests` of each, when all have played the same. */
function assertWhole(report: Report, expected: { requests?: number; users: number }): void {
  assert.equal(report.ok, true);
  assert.equal(report.traffic.users, expected.users);
  assert.deepEqual(
    report.phases.map(({ name, ok, failed, faults }) => ({ name, ok, failed, faults })),
    PHASES.map((name) => ({ name, ok: true, failed: 0, faults: [] })),
  );
  for (const { requests, reads, counters, domains } of report.phases) {
    if (expected.requests !== undefined) assert.equal(requests, expected.requests);
    assert.deepEqual([reads.right, reads.wrong], [requests, 0]);
    const { read, exact, immortal, impressions } = counters;
    assert.deepEqual(
      { read, exact, immortal, impressions },
      { read: expected.users + CAMPAIGNS, exact: read, immortal: 0, impressions: requests },
    );
    assert.deepEqual(Object.keys(domains), ["user_profile", "freq_control", "realtime_billing"]);
    assert.equal(domains["realtime_billing"].commands, requests);
    const share = Object.values(domains).reduce((sum, domain) => sum + domain.share, 0);
    assert.ok(Math.abs(share - 1) < 1e-9, `the shares add up to ${share}`);
  }
  const [ioredis, keylane, cached] = report.phases;
  for (const { reads, requests, domains } of [ioredis, keylane]) {
    assert.deepEqual([reads.reached, domains["user_profile"].commands], [1, requests]);
  }
  assert.ok(cached.reads.reached > 0 && cached.reads.reached < 1, `${cached.reads.reached} of the reads reached Redis`);
}

describe("keylane demo", () => {
  it("plays a Zipf stream for the time it is given, in plain lines, every value right and every counter exact", async () => {
    const { report, stdout } = await run("--seconds", "3");
    assertWhole(report, { users: 100_000 });
    assert.deepEqual([report.traffic.kind, report.traffic.requests], ["zipf", null]);
    assert.match(stdout, /^ +\d+\.\d s +[\d,]+ requests\/s  p50 +[\d.]+ ms  p99 +[\d.]+ ms  user_profile \d+\.\d %/m);
    for (const { name, requests } of report.phases) {
      assert.ok(requests > 1000, `${requests} requests`);
      const found = `all ${requests.toLocaleString("en-US")} values read were the values written`;
      assert.ok(stdout.includes(found), found);
      assert.ok(stdout.includes(`\n${name} `), `no line of the table for ${name}`);
    }
    assert.ok(!stdout.includes("\u001b") && !stdout.includes("\r"), "no cursor control");
  });

  it("stops after the requests it is given", async () => {
    const { report } = await run("--requests", "1234");
    assertWhole(report, { requests: 1234, users: 100_000 });
  });

  const traces: [string, Uint8Array][] = [
    ["plain", bytes],
    ["gzip", gzipSync(bytes)],
  ];
  for (const [kind, content] of traces) {
    it(`replays every request of a ${kind} trace`, async () => {
      const { report, stdout } = await run("--trace", traceFile(`${kind}.trace`, content));
      assertWhole(report, { requests: 5000, users: 300 });
      assert.deepEqual([report.traffic.kind, report.traffic.requests], ["trace", 5000]);
      const spend = requests.reduce((sum, user) => sum + profileOf(user).price, 0);
      for (const { counters } of report.phases) assert.equal(counters.spend, spend);
      const { reads } = report.phases.at(-1)!;
      // A user who is asked for while its first read is under way shares the reply.
      assert.equal(reads.reached, users.length / requests.length);
      assert.match(stdout, /5,000 of 5,000 requests played/);
    });
  }

  const broken: [string, string, RegExp][] = [
    ["cut off gzip", traceFile("cut.gz", gzipSync(bytes).subarray(0, 400)), /cut\.gz cannot be read: unexpected end/],
    ["damaged gzip", traceFile("bad.gz", Buffer.from("1f8b0800ff", "hex")), /bad\.gz cannot be read: /],
    ["number that is cut off", traceFile("cut", bytes.subarray(0, 7)), /cut holds 7 bytes, which is no whole number/],
    ["file without requests", traceFile("empty", Buffer.alloc(0)), /empty holds no requests/],
    ["file that does not exist", join(folder, "none"), /none cannot be read: ENOENT/],
    ["folder", folder, /cannot be read: EISDIR/],
  ];
  for (const [what, file, message] of broken) {
    it(`refuses a trace that is a ${what} before it starts anything`, async () => {
      const { code, stdout, stderr } = await outcome(start(["--trace", file]));
      assert.equal(code, 1);
      assert.equal(stdout, "");
      assert.match(stderr, message);
      assert.match(stderr, /^keylane: the trace [^\n]+ \(KEYLANE_ERR_ARGUMENT\)\n$/);
    });
  }

  it("leaves nothing behind when it is interrupted", async () => {
    const home = join(folder, "tmp");
    mkdirSync(home);
    const child = start(["--seconds", "600"], { ...process.env, TMPDIR: home });
    const ended = outcome(child);
    child.stdout!.on("data", (text: string) => text.includes("requests/s") && child.kill("SIGINT"));
    const { code, stderr } = await ended;
    assert.equal(code, 130);
    assert.match(stderr, /ended by SIGINT/);
    assert.deepEqual(readdirSync(home), []);
  });
});
