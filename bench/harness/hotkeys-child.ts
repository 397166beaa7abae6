/**
 * The process that drives one key hot, through keylane in one of its ways of dealing with that. A round opens keylane anew and takes
 * a key that was never used, so that each starts cold. The invariant: the key is read at a steady rate whatever the answers take,
 * every value is checked, and what the servers did is read from their own counters.
 *
 * ```text
 * 0 ────── detected ─────── settle: 2 s ───────────────── end: 4 s
 * └─ calls by node: before ─┘            └─ calls by node: after ─┘
 * ```
 */
import { createHistogram } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane, type OpenOptions } from "keylane";
import type { Sample } from "../report/types.js";
import {
  AFTER,
  BEFORE,
  CRITICAL,
  DETECTED,
  type HotkeysEntry,
  type HotkeysRound,
  type HotMode,
  NAMES,
  OVER_OTHERS,
} from "./hotkeys-figures.js";
import { getsByNode, ownerOf, setAcross } from "./nodes.js";
import { type Contestant, serve } from "./serve.js";

/** Distance of bursts. */
const BURST_MS = 2;
/** Calls whose latency is taken: one in so many. */
const SAMPLED = 16;
const VALUE = "a value that is asked for by everyone";

function optionsFor(mode: HotMode, nodes: readonly string[]): OpenOptions {
  const cache = mode === "l1" ? { cache: { mode: "hot" as const } } : {};
  return {
    domains: { profiles: { prefixes: ["up:"], nodes, ...cache } },
    commandTimeoutMs: 10_000,
    ...(mode === "off" ? { hotKeys: false as const } : {}),
  };
}

let round = 0;

async function play({ mode, nodes }: HotkeysEntry, { rate, settleMs, maxMs }: HotkeysRound): Promise<Sample> {
  round += 1;
  const key = `up:hot_${mode}_${process.pid}_${round}` as const;
  await setAcross(
    nodes[0],
    1,
    () => key,
    () => VALUE,
  );
  const lanes = await Keylane.open(optionsFor(mode, nodes));
  try {
    const home = await ownerOf(nodes[0], key);
    let began = 0;
    const levels = new Map<string, number>();
    lanes.on("hotkey", (event) => {
      if (event.key === key && !levels.has(event.level)) levels.set(event.level, performance.now() - began);
    });
    const start = await getsByNode(nodes[0]);
    began = performance.now();
    const cpuStarted = process.cpuUsage();
    const driven = drive((own) => lanes.get(own as typeof key), key, rate, maxMs);
    await sleep(300);
    const early = await getsByNode(nodes[0]);
    await sleep(settleMs - (performance.now() - began));
    const settled = await getsByNode(nodes[0]);
    const { calls, latencies } = await driven;
    const cpu = process.cpuUsage(cpuStarted);
    const seconds = (performance.now() - began) / 1000;
    const end = await getsByNode(nodes[0]);
    const expected = (calls * (maxMs - settleMs)) / maxMs;
    const after = loadsOf(settled, end, home);
    const before = loadsOf(start, early, home);
    return {
      opsPerSec: calls / seconds,
      cpuMicrosPerOp: (cpu.user + cpu.system) / calls,
      p50Ms: latencies.percentile(50) / 1000,
      p99Ms: latencies.percentile(99) / 1000,
      more: {
        ...(mode === "off"
          ? {}
          : {
              [DETECTED]: levels.get("warn") ?? levels.get("critical") ?? maxMs,
              [CRITICAL]: levels.get("critical") ?? maxMs,
            }),
        [BEFORE]: (100 * before.own) / Math.max(1, before.own + before.others),
        [AFTER]: (100 * after.own) / expected,
        // Nothing at all elsewhere is told as what it would be if the others had had one call.
        [OVER_OTHERS]: after.own / Math.max(1, after.others / (after.nodes - 1)),
      },
    };
  } finally {
    await lanes.close();
  }
}

/** GETs of the key's node and of all others between two readings. */
function loadsOf(from: ReadonlyMap<string, number>, to: ReadonlyMap<string, number>, home: string) {
  let [own, others] = [0, 0];
  for (const [node, calls] of to) {
    if (node === home) own += calls - from.get(node)!;
    else others += calls - from.get(node)!;
  }
  return { own, others, nodes: to.size };
}

/** Reads the key `rate` times a second. */
async function drive(get: (key: string) => Promise<unknown>, key: string, rate: number, forMs: number) {
  const latencies = createHistogram({ lowest: 1, highest: 60_000_000, figures: 3 });
  const open = new Set<Promise<void>>();
  let failure: Error | null = null;
  let calls = 0;
  const one = async (sampled: boolean): Promise<void> => {
    const began = sampled ? performance.now() : 0;
    const value = await get(key);
    if (value !== VALUE) throw new Error(`${key} is ${String(value)}`);
    if (sampled) latencies.record(Math.max(1, Math.round((performance.now() - began) * 1000)));
  };
  const began = performance.now();
  for (let now = 0; now < forMs; now = performance.now() - began) {
    const due = Math.floor((now / 1000) * rate);
    const burst: Promise<void>[] = [];
    for (; calls < due; calls += 1) burst.push(one(calls % SAMPLED === 0));
    const all = Promise.all(burst).then(
      () => undefined,
      (error: Error) => void (failure ??= error),
    );
    open.add(all);
    void all.then(() => open.delete(all));
    await sleep(BURST_MS);
    if (failure !== null) throw failure;
  }
  await Promise.all(open);
  if (failure !== null) throw failure;
  return { calls, latencies };
}

serve(async (entry: HotkeysEntry): Promise<Contestant<HotkeysRound>> => ({
  name: NAMES[entry.mode],
  role: entry.mode === "off" ? "peer" : "keylane",
  play: (spec) => play(entry, spec),
  close: () => Promise.resolve(),
}));
