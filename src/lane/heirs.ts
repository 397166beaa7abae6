/**
 * Heirs: while the primary of a shard is away, its replicas are connected in advance and asked for their role, so that the
 * one that takes over is served through within a moment of its promotion. A cluster's map is asked for far more seldom (see
 * `keeper.ts`), and it is the map that decides in the end. The invariant: a node inherits only slots of the primary that is
 * away, and only when it says itself that it is a primary now.
 */
import type { Address, ShardView } from "../routing/topology.js";
import type { Reply } from "../types.js";
import type { KeeperLane } from "./keeper.js";
import { RAW_SHAPE } from "./replies.js";

/** Distance of two looks, in milliseconds; grows with the time that the primary has been away. */
const LOOK_MS = 100;
const PATIENCE = 1 / 16;
const ROLE_MS = 500;

export class Heirs {
  readonly #lane: KeeperLane;
  #shards: readonly ShardView[] = [];
  #timer: NodeJS.Timeout | null = null;
  #looking = false;
  #since = 0;
  #stopped = false;

  constructor(lane: KeeperLane) {
    this.#lane = lane;
  }

  /** The cluster's latest report. */
  learn(shards: readonly ShardView[]): void {
    this.#shards = shards;
    this.watch();
  }

  /** A primary may be away: looks at once, and again until none is. */
  watch(): void {
    if (this.#stopped || this.#looking || this.#timer !== null || !this.#shards.some((shard) => this.#orphaned(shard)))
      return;
    this.#since = performance.now();
    void this.#look();
  }

  stop(): void {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    this.#timer = null;
    this.#looking = true;
    const orphans = this.#shards.filter((shard) => this.#orphaned(shard));
    await Promise.all(orphans.flatMap((shard) => shard.replicas.map((replica) => this.#ask(shard, replica))));
    this.#looking = false;
    if (this.#stopped) return;
    if (orphans.length === 0) {
      this.#rest();
      return;
    }
    const age = performance.now() - this.#since;
    this.#timer = setTimeout(() => void this.#look(), Math.max(LOOK_MS, age * PATIENCE));
    this.#timer.unref();
  }

  /** Nobody serves the shard's slots, or a node whose connection is lost. */
  #orphaned({ ranges, replicas }: ShardView): boolean {
    const [first] = ranges;
    if (first === undefined || replicas.length === 0) return false;
    const { topology, fleet } = this.#lane;
    const owner = topology.nodeOf(first[0]);
    return owner < 0 || fleet.at(owner)?.state === "down";
  }

  async #ask({ ranges }: ShardView, replica: Address): Promise<void> {
    const { topology, fleet } = this.#lane;
    const lost = topology.nodeOf(ranges[0]![0]);
    const node = fleet.at(this.#indexOf(replica));
    if (node === null || node.index === lost || !node.writable) return;
    let role: Reply;
    try {
      role = (await this.#lane.callNode(node, "ROLE", [], RAW_SHAPE, ROLE_MS)) as Reply;
    } catch {
      // A user without ROLE, or a node that is away itself: the map will tell.
      return;
    }
    if (Array.isArray(role) && role[0] === "master") topology.inherit(ranges, lost, node.address);
  }

  /** Connections to replicas that nothing else needs are let go. */
  #rest(): void {
    for (const { replicas } of this.#shards) {
      for (const replica of replicas) this.#lane.fleet.release(this.#indexOf(replica));
    }
  }

  #indexOf({ host, port }: Address): number {
    return this.#lane.topology.nodes().find((node) => node.host === host && node.port === port)?.index ?? -1;
  }
}
