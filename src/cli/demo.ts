/**
 * `keylane demo`: three domain clusters on this machine, the same ad traffic through them in several ways, and the proof that
 * every value read was the value written and every counter is exact. Ends with 1 when one is not. Whatever ends it, nothing
 * stays behind.
 */
import { constants } from "node:os";
import type { Command } from "commander";
import { Keylane } from "../keylane.js";
import { nativeInfo } from "../native/index.js";
import { type SandboxTriple, startTriple } from "../sandbox/index.js";
import { integer } from "./arguments.js";
import type { OpenLanes } from "./demo/ads.js";
import { audit } from "./demo/audit.js";
import { PHASES, type Phase } from "./demo/phases.js";
import { type Limits, load, play } from "./demo/play.js";
import { type PhaseResult, closing, isClean, openTicker, writeJson } from "./demo/report.js";
import { type Traffic, traceTraffic, zipfTraffic } from "./demo/traffic.js";
import { whole } from "./table.js";

const DEFAULT_SECONDS = 20;

interface DemoOptions {
  readonly trace?: string;
  readonly seconds?: number;
  readonly requests?: number;
  readonly json?: string;
}

/** Adds the command. */
export function registerDemo(program: Command): void {
  program
    .command("demo")
    .description("start three local clusters, play ad traffic through them and check every value")
    .option("--trace <file>", "replay this trace: big-endian 32-bit object numbers, plain or gzip")
    .option(
      "--seconds <n>",
      `how long to play, all phases together (default: ${DEFAULT_SECONDS}; a trace plays to its end)`,
      integer(1, 86_400),
    )
    .option("--requests <n>", "how many ad requests each phase plays", integer(1, 1e12))
    .option("--json <file>", "write the result as JSON too")
    .action(demo);
}

async function demo(options: DemoOptions): Promise<void> {
  exitOnSignal();
  const traffic = options.trace === undefined ? zipfTraffic() : await traceTraffic(options.trace);
  console.log(`keylane demo: ${traffic.title}`);
  const began = performance.now();
  await using triple = await startTriple({ primaries: 3 });
  const { kind, version } = triple.user_profile.binary;
  console.log(`three ${kind} ${version} clusters of 3 primaries each, ready in ${since(began)} s`);

  // Without the native core there is no shared cache to show.
  const played = PHASES.filter(({ cached }) => !cached || nativeInfo().kind === "rust");
  const limits = limitsOf(options, played.length);
  const phases: PhaseResult[] = [];
  for (const phase of played) phases.push(await playPhase(phase, triple, traffic, limits));
  const run = {
    traffic: {
      kind: traffic.kind,
      title: traffic.title,
      users: traffic.users.size,
      requests: Number.isFinite(traffic.requests) ? traffic.requests : null,
    },
    server: `${kind} ${version}`,
    core: nativeInfo().kind,
    phases,
  };
  console.log(closing(run));
  if (options.json !== undefined) await writeJson(options.json, run);
  if (!phases.every(isClean)) process.exitCode = 1;
}

/** Limits of one of so many phases. Those named hold; else a trace plays to its end, the endless stream for its part of 20 s. */
function limitsOf({ trace, seconds, requests }: DemoOptions, phases: number): Limits {
  const endless = trace === undefined && requests === undefined;
  const total = seconds ?? (endless ? DEFAULT_SECONDS : Infinity);
  return { seconds: total / phases, requests: requests ?? Infinity };
}

async function playPhase(phase: Phase, triple: SandboxTriple, traffic: Traffic, limits: Limits): Promise<PhaseResult> {
  const { users } = traffic;
  users.reset();
  const primaries = triple.clusters.flatMap((cluster) => cluster.primaries);
  await Promise.all(primaries.map((node) => node.command("FLUSHALL")));
  const opened = (await Keylane.open(phase.layout(triple))) as unknown as OpenLanes;
  try {
    const lanes = phase.through(opened);
    const began = performance.now();
    await load(lanes, users);
    console.log(
      `${phase.name}: ${whole(users.size)} profiles written in ${since(began)} s (core: ${nativeInfo().kind})`,
    );
    const ticker = openTicker(process.stdout);
    const before = await getsOf(triple);
    const tally = await play(lanes, traffic, limits, (second) => ticker.second(second)).finally(() => ticker.stop());
    const reached = ((await getsOf(triple)) - before) / Math.max(1, tally.right + tally.wrong);
    return { name: phase.name, tally, reached, audit: await audit(lanes, users, tally.spend) };
  } finally {
    await opened.close();
  }
}

/** GETs that the servers of the profiles have run. */
async function getsOf({ user_profile }: SandboxTriple): Promise<number> {
  const stats = await Promise.all(user_profile.primaries.map((node) => node.info("commandstats")));
  return stats.reduce((sum, one) => sum + Number(/^calls=(\d+)/.exec(one.get("cmdstat_get") ?? "")?.[1] ?? 0), 0);
}

/** The sandbox takes its servers and files along at `exit`. */
function exitOnSignal(): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      console.error(`\nkeylane demo: ended by ${signal}; the clusters are gone`);
      process.exit(128 + constants.signals[signal]);
    });
  }
}

function since(began: number): string {
  return ((performance.now() - began) / 1000).toFixed(1);
}
