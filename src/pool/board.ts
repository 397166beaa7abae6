/**
 * What workers count, where every thread can read it: one SharedArrayBuffer a pool. The invariant: each word has one writer, the
 * worker of its block, or, when that is dead, the pool's host; counts go on growing when another worker takes its place.
 *
 * ```text
 * blocks   [ worker 0, domain 0 | worker 0, domain 1 | … | worker 1, domain 0 | … ]
 * block    [ 8 counts, float64 | 512 nodes × (state, in flight, waiting), int32 ]
 * ```
 */
import type { DomainLane } from "../lane/lane.js";
import type { Topology } from "../routing/topology.js";
import type { DomainStats, NodeStats } from "../types.js";

/** Counts that only the thread with the connections knows. */
const COUNTS = ["moved", "asked", "retries", "bytesSent", "bytesReceived", "writes", "reconnects"] as const;
const COUNTS_ROOM = 8;
const NODES = 512;
const NODE_WORDS = 3;
const BLOCK_BYTES = COUNTS_ROOM * 8 + NODES * NODE_WORDS * 4;
const STATES = ["", "connecting", "ready", "down"] as const;

/** The counts of `COUNTS`, summed up. */
export type Counted = { readonly [count in (typeof COUNTS)[number]]: number };

export class Board {
  readonly buffer: SharedArrayBuffer;
  readonly #workers: number;
  readonly #domains: number;

  constructor(workers: number, domains: number, buffer?: SharedArrayBuffer) {
    this.#workers = workers;
    this.#domains = domains;
    this.buffer = buffer ?? new SharedArrayBuffer(workers * domains * BLOCK_BYTES);
  }

  /** What a worker writes about a domain; counts add to those of the worker that was there before. */
  publisher(worker: number, domain: number): (lane: DomainLane) => void {
    const counts = this.#counts(worker, domain);
    const nodes = this.#nodes(worker, domain);
    const before = Float64Array.from(counts);
    // Written at once, so that nobody sees a node missing meanwhile.
    const fresh = new Int32Array(nodes.length);
    return (lane) => {
      const stats: Counted = { ...lane.counts, ...lane.fleet.traffic() };
      for (const [at, name] of COUNTS.entries()) counts[at] = before[at]! + stats[name];
      fresh.fill(0);
      for (const node of lane.fleet.live()) {
        const state = node.state === "connecting" || node.state === "ready" ? node.state : "down";
        const row = [STATES.indexOf(state), node.ring.size, node.waiting.length];
        if (node.state !== "closed") fresh.set(row, node.index * NODE_WORDS);
      }
      nodes.set(fresh);
    };
  }

  /** A worker is dead: it has no connections any more. */
  vacate(worker: number): void {
    for (let domain = 0; domain < this.#domains; domain += 1) this.#nodes(worker, domain).fill(0);
  }

  counts(domain: number): Counted {
    const sums = COUNTS.map((name, at) => {
      let sum = 0;
      for (let worker = 0; worker < this.#workers; worker += 1) sum += this.#counts(worker, domain)[at]!;
      return [name, sum];
    });
    return Object.fromEntries(sums) as Counted;
  }

  /** A node is ready where any worker's connection is. O(workers × nodes). */
  nodes(domain: number, topology: Topology): DomainStats["nodes"] {
    return topology.nodes().flatMap((view): NodeStats[] => {
      const sum = { state: 0, inFlight: 0, waiting: 0 };
      for (let worker = 0; worker < this.#workers; worker += 1) {
        const at = view.index * NODE_WORDS;
        const [state, inFlight, waiting] = this.#nodes(worker, domain).subarray(at, at + NODE_WORDS);
        if (state === 0) continue;
        const better = sum.state === 0 || state === 2 || (state === 1 && sum.state === 3);
        if (better && sum.state !== 2) sum.state = state!;
        sum.inFlight += inFlight!;
        sum.waiting += waiting!;
      }
      if (sum.state === 0) return [];
      return [
        {
          node: `${view.host}:${view.port}`,
          role: view.replica ? "replica" : "primary",
          state: STATES[sum.state] as NodeStats["state"],
          slots: topology.slotCount(view.index),
          inFlight: sum.inFlight,
          waiting: sum.waiting,
        },
      ];
    });
  }

  #counts(worker: number, domain: number): Float64Array {
    return new Float64Array(this.buffer, (worker * this.#domains + domain) * BLOCK_BYTES, COUNTS_ROOM);
  }

  #nodes(worker: number, domain: number): Int32Array {
    const at = (worker * this.#domains + domain) * BLOCK_BYTES + COUNTS_ROOM * 8;
    return new Int32Array(this.buffer, at, NODES * NODE_WORDS);
  }
}
