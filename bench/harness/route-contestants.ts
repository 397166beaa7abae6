/**
 * The contestants of the route suite. Each handles the same 4,096 keys in a pass and compares every result with one computed
 * bit by bit, so nothing can be optimized away and a wrong answer fails the run.
 */
import { xxh3, xxh32 } from "@node-rs/xxhash";
import keySlot from "cluster-key-slot";
import { native } from "#dist/native/index.js";
import { portable } from "#dist/native/portable.js";
import type { NativeCore } from "#dist/native/types.js";
import type { Role } from "../report/types.js";
import type { Pass } from "./passes.js";
import { batchPass, batchSlotPass } from "./route-batch.js";
import { KEYS, routeKeys } from "./route-keys.js";

/** One contestant. */
export interface RouteContestant {
  readonly name: string;
  readonly group: string;
  readonly role: Role;
  prepare(): Pass;
}

/** Sizes of the batches. */
export const BATCHES = [256, 1024];
/** Numbers of prefixes. */
export const PREFIXES = [3, 300];
/** Names that goals refer to. */
export const NAMES = {
  clusterKeySlot: "cluster-key-slot",
  slot: "keylane slot",
  xxh3: "@node-rs/xxhash xxh3-64",
  hash64: "keylane hash64 (xxh3-64)",
  routeBatch: (size: number, prefixes: number) => `keylane routeBatch of ${size}, ${prefixes} prefixes`,
};

/** XXH3-64 of no bytes, seed 0, from the algorithm's specification. */
const XXH3_OF_NOTHING = 0x2d06800538d394c2n;

function loopAlone(): Pass {
  const { slots } = routeKeys(PREFIXES[0]);
  const copy = slots.slice();
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (copy[i] !== slots[i]) wrong += 1;
    return wrong;
  };
}

function slotPass(slot: (key: string) => number): Pass {
  const { keys, slots } = routeKeys(PREFIXES[0]);
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (slot(keys[i]) !== slots[i]) wrong += 1;
    return wrong;
  };
}

function routePass(core: NativeCore, prefixes: number): Pass {
  const { keys, words, spec } = routeKeys(prefixes);
  const router = core.createRouter(spec);
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (router.route(keys[i]) !== words[i * 2]) wrong += 1;
    return wrong;
  };
}

function hashPass<H>(hash: (key: string) => H): Pass {
  if (xxh3.xxh64("") !== XXH3_OF_NOTHING) throw new Error("@node-rs/xxhash does not compute XXH3-64");
  const { keys } = routeKeys(PREFIXES[0]);
  const wide = typeof hash(keys[0]) === "bigint";
  const hashes = keys.map((key) => (wide ? xxh3.xxh64(key) : xxh32(key)) as H);
  return () => {
    let wrong = 0;
    for (let i = 0; i < KEYS; i += 1) if (hash(keys[i]) !== hashes[i]) wrong += 1;
    return wrong;
  };
}

function ofCore(core: NativeCore, label: string, role: Role): RouteContestant[] {
  const slots = BATCHES.map((size) => ({
    name: `${label} slotBatch of ${size}`,
    group: "slot of a key",
    role,
    prepare: () => batchSlotPass(core, routeKeys(PREFIXES[0]), size),
  }));
  const single = PREFIXES.map((prefixes) => ({
    name: `${label} route, ${prefixes} prefixes`,
    group: "prefix and slot of a key",
    role,
    prepare: () => routePass(core, prefixes),
  }));
  const batches = BATCHES.flatMap((size) =>
    PREFIXES.map((prefixes) => ({
      name: NAMES.routeBatch(size, prefixes).replace("keylane", label),
      group: "prefix and slot of a key",
      role,
      prepare: () => batchPass(core, routeKeys(prefixes), size),
    })),
  );
  return [...slots, ...single, ...batches];
}

const slotOf = (name: string, role: Role, slot: (key: string) => number): RouteContestant => ({
  name,
  group: "slot of a key",
  role,
  prepare: () => slotPass(slot),
});

const hashOf = (name: string, role: Role, hash: (key: string) => number | bigint): RouteContestant => ({
  name,
  group: "hash of a key",
  role,
  prepare: () => hashPass(hash),
});

/** All contestants, in the order of the table. */
export const ROUTE_CONTESTANTS: readonly RouteContestant[] = [
  slotOf(NAMES.clusterKeySlot, "peer", (key) => keySlot(key)),
  slotOf(NAMES.slot, "keylane", (key) => native.slot(key)),
  slotOf("portable slot", "peer", (key) => portable.slot(key)),
  { name: "loop alone", group: "slot of a key", role: "overhead", prepare: loopAlone },
  ...ofCore(native, "keylane", "keylane"),
  ...ofCore(portable, "portable", "peer"),
  hashOf("@node-rs/xxhash xxh32", "peer", (key) => xxh32(key)),
  hashOf(NAMES.xxh3, "peer", (key) => xxh3.xxh64(key)),
  hashOf(NAMES.hash64, "keylane", (key) => native.hash64(key)),
];
