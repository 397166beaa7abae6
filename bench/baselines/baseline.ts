/**
 * What a contestant of the lane suite must offer. Each lives in a file of this folder and runs in a process of its own, so
 * that its CPU time, heap and compiled code are its own; `baselines` below is the register of those files.
 */
import type { Batches } from "../harness/loop.js";
import type { KeySet } from "../harness/keys.js";
import type { Role } from "../report/types.js";

/** What a contestant connects to and reads. */
export interface Target {
  /** `host:port` of every primary of one cluster. */
  readonly nodes: readonly string[];
  /** Key prefixes in use. */
  readonly prefixes: readonly string[];
  readonly set: KeySet;
}

/** One promise per GET. */
export interface SinglePeer {
  get(key: string): Promise<string | null>;
  close(): Promise<void>;
}

/** Takes its operations as batches of `size`, and asserts every value itself. */
export interface BatchPeer {
  prepare(size: number): Batches;
  close(): Promise<void>;
}

/** What a file of this folder exports as `baseline`. */
export type Baseline = {
  /** As shown in tables. */
  readonly name: string;
  readonly role: Role;
} & (
  | { readonly kind: "single"; open(target: Target): Promise<SinglePeer> }
  | { readonly kind: "batch"; open(target: Target): Promise<BatchPeer> }
);

/** The files of this folder that hold a baseline, in the order of the tables. */
export const BASELINES = [
  "keylane",
  "ioredis-cluster",
  "ioredis-autopipelining",
  "ioredis-pipeline",
  "node-redis",
  "glide",
  "bare-socket",
  "harness",
] as const;

/** Name of a baseline's file. */
export type BaselineId = (typeof BASELINES)[number];

/** Loads a baseline; its client library is loaded into this process only now. */
export async function loadBaseline(id: BaselineId): Promise<Baseline> {
  const module = (await import(`./${id}.js`)) as { readonly baseline: Baseline };
  return module.baseline;
}

/** Most keys that a batch peer prepares for one batch size. */
export const PREPARED_KEYS = 65_536;

/** Positions in the key set, in reading order, cut into batches of `size`. */
export function cutBatches(set: KeySet, size: number): Uint32Array[] {
  const count = Math.max(1, Math.floor(Math.min(PREPARED_KEYS, set.order.length) / size));
  return Array.from({ length: count }, (_, batch) =>
    Uint32Array.from({ length: size }, (_, i) => set.order[(batch * size + i) % set.order.length]),
  );
}
