/**
 * The topology of one server outside Redis Cluster: all slots on the primary. With several addresses, whichever of them says
 * that it is the primary is the one, and is looked for again when it refuses writes or is lost. With Sentinels, ioredis finds
 * the primary, and losing the connection is enough to find the next.
 */
import type { Address, ShardView } from "../routing/topology.js";
import type { Reply } from "../types.js";
import { Keeper } from "./keeper.js";
import type { NodeLane } from "./node.js";
import { RAW_SHAPE } from "./replies.js";

const ALL_SLOTS = [[0, 16_383]] as const;

export class SingleKeeper extends Keeper {
  protected readonly refreshes = true;

  protected async establish(deadline: number): Promise<void> {
    const { config, topology, fleet } = this.lane;
    const nodes = config.seeds.map((seed) => fleet.at(topology.intern(seed))!);
    await this.until(deadline, () => nodes.some((node) => node.state === "ready") || this.authFailed(nodes) !== null);
    if (nodes.length > 1)
      await this.until(performance.now() + 200, () => nodes.every((node) => node.state === "ready"));
    if (!nodes.some((node) => node.state === "ready")) throw this.unreachable(nodes);
    await this.refresh();
    const seeds = config.sentinels === undefined ? config.seeds : nodes.map(({ address }) => address);
    if (topology.nodeOf(0) === -1) topology.apply([view(seeds[0]!, seeds)]);
    fleet.follow();
    const primary = fleet.at(topology.nodeOf(0))!;
    await this.until(deadline, () => primary.state === "ready" || this.authFailed([primary]) !== null);
    if (primary.state !== "ready") throw this.unreachable([primary]);
  }

  /** Behind Sentinels the connection itself tells who is the primary. */
  override changed(node: NodeLane): void {
    super.changed(node);
    if (this.lane.config.sentinels !== undefined) this.lane.topology.rename(node.index, node.address);
  }

  protected async refresh(): Promise<void> {
    const { config, topology, fleet } = this.lane;
    if (config.sentinels !== undefined) {
      for (const node of fleet.live()) await this.#leaveIfReplica(node);
      return;
    }
    if (config.seeds.length === 1) return;
    const nodes = config.seeds.map((seed) => fleet.at(topology.intern(seed))!);
    const ready = nodes.filter((node) => node.writable);
    const roles = await Promise.all(ready.map((node) => this.#role(node)));
    const primary = ready.find((_, index) => roles[index] === "master");
    if (primary !== undefined) topology.apply([view(primary.address, config.seeds)]);
  }

  /** Behind Sentinels: a node that was demoted under the connection is left, and ioredis asks for the new primary. */
  async #leaveIfReplica(node: NodeLane): Promise<void> {
    if (node.writable && (await this.#role(node)) === "slave") {
      node.renew(new Error("the node is no longer the primary"));
    }
  }

  async #role(node: NodeLane): Promise<string | null> {
    try {
      const reply = await this.lane.callNode(node, "ROLE", [], RAW_SHAPE, this.lane.config.commandTimeoutMs);
      return Array.isArray(reply) ? String((reply as Reply[])[0]) : null;
    } catch {
      return null;
    }
  }
}

function view(primary: Address, all: readonly Address[]): ShardView {
  return {
    ranges: ALL_SLOTS,
    primary,
    replicas: all.filter((one) => one.host !== primary.host || one.port !== primary.port),
  };
}
