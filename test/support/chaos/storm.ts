/**
 * A storm: a rig, a client, mixed load and the actor together, for a given time; what came out as figures that a test can
 * assert and a person can read.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Footprint, footprint } from "../footprint.js";
import { ChaosActor, type FaultRecord } from "./actor.js";
import type { StormClient } from "./client.js";
import type { CounterVerdict } from "./counters.js";
import type { Fault } from "./faults.js";
import { type Delay, type Failure, StormLoad, type Tag } from "./load.js";
import { Random } from "./random.js";
import type { RelayedCluster } from "./relayed.js";

/** A fault explains failures of operations that began this long after its end, in milliseconds. */
const AFTERMATH_MS = 100;

/** Options of `storm`. */
export interface StormOptions {
  readonly rig: RelayedCluster;
  readonly client: StormClient;
  readonly tags: readonly Tag[];
  readonly seconds: number;
  readonly seed: number;
  /** Operations in flight, default 48. */
  readonly workers?: number | undefined;
  /** Mean pause between two operations of one worker, default 10 ms. */
  readonly pauseMs?: number | undefined;
  /** Deadline of an operation, default 1,000 ms. */
  readonly deadlineMs?: number | undefined;
  /** How old a read may be: for clients that read from replicas. */
  readonly staleMs?: number | undefined;
  readonly faults?: readonly Fault[] | undefined;
  readonly onFault?: ((record: FaultRecord) => void) | undefined;
}

/** A fault and what it cost the client. */
export interface FaultFigures {
  readonly record: FaultRecord;
  /**
   * From the moment the rig could serve again (or the fault's beginning) until the last operation that waited was served, and
   * every slot on which one failed had served another that ended after the failed one began. Infinity when one never did.
   */
  readonly recoveryMs: number;
  /** Failed operations on slots of the shard concerned, and on others. */
  readonly failures: Failure[];
  readonly strangers: Failure[];
}

export interface StormFigures {
  readonly client: string;
  readonly seed: number;
  readonly seconds: number;
  readonly load: StormLoad;
  readonly faults: FaultFigures[];
  /** Failures that no fault explains. */
  readonly unexplained: Failure[];
  readonly counters: CounterVerdict;
  /** Operations still unsettled at the end. */
  readonly open: number;
  /** In the middle of the storm, when everything has happened at least once or is under way, and after it. */
  readonly middle: Footprint;
  readonly after: Footprint;
}

/** Tags in `count` slots spread evenly over the slot space; `slotOf` as the client under test computes it. */
export function makeTags(count: number, slotOf: (key: string) => number): Tag[] {
  return Array.from({ length: count }, (_, index) => {
    const name = (prefix: string): string => `${prefix}:{${index}}`;
    const counter = name("c");
    return { slot: slotOf(counter), counter, scripted: name("e"), multi: name("m"), register: name("r") };
  });
}

/** Runs a storm. The cluster is whole before and afterwards, and holds nothing at the beginning. */
export async function storm(options: StormOptions): Promise<StormFigures> {
  const { rig, client, tags, seconds, seed, workers = 48, pauseMs = 10, deadlineMs = 1000, staleMs } = options;
  await Promise.all(rig.cluster.primaries.map((node) => node.command("FLUSHALL")));
  const load = new StormLoad(client, { tags, seed, workers, pauseMs, deadlineMs, staleMs });
  const actor = new ChaosActor({
    rig,
    random: new Random(seed),
    slots: [...new Set(tags.map(({ slot }) => slot))],
    excuse: (concerns, from, to) => load.excuse(concerns, from, to),
    faults: options.faults,
    onFault: options.onFault,
  });
  load.start();
  await sleep(Math.min(3000, seconds * 100));
  await actor.runFor(seconds * 500);
  const middle = footprint();
  await actor.runFor(seconds * 500);
  // Nothing that the last fault caused is older than a deadline after this.
  await sleep(deadlineMs);
  await load.stop();
  const after = footprint();
  const finals = await finalValues(rig, tags);
  return {
    client: client.name,
    seed,
    seconds,
    load,
    ...judge(load, actor.records),
    counters: load.counters.check(finals),
    open: load.open,
    middle,
    after,
  };
}

/** Gives each failure to the fault under which the operation ran. */
function judge(load: StormLoad, records: readonly FaultRecord[]): Pick<StormFigures, "faults" | "unexplained"> {
  const faults = records.map((record) => ({
    record,
    failures: [] as Failure[],
    strangers: [] as Failure[],
    waited: 0,
  }));
  const causeOf = ({ slot, began, ended }: Delay): (typeof faults)[number] | undefined => {
    const during = faults.filter(({ record }) => record.began <= ended && record.ended + AFTERMATH_MS >= began);
    return during.find(({ record }) => record.concerns(slot)) ?? during.at(-1);
  };
  const unexplained: Failure[] = [];
  for (const failure of load.failures) {
    const cause = causeOf(failure);
    if (cause === undefined) unexplained.push(failure);
    else if (cause.record.concerns(failure.slot)) cause.failures.push(failure);
    else cause.strangers.push(failure);
  }
  for (const delay of load.delays) {
    const cause = causeOf(delay);
    if (cause?.record.concerns(delay.slot) === true) cause.waited = Math.max(cause.waited, delay.ended);
  }
  const figures = faults.map(({ record, failures, strangers, waited }) => {
    const served = failures.map(({ servedAt }) => (servedAt === 0 ? Infinity : servedAt));
    const recovered = Math.max(record.servable, waited, ...served);
    return { record, failures, strangers, recoveryMs: recovered - record.servable };
  });
  return { faults: figures, unexplained };
}

async function finalValues(rig: RelayedCluster, tags: readonly Tag[]): Promise<Map<string, number>> {
  await rig.cluster.waitHealthy();
  const finals = new Map<string, number>();
  const owners = await rig.cluster.view();
  for (const { slot, counter, scripted, multi } of tags) {
    const line = owners.find(({ slots }) => slots.some(([from, to]) => from <= slot && slot <= to));
    const node = rig.cluster.nodes.find(({ id }) => id === line?.id)!;
    for (const key of [counter, scripted, multi]) finals.set(key, Number(await node.command("GET", key)));
  }
  return finals;
}
