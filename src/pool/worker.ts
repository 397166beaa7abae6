/**
 * A worker of the pool: one piscina task that lasts as long as the worker is used. It opens lanes of its own on the shared
 * topologies, serves every caller that is given to it, and ends when told to, or when the thread that made the pool is gone. The
 * invariant: all that belongs to the task ends with it.
 */
import type { MessagePort } from "node:worker_threads";
import { KeylaneError } from "../errors.js";
import type { SerializedError } from "../errors.js";
import type { LaneConfig } from "../lane/config.js";
import type { LaneListener } from "../lane/contract.js";
import { DomainLane } from "../lane/lane.js";
import type { OpenOptions } from "../options.js";
import { Topology } from "../routing/topology.js";
import type { HitCounts } from "../shared/hit-counts.js";
import type { HotHandle } from "../shared/hot-share.js";
import type { RegionHandle } from "../shared/region.js";
import { Board } from "./board.js";
import { Station } from "./station.js";
import type { Companion } from "./station.js";

/** Distance of the looks at what the lanes have counted, in milliseconds. */
const PUBLISH_MS = 100;
/** How long the end waits for the last answers, in milliseconds. */
const LEAVE_MS = 100;

/** What a worker is given. Structured-cloneable as long as the options are. */
export interface WorkerJob {
  /** Its place in the pool. */
  readonly worker: number;
  readonly workers: number;
  readonly options: OpenOptions;
  /** Slot maps by domain. */
  readonly topologies: readonly SharedArrayBuffer[];
  readonly region: RegionHandle | null;
  readonly hot: HotHandle | null;
  readonly board: SharedArrayBuffer;
  readonly control: MessagePort;
}

/** What the pool tells a worker. */
export type Order =
  /** Serve another caller. */
  | { readonly serve: MessagePort }
  /** End: what is not settled fails, and callers are told. */
  | { readonly stop: true };

/** What a worker tells the pool. */
export type Notice =
  | { readonly tell: "open" }
  | { readonly tell: "failed"; readonly error: SerializedError }
  | { readonly tell: "up"; readonly domain: string; readonly node: string }
  | { readonly tell: "down"; readonly domain: string; readonly node: string; readonly reason: string }
  | { readonly tell: "topology"; readonly domain: string; readonly version: number }
  | { readonly tell: "degraded"; readonly domain: string; readonly reason: string }
  | { readonly tell: "untracked"; readonly domain: string; readonly reason: string }
  | { readonly tell: "reached"; readonly domain: number; readonly node: number }
  | { readonly tell: "error"; readonly error: SerializedError };

/** A worker's lanes before they connect, and who hears of them. */
export interface Crew {
  readonly lanes: readonly DomainLane[];
  degraded(domain: string, reason: string): void;
  untracked(domain: string, reason: string): void;
  reached(domain: number, node: number): void;
}

/** Runs a job to its end. `accompany` is called before the lanes connect; `counts` is by domain. */
export async function work(
  job: WorkerJob,
  configs: readonly LaneConfig[],
  counts: readonly (HitCounts | null)[],
  accompany: (crew: Crew) => Companion | null,
): Promise<void> {
  const { control } = job;
  const tell = (notice: Notice): void => control.postMessage(notice);
  const listener: LaneListener = {
    nodeUp: (domain, node) => tell({ tell: "up", domain, node }),
    nodeDown: (domain, node, reason) => tell({ tell: "down", domain, node, reason }),
    topology: (domain, version) => tell({ tell: "topology", domain, version }),
    degraded: (domain, reason) => tell({ tell: "degraded", domain, reason }),
    error: (error) => tell({ tell: "error", error: error.toJSON() }),
  };
  const lanes = configs.map(
    (config, at) => new DomainLane(config, new Topology(job.topologies[at]), listener, counts[at]),
  );
  const companion = accompany({
    lanes,
    degraded: listener.degraded,
    untracked: (domain, reason) => tell({ tell: "untracked", domain, reason }),
    reached: (domain, node) => tell({ tell: "reached", domain, node }),
  });
  const stations = new Set<Station>();
  const serve = (port: MessagePort): void => {
    const station = new Station(port, lanes, companion, () => {
      stations.delete(station);
      for (const other of stations) other.alone = stations.size === 1;
    });
    stations.add(station);
    for (const one of stations) one.alone = stations.size === 1;
  };
  const board = new Board(job.workers, lanes.length, job.board);
  const publishers = lanes.map((_, domain) => board.publisher(job.worker, domain));
  const publish = (): void => {
    for (const [domain, lane] of lanes.entries()) publishers[domain]!(lane);
  };
  const timer = setInterval(publish, PUBLISH_MS).unref();
  let over = false;
  const stopped = new Promise<void>((resolve) => {
    const stop = (): void => {
      over = true;
      resolve();
    };
    control.on("message", (order: Order) => {
      if ("serve" in order) serve(order.serve);
      else stop();
    });
    control.on("close", stop);
  });
  try {
    await Promise.race([Promise.all(lanes.map((lane) => lane.open())), stopped]);
    if (over) return;
    companion?.opened();
    publish();
    tell({ tell: "open" });
    await stopped;
  } catch (cause) {
    const error = cause instanceof KeylaneError ? cause : new KeylaneError("KEYLANE_ERR_INTERNAL", String(cause));
    tell({ tell: "failed", error: error.toJSON() });
  } finally {
    clearInterval(timer);
    for (const lane of lanes) lane.destroy();
    // What the lanes gave up reaches the stations by promises.
    const until = performance.now() + LEAVE_MS;
    do await new Promise((resolve) => setImmediate(resolve));
    while ([...stations].some(({ pending }) => pending > 0) && performance.now() < until);
    for (const station of stations) station.close();
    companion?.end();
    publish();
    control.close();
  }
}
