/**
 * Server-assisted invalidation: every connection of a cached domain is told by its server when a key it read has changed. The
 * invariant: a value is only kept under a feeder number, and the number lives as long as the connection that hears of the
 * value's changes; when it is lost, all that it fed goes.
 *
 * A connection that died silently hears nothing, so idle ones are asked to answer at intervals: that bounds staleness.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { KeylaneError } from "../errors.js";
import type { ConnectionHooks } from "../lane/contract.js";
import type { DomainLane } from "../lane/lane.js";
import type { NodeLane } from "../lane/node.js";
import { RAW_SHAPE } from "../lane/replies.js";
import type { ReplyRows } from "../lane/replies.js";
import { Kind } from "../native/types.js";
import type { SharedRegion } from "../shared/region.js";
import type { CachePolicy } from "./policy.js";

/** Distance of the signs of life asked of tracked connections, and how long each may take, in milliseconds. */
export const HEARTBEAT_MS = 400;
const HEARTBEAT_LIMIT_MS = 800;
/**
 * Longest that a value may be stale while tracking works. A connection that died silently is asked one and a half heartbeats
 * after its last byte at the latest; a thread that stands still is noticed in `SILENT_MS` (region.ts) and one heartbeat.
 */
export const TRACKED_STALENESS_MS = 1500;

/** Who hears how tracking fares. */
export interface TrackingListener {
  /** Only the TTL bounds staleness. Told once. */
  refused(reason: string): void;
  /** A connection to the node is about to serve. */
  reached(node: number): void;
}

export class Tracking implements ConnectionHooks {
  readonly #lane: DomainLane;
  readonly #region: SharedRegion;
  readonly #domain: number;
  readonly #command: readonly string[];
  readonly #keepStale: boolean;
  readonly #listener: TrackingListener;
  /** Slot → node when last looked at, and the version of that map. */
  #owners = new Int32Array(0);
  #version = 0;
  /** Why a server does not track; null while all do. */
  refusal: string | null = null;

  /** `prefixes` begin all keys of the domain, for a broadcasting policy. */
  constructor(
    lane: DomainLane,
    region: SharedRegion,
    { broadcast, staleIfErrorMs }: CachePolicy,
    prefixes: readonly string[],
    listener: TrackingListener,
  ) {
    this.#lane = lane;
    this.#region = region;
    this.#domain = lane.config.index;
    this.#command = ["TRACKING", "ON", ...(broadcast ? ["BCAST", ...narrowed(prefixes)] : [])];
    this.#keepStale = staleIfErrorMs > 0;
    this.#listener = listener;
  }

  async prepare(node: NodeLane): Promise<void> {
    const { config } = this.#lane;
    this.#listener.reached(node.index);
    if (!node.takesPushes) {
      this.#refuse("the server does not speak RESP3");
      return;
    }
    try {
      await this.#lane.callNode(node, "CLIENT", this.#command, RAW_SHAPE, config.connectTimeoutMs);
    } catch (error) {
      const { outcome, message } = error as KeylaneError;
      if (outcome === "rejected") this.#refuse(message);
      else node.reset(error as Error);
      return;
    }
    node.feed.feeder = this.#region.takeFeeder();
    if (node.feed.feeder === 0 && !this.#region.ended)
      this.#refuse("the thread has more connections than can be told apart");
  }

  pushed(_node: NodeLane, rows: ReplyRows): void {
    rows.enter();
    if (rows.text() !== "invalidate" || this.#region.ended) return;
    const { session } = this.#region;
    if (rows.kind() === Kind.NULL) {
      session.invalidatePrefix(this.#domain, "");
      return;
    }
    const count = rows.length();
    rows.enter();
    for (let i = 0; i < count; i += 1) session.invalidate(rows.bytes());
  }

  unfed(feeder: number): void {
    const { session, ended } = this.#region;
    if (ended) return;
    if (this.#keepStale) session.expireFeeder(feeder);
    else session.invalidateFeeder(feeder);
    this.#region.freeFeeder(feeder);
  }

  /** Asks every tracked connection that was silent for a while to answer, and follows slots that moved. */
  beat(now: number): void {
    this.follow();
    for (const node of this.#lane.fleet.ready()) {
      if (node.feed.feeder !== 0 && now - node.inbox.heardAt >= HEARTBEAT_MS / 2) void this.#ask(node);
    }
  }

  /**
   * Looks at the topology. A node tells that a key moved away, but not that an absent one may be created elsewhere from now
   * on: what it fed goes. O(slots) when the topology changed.
   */
  follow(): void {
    const { topology, fleet } = this.#lane;
    if (topology.version === this.#version) return;
    this.#version = topology.version;
    const owners = Int32Array.from(topology.slots);
    const losers = new Set(this.#owners.filter((owner, slot) => owner !== owners[slot]));
    this.#owners = owners;
    for (const { index, feed } of fleet.live()) {
      if (losers.has(index) && feed.feeder !== 0) this.#region.session.invalidateFeeder(feed.feeder);
    }
  }

  #refuse(reason: string): void {
    if (this.refusal !== null) return;
    this.refusal = reason;
    this.#listener.refused(reason);
  }

  async #ask(node: NodeLane): Promise<void> {
    const { feeder } = node.feed;
    const asked = performance.now();
    try {
      await this.#lane.callNode(node, "PING", [], RAW_SHAPE, HEARTBEAT_LIMIT_MS);
    } catch (error) {
      // A refusal (a user without PING) is a sign of life as good as any.
      if ((error as KeylaneError).outcome === "rejected") return;
      // When this thread stood still, the answer may lie in the socket: it is read before the connection is judged.
      await nextTurn();
      const silent = node.inbox.heardAt < asked && node.feed.feeder === feeder;
      if (silent && feeder !== 0) node.reset(error as Error);
    }
  }
}

/** `PREFIX` arguments. The empty prefix needs none; servers refuse a prefix that begins with another one. */
function narrowed(prefixes: readonly string[]): string[] {
  if (prefixes.includes("")) return [];
  const least = prefixes.filter((prefix) => !prefixes.some((other) => other !== prefix && prefix.startsWith(other)));
  return least.flatMap((prefix) => ["PREFIX", prefix]);
}
