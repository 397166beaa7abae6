/**
 * Server-assisted invalidation: every connection of a cached domain is told by its server when a key it read has changed. The
 * invariant: a value is only kept under a feeder number, and the number lives as long as the connection that hears of the
 * value's changes; when it is lost, all that it fed goes.
 *
 * A connection that died silently hears nothing, so idle ones are asked to answer at intervals: that bounds staleness.
 */
import type { KeylaneError } from "../errors.js";
import type { ConnectionHooks, DomainLane } from "../lane/lane.js";
import type { NodeLane } from "../lane/node.js";
import { RAW_SHAPE } from "../lane/replies.js";
import type { ReplyRows } from "../lane/replies.js";
import { Kind } from "../native/types.js";
import type { SharedRegion } from "../shared/region.js";
import type { CachePolicy } from "./policy.js";

/** Distance of the signs of life asked of tracked connections, and how long each may take, in milliseconds. */
export const HEARTBEAT_MS = 500;
const HEARTBEAT_LIMIT_MS = 1000;
/** Longest that a value may be stale while tracking works: a connection that died silently is noticed by then. */
export const TRACKED_STALENESS_MS = HEARTBEAT_MS + HEARTBEAT_LIMIT_MS;

export class Tracking implements ConnectionHooks {
  readonly #lane: DomainLane;
  readonly #region: SharedRegion;
  readonly #domain: number;
  readonly #command: readonly string[];
  readonly #keepStale: boolean;
  readonly #refused: (reason: string) => void;
  /** Why a server does not track; null while all do. */
  refusal: string | null = null;

  /** `prefixes` are the domain's, for a broadcasting policy; `refused` hears once that only the TTL bounds staleness. */
  constructor(
    lane: DomainLane,
    region: SharedRegion,
    { broadcast, staleIfErrorMs }: CachePolicy,
    prefixes: readonly string[],
    refused: (reason: string) => void,
  ) {
    this.#lane = lane;
    this.#region = region;
    this.#domain = lane.config.index;
    const narrowed = prefixes.flatMap((prefix) => (prefix === "" ? [] : ["PREFIX", prefix]));
    this.#command = ["TRACKING", "ON", ...(broadcast ? ["BCAST", ...(prefixes.includes("") ? [] : narrowed)] : [])];
    this.#keepStale = staleIfErrorMs > 0;
    this.#refused = refused;
  }

  async prepare(node: NodeLane): Promise<void> {
    const { config } = this.#lane;
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

  /** Asks every tracked connection that was silent for a while to answer. */
  beat(now: number): void {
    for (const node of this.#lane.fleet.ready()) {
      if (node.feed.feeder !== 0 && now - node.inbox.heardAt >= HEARTBEAT_MS / 2) void this.#ask(node);
    }
  }

  #refuse(reason: string): void {
    if (this.refusal !== null) return;
    this.refusal = reason;
    this.#refused(reason);
  }

  async #ask(node: NodeLane): Promise<void> {
    const { feeder } = node.feed;
    try {
      await this.#lane.callNode(node, "PING", [], RAW_SHAPE, HEARTBEAT_LIMIT_MS);
    } catch (error) {
      // A refusal (a user without PING) is a sign of life as good as any.
      const alive = (error as KeylaneError).outcome === "rejected";
      if (!alive && feeder !== 0 && node.feed.feeder === feeder) node.reset(error as Error);
    }
  }
}
