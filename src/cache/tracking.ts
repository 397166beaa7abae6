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

/** Distance of the signs of life asked of tracked connections, and how long each may take, in milliseconds. */
const HEARTBEAT_MS = 500;
const HEARTBEAT_LIMIT_MS = 1000;
/** Longest that a value may be stale while tracking works: a connection that died silently is noticed by then. */
export const TRACKED_STALENESS_MS = HEARTBEAT_MS + HEARTBEAT_LIMIT_MS;

export interface TrackingOptions {
  /** Subscribe to whole prefixes instead of the keys read: fewer words at the server, more messages. */
  readonly broadcast: readonly string[] | null;
}

export class Tracking implements ConnectionHooks {
  readonly #lane: DomainLane;
  readonly #region: SharedRegion;
  readonly #domain: number;
  readonly #command: readonly string[];
  #timer: NodeJS.Timeout | null = null;
  /** Why the server does not track, once it said so. */
  refusal: string | null = null;

  constructor(lane: DomainLane, region: SharedRegion, { broadcast }: TrackingOptions) {
    this.#lane = lane;
    this.#region = region;
    this.#domain = lane.config.index;
    const prefixes = broadcast?.flatMap((prefix) => ["PREFIX", prefix]) ?? [];
    this.#command = ["TRACKING", "ON", ...(broadcast === null ? [] : ["BCAST", ...prefixes])];
  }

  async prepare(node: NodeLane): Promise<void> {
    const { config } = this.#lane;
    try {
      await this.#lane.callNode(node, "CLIENT", this.#command, RAW_SHAPE, config.connectTimeoutMs);
      node.feed.feeder = this.#region.nextFeeder();
      this.#timer ??= this.#beat();
    } catch (error) {
      this.refusal ??= (error as Error).message;
    }
  }

  pushed(_node: NodeLane, rows: ReplyRows): void {
    rows.enter();
    if (rows.text() !== "invalidate") return;
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
    this.#region.session.invalidateFeeder(feeder);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #beat(): NodeJS.Timeout {
    const timer = setInterval(() => {
      for (const node of this.#lane.fleet.ready()) if (node.feed.feeder !== 0) void this.#ask(node);
    }, HEARTBEAT_MS);
    return timer.unref();
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
