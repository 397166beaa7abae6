/**
 * A cluster whose every node is reached through a relay of its own: clients use `seeds` and `natMap` and meet whatever the
 * relays do to their bytes, while the nodes talk to each other directly and notice nothing.
 *
 * ```text
 * client ── relay of node 0 ── node 0 ─┐
 *        ── relay of node 1 ── node 1 ─┼─ cluster bus, replication
 *        ── relay of node 2 ── node 2 ─┘
 * ```
 */
import { type ClusterOptions, type SandboxCluster, type SandboxNode, startCluster } from "keylane/sandbox";
import { Relay } from "../relay.js";

export class RelayedCluster {
  readonly cluster: SandboxCluster;
  readonly #relays = new Map<SandboxNode, Relay>();

  private constructor(cluster: SandboxCluster) {
    this.cluster = cluster;
  }

  /** Starts a cluster (C3 with `cluster-node-timeout 1000` unless told otherwise) and a relay for each node. */
  static async start(options: ClusterOptions = {}): Promise<RelayedCluster> {
    const relayed = new RelayedCluster(await startCluster({ primaries: 3, nodeTimeoutMs: 1000, ...options }));
    await Promise.all(relayed.cluster.nodes.map((node) => relayed.cover(node)));
    return relayed;
  }

  /** Puts a relay before a node that was added later. */
  async cover(node: SandboxNode): Promise<Relay> {
    const relay = await Relay.start(node.address);
    this.#relays.set(node, relay);
    return relay;
  }

  /** The relay before a node. */
  relay(node: SandboxNode): Relay {
    const relay = this.#relays.get(node);
    if (relay === undefined) throw new Error(`${node.address} has no relay`);
    return relay;
  }

  /** Addresses of the relays before the primaries. */
  get seeds(): string[] {
    return this.cluster.primaries.map((node) => this.relay(node).address);
  }

  /** What the nodes announce → the relay before them. */
  get natMap(): Record<string, { host: string; port: number }> {
    return Object.fromEntries(
      [...this.#relays].map(([node, relay]) => [node.address, { host: "127.0.0.1", port: relay.port }]),
    );
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#relays.values()].map((relay) => relay.stop()));
    await this.cluster.stop();
  }
}
