/**
 * A second lane to a domain, over which its copied keys are read and copies are filled and dropped. Its connections are told of
 * changes to what they read (CLIENT TRACKING), whoever makes them. The invariant: an operation is sent to a node only when that
 * node tracks, and the loss of a connection is told before anything is read over the next one.
 */
import type { KeylaneError } from "../errors.js";
import type { LaneConfig } from "../lane/config.js";
import type { ConnectionHooks } from "../lane/contract.js";
import { DomainLane } from "../lane/lane.js";
import type { NodeLane } from "../lane/node.js";
import { RAW_SHAPE } from "../lane/replies.js";
import type { ReplyRows } from "../lane/replies.js";
import { Kind } from "../native/types.js";
import type { Topology } from "../routing/topology.js";

/** A node that owes a reply for so long, in milliseconds, gets no copies. */
const SILENT_MS = 500;
/** How long a sign of life may take. */
const SIGN_MS = 1000;

/** The lane that callers use tells of the same nodes and faults. */
const ignore = (): void => {};

/** Who hears of changes. */
export interface Watcher {
  /** A key that was read has changed; null: any of them. */
  changed(key: string | null): void;
  /** The connection to a node (by index) that told of changes is gone. */
  deaf(node: number): void;
  /** Nodes came, went, or took slots over. */
  shaken(): void;
  /** A server does not tell of changes, or forbids what it takes. */
  refused(reason: string): void;
}

export class WatchLane implements ConnectionHooks {
  readonly lane: DomainLane;
  readonly #watcher: Watcher;

  constructor(config: LaneConfig, topology: Topology, watcher: Watcher) {
    const shaken = (): void => watcher.shaken();
    const own = { codec: "buffer", scaleReads: "master", connectionName: `${config.connectionName}-hot` } as const;
    const listener = { nodeUp: shaken, nodeDown: shaken, topology: shaken, degraded: ignore, error: ignore };
    this.lane = new DomainLane({ ...config, ...own }, topology, listener);
    this.lane.accompany(this);
    this.#watcher = watcher;
  }

  open(): Promise<void> {
    return this.lane.open();
  }

  /** Whether a node can take copies. */
  usable(index: number, now: number): boolean {
    const node = this.lane.fleet.nodes[index];
    return node !== undefined && node.state === "ready" && !node.replica && !node.silentFor(now, SILENT_MS);
  }

  /** Has a node show whether it lives; `usable` tells. */
  ask(index: number): void {
    const node = this.lane.fleet.nodes[index];
    if (node === undefined || node.state !== "ready" || node.ring.size > 0) return;
    // A refusal (a user without PING) is a sign of life as good as any; silence is seen by `usable`.
    this.lane.callNode(node, "PING", [], RAW_SHAPE, SIGN_MS).catch(() => {});
  }

  close(): void {
    this.lane.destroy();
  }

  async prepare(node: NodeLane): Promise<void> {
    if (!node.takesPushes) {
      this.#watcher.refused("changes are not told, as the server does not speak RESP3");
      return;
    }
    try {
      const { connectTimeoutMs } = this.lane.config;
      await this.lane.callNode(node, "CLIENT", ["TRACKING", "ON"], RAW_SHAPE, connectTimeoutMs);
      node.feed.feeder = node.index + 1;
    } catch (error) {
      const { outcome, message } = error as KeylaneError;
      if (outcome === "rejected") this.#watcher.refused(`changes are not told: ${message}`);
      else node.reset(error as Error);
    }
  }

  pushed(_node: NodeLane, rows: ReplyRows): void {
    rows.enter();
    if (rows.text() !== "invalidate") return;
    if (rows.kind() === Kind.NULL) {
      this.#watcher.changed(null);
      return;
    }
    const count = rows.length();
    rows.enter();
    for (let i = 0; i < count; i += 1) this.#watcher.changed(rows.text());
  }

  unfed(feeder: number): void {
    this.#watcher.deaf(feeder - 1);
  }
}
