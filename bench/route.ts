/**
 * Suite `route`: what it costs to find a key's slot and domain, per key and on one thread, and to hash it. keylane's native
 * core, one key at a time and in batches (joining the keys included), beside cluster-key-slot and @node-rs/xxhash, and
 * beside its own portable core.
 *
 * A round repeats passes over 4,096 keys. Every result of every pass is compared with one computed here, bit by bit, so
 * nothing can be optimized away and a wrong slot fails the run. p50 and p99 are those of the passes, divided by their keys.
 */
import { xxh3, xxh32 } from "@node-rs/xxhash";
import keySlot from "cluster-key-slot";
import { native } from "#dist/native/index.js";
import { portable } from "#dist/native/portable.js";
import type { NativeCore } from "#dist/native/types.js";
import { interleave } from "./harness/rounds.js";
import { batchPass, batchSlotPass } from "./harness/route-batch.js";
import { KEYS, type RouteKeys, routeKeys } from "./harness/route-keys.js";
import type { Settings, Suite } from "./harness/suite.js";
import { describeEnvironment } from "./report/environment.js";
import { flatness, ratio, rowNamed, summarize, Verdict } from "./report/stats.js";
import type { Role, Sample } from "./report/types.js";

const ROUND_MS = 150;
const QUICK_ROUND_MS = 5;
const GROUPS = { slot: "slot of a key", route: "prefix and slot of a key", hash: "hash of a key" };

/** One contestant. `pass` handles all keys once and returns how many results were wrong. */
interface Contestant {
  readonly name: string;
  readonly group: string;
  readonly role: Role;
  pass(): number;
}

/** XXH3-64 of no bytes, seed 0, from the algorithm's specification. */
const XXH3_OF_NOTHING = 0x2d06800538d394c2n;

// Each contestant has a loop of its own: a loop that is shared sees many callees and is compiled for none of them.

function loopAlone({ slots }: RouteKeys): () => number {
  const copy = slots.slice();
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (copy[i] !== slots[i]) wrong += 1;
    return wrong;
  };
}

function clusterKeySlot({ keys, slots }: RouteKeys): () => number {
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (keySlot(keys[i]) !== slots[i]) wrong += 1;
    return wrong;
  };
}

function nativeSlot({ keys, slots }: RouteKeys): () => number {
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (native.slot(keys[i]) !== slots[i]) wrong += 1;
    return wrong;
  };
}

function portableSlot({ keys, slots }: RouteKeys): () => number {
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (portable.slot(keys[i]) !== slots[i]) wrong += 1;
    return wrong;
  };
}

function nativeRoute({ keys, words, spec }: RouteKeys): () => number {
  const router = native.createRouter(spec);
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (router.route(keys[i]) !== words[i * 2]) wrong += 1;
    return wrong;
  };
}

function portableRoute({ keys, words, spec }: RouteKeys): () => number {
  const router = portable.createRouter(spec);
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (router.route(keys[i]) !== words[i * 2]) wrong += 1;
    return wrong;
  };
}

function nativeHash(keys: readonly string[], hashes: BigUint64Array): () => number {
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (native.hash64(keys[i]) !== hashes[i]) wrong += 1;
    return wrong;
  };
}

function xxhash3(keys: readonly string[], hashes: BigUint64Array): () => number {
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (xxh3.xxh64(keys[i]) !== hashes[i]) wrong += 1;
    return wrong;
  };
}

function xxhash32(keys: readonly string[], hashes: Uint32Array): () => number {
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (xxh32(keys[i]) !== hashes[i]) wrong += 1;
    return wrong;
  };
}

const BATCHES = [256, 1024];
const NATIVE_SLOT = "keylane slot";
const CLUSTER_KEY_SLOT = "cluster-key-slot";
const batchName = (size: number, prefixes: number) => `keylane routeBatch of ${size}, ${prefixes} prefixes`;

