/**
 * The actor: one fault after another, in an order that the seed decides, until it is told to stop. The invariant: one fault at
 * a time, and the cluster is whole before the next, so that every failure of an operation has one cause at most.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { rangesOf } from "../keys.js";
import { FAULTS, type Fault, type Stage } from "./faults.js";
import type { Random } from "./random.js";
import type { RelayedCluster } from "./relayed.js";

/** One fault, as it happened. Moments on the `performance.now` clock. */
export interface FaultRecord {
  readonly fault: Fault;
  readonly node: string;
  readonly began: number;
  /** From when on clients could be served again as far as the rig is concerned. */
  servable: number;
  /** When a replica was seen to be the primary; 0 when the fault promotes none. */
  promoted: number;
  /** When the cluster was whole again. */
  ended: number;
  /** Whether a slot belonged to the shard concerned. */
  readonly concerns: (slot: number) => boolean;
}

/** Options of an actor. */
export interface ActorOptions {
  readonly rig: RelayedCluster;
  readonly random: Random;
  /** Slots that carry load. */
  readonly slots: readonly number[];
  /** Tells the histories; see `StormLoad.excuse`. */
  readonly excuse: (concerns: (slot: number) => boolean, from: number, to: number) => void;
  /** Which faults; default all. */
  readonly faults?: readonly Fault[] | undefined;
  /** Quiet time between two faults, in milliseconds. */
  readonly restMs?: readonly [least: number, most: number] | undefined;
  readonly onFault?: ((record: FaultRecord) => void) | undefined;
}

export class ChaosActor {
  readonly records: FaultRecord[] = [];
  readonly #options: ActorOptions;
  #queue: Fault[] = [];

  constructor(options: ActorOptions) {
    this.#options = options;
  }

  /** Does faults until `ms` have passed; the last one is finished and the cluster whole. */
  async runFor(ms: number): Promise<void> {
    const { random, restMs = [500, 1500] } = this.#options;
    const deadline = performance.now() + ms;
    while (performance.now() < deadline) {
      await this.next();
      await sleep(random.between(...restMs));
    }
  }

  /** Does one fault: each kind comes once before any comes again. */
  async next(): Promise<FaultRecord> {
    const { random, faults = FAULTS } = this.#options;
    if (this.#queue.length === 0) this.#queue = random.shuffled(faults);
    return this.carryOut(this.#queue.pop()!);
  }

  /** Does one fault on a shard that chance picks. */
  async carryOut(fault: Fault): Promise<FaultRecord> {
    const { rig, random, excuse, onFault, slots } = this.#options;
    const { cluster } = rig;
    await cluster.waitHealthy();
    const primary = random.pick(cluster.primaries.filter((node) => cluster.replicasOf(node).length > 0));
    const owned = await rangesOf(cluster, primary);
    const began = performance.now();
    const concerns = (slot: number): boolean => owned.some(([from, to]) => from <= slot && slot <= to);
    const record = { fault, node: primary.address, began, servable: began, promoted: 0, ended: 0, concerns };
    const stage: Stage = {
      rig,
      random,
      primary,
      replica: random.pick(cluster.replicasOf(primary)),
      other: random.pick(cluster.primaries.filter((node) => node !== primary)),
      slot: random.pick(slots.filter(concerns)),
      mayLose(beforeMs, afterMs) {
        const now = performance.now();
        excuse(concerns, now - beforeMs, now + afterMs);
      },
      served() {
        record.servable = performance.now();
      },
      promoted() {
        record.promoted = performance.now();
      },
    };
    this.records.push(record);
    onFault?.(record);
    await fault.run(stage);
    await cluster.waitHealthy();
    record.ended = performance.now();
    return record;
  }
}