function contestants(): Contestant[] {
  const few = routeKeys(3);
  const many = routeKeys(300);
  if (xxh3.xxh64("") !== XXH3_OF_NOTHING) throw new Error("@node-rs/xxhash does not compute XXH3-64");
  const hashes = BigUint64Array.from(few.keys, (key) => xxh3.xxh64(key));
  const hashes32 = Uint32Array.from(few.keys, (key) => xxh32(key));
  const { slot, route, hash } = GROUPS;
  const batches = (core: NativeCore, label: string, role: Role): Contestant[] =>
    BATCHES.flatMap((size) => [
      { name: `${label} slotBatch of ${size}`, group: slot, role, pass: batchSlotPass(core, few, size) },
      { name: batchName(size, 3).replace("keylane", label), group: route, role, pass: batchPass(core, few, size) },
      { name: batchName(size, 300).replace("keylane", label), group: route, role, pass: batchPass(core, many, size) },
    ]);
  const list: Contestant[] = [
    { name: CLUSTER_KEY_SLOT, group: slot, role: "peer", pass: clusterKeySlot(few) },
    { name: NATIVE_SLOT, group: slot, role: "keylane", pass: nativeSlot(few) },
    { name: "portable slot", group: slot, role: "peer", pass: portableSlot(few) },
    { name: "loop alone", group: slot, role: "overhead", pass: loopAlone(few) },
    { name: "keylane route, 3 prefixes", group: route, role: "keylane", pass: nativeRoute(few) },
    { name: "keylane route, 300 prefixes", group: route, role: "keylane", pass: nativeRoute(many) },
    { name: "portable route, 3 prefixes", group: route, role: "peer", pass: portableRoute(few) },
    { name: "portable route, 300 prefixes", group: route, role: "peer", pass: portableRoute(many) },
    ...batches(native, "keylane", "keylane"),
    ...batches(portable, "portable", "peer"),
    { name: "@node-rs/xxhash xxh32", group: hash, role: "peer", pass: xxhash32(few.keys, hashes32) },
    { name: "@node-rs/xxhash xxh3-64", group: hash, role: "peer", pass: xxhash3(few.keys, hashes) },
    { name: "keylane hash64 (xxh3-64)", group: hash, role: "keylane", pass: nativeHash(few.keys, hashes) },
  ];
  return list;
}

/** One round: passes until the time is up. Throws when a result was wrong. */
function play({ name, pass }: Contestant, ms: number): Sample {
  const passes: number[] = [];
  const cpuStarted = process.cpuUsage();
  const started = performance.now();
  for (let now = started; now - started < ms;) {
    const began = now;
    const wrong = pass();
    if (wrong !== 0) throw new Error(`${name}: ${wrong} of ${KEYS} results are wrong`);
    now = performance.now();
    passes.push((now - began) / KEYS);
  }
  const elapsed = performance.now() - started;
  const cpu = process.cpuUsage(cpuStarted);
  const ops = passes.length * KEYS;
  passes.sort((a, b) => a - b);
  const rank = (share: number) => passes[Math.ceil(share * passes.length) - 1];
  return {
    opsPerSec: (ops / elapsed) * 1000,
    cpuMicrosPerOp: (cpu.user + cpu.system) / ops,
    p50Ms: rank(0.5),
    p99Ms: rank(0.99),
  };
}

async function runRoute(settings: Settings) {
  const all = contestants();
  const ms = settings.quick ? QUICK_ROUND_MS : ROUND_MS;
  settings.note(`${settings.rounds} rounds of ${all.length} contestants, core: ${native.kind}`);
  const samples = await interleave(all.length, settings.rounds, (i) => play(all[i], ms));
  const rows = all.map(({ name, group, role }, i) => summarize(name, group, role, samples[i]));
  const time = (name: string) => 1 / rowNamed(rows, name).opsPerSec;
  const verdict = new Verdict();
  for (const size of BATCHES) {
    const factor = ratio(time(CLUSTER_KEY_SLOT), time(batchName(size, 3)));
    verdict.add(`time: cluster-key-slot ÷ ${batchName(size, 3)}`, factor, { atLeast: 4 });
  }
  verdict.add("time: cluster-key-slot ÷ keylane slot", ratio(time(CLUSTER_KEY_SLOT), time(NATIVE_SLOT)), {
    atLeast: 2,
  });
  for (const size of BATCHES) {
    const flat = flatness([time(batchName(size, 3)), time(batchName(size, 300))]);
    verdict.add(`time: routeBatch of ${size}, 300 ÷ 3 prefixes`, flat, { atLeast: 0.8, atMost: 1.2 });
  }
  verdict.add(
    "time: @node-rs/xxhash xxh3-64 ÷ keylane hash64",
    ratio(time("@node-rs/xxhash xxh3-64"), time("keylane hash64 (xxh3-64)")),
  );
  return { rows, verdict };
}

/** The suite. */
export const route: Suite = {
  name: "route",
  about: "slots, prefixes and hashes of keys beside cluster-key-slot and @node-rs/xxhash",
  async run(settings) {
    const { rounds, quick } = settings;
    const versions = ["keylane", "cluster-key-slot", "@node-rs/xxhash"];
    const environment = describeEnvironment(versions, { rounds, quick, core: native.kind, keys: KEYS });
    const { rows, verdict } = await runRoute(settings);
    return { environment, rows, ratios: verdict.ratios, goals: verdict.goals };
  },
};
