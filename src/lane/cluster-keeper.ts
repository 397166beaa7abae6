/** The topology of a Redis Cluster: read from the seeds at open, from any connected node afterwards. */
import { KeylaneError } from "../errors.js";
import type { Reply } from "../types.js";
import { readShards, readSlots } from "./discover.js";
import type { Report, ReportedShard } from "./discover.js";
import { Heirs } from "./heirs.js";
import { Keeper, whyOf } from "./keeper.js";
import type { NodeLane } from "./node.js";
import { RAW_SHAPE } from "./replies.js";

/** Longest wait for a map, in milliseconds; then another node is asked. */
const ASK_MS = 1000;
/** A node that has owed replies for so long, in milliseconds, is not asked if another can be. */
const SILENT_MS = 100;

export class ClusterKeeper extends Keeper {
  protected readonly refreshes = true;
  readonly #heirs = new Heirs(this.lane);
  /** Shards of the latest report whose primary cannot be used. */
  #faulty: readonly ReportedShard[] = [];
  /** The server lacks CLUSTER SHARDS (Redis < 7), or forbids it. */
  #useSlots = false;

  protected async establish(deadline: number): Promise<void> {
    const { config, topology, fleet } = this.lane;
    const seeds = config.seeds.map((seed) => fleet.at(topology.intern(seed))!);
    topology.claimRefresh(0);
    await this.#askFirst(seeds, deadline);
    fleet.follow();
    const primaries = (): NodeLane[] => fleet.live().filter((node) => !node.replica);
    await this.until(deadline, () => primaries().every((node) => node.state === "ready"));
    const down = primaries().filter((node) => node.state !== "ready");
    if (down.length === primaries().length) throw this.unreachable(down);
    for (const node of down) this.lane.notifyDegraded(`node ${node.name} is not reachable: ${whyOf(node)}`);
    const uncovered = topology.uncovered();
    if (uncovered > 0) this.lane.notifyDegraded(`${uncovered} slots have no node`);
  }

  override changed(node: NodeLane): void {
    super.changed(node);
    if (node.state === "down") this.#heirs.watch();
  }

  override faultOf(slot: number): KeylaneError | null {
    const holds = ({ ranges }: ReportedShard): boolean => ranges.some(([first, last]) => first <= slot && slot <= last);
    return this.#faulty.find(holds)?.fault ?? null;
  }

  override stop(): void {
    super.stop();
    this.#heirs.stop();
  }

  protected async refresh(): Promise<void> {
    const now = performance.now();
    const ready = this.lane.fleet.ready();
    const heard = ready.filter((node) => !node.silentFor(now, SILENT_MS));
    const nodes = heard.length > 0 ? heard : ready;
    const node = nodes[Math.floor(Math.random() * nodes.length)];
    if (node !== undefined) await this.#ask(node, false);
  }

  /** Asks one seed after the other, as they become ready, until one tells the map. */
  async #askFirst(seeds: readonly NodeLane[], deadline: number): Promise<void> {
    const asked = new Set<NodeLane>();
    const next = (): NodeLane | undefined => seeds.find((node) => node.state === "ready" && !asked.has(node));
    for (let fault: unknown = null; ;) {
      const over = (): boolean =>
        next() !== undefined || this.authFailed(seeds) !== null || asked.size === seeds.length;
      await this.until(deadline, over);
      const seed = next();
      if (seed === undefined) throw fault ?? this.unreachable(seeds);
      asked.add(seed);
      try {
        await this.#ask(seed, true);
        return;
      } catch (error) {
        fault = error;
        if ((error as KeylaneError).code === "KEYLANE_ERR_NOT_CLUSTER") throw error;
      }
    }
  }

  async #ask(node: NodeLane, first: boolean): Promise<void> {
    const { config, topology } = this.lane;
    const report = await this.#report(node);
    for (const fault of report.faults) this.tell(fault);
    if (report.shards.some((shard) => shard.primary !== null && shard.ranges.length > 0)) {
      topology.apply(report.shards);
      this.#faulty = report.shards.filter(({ fault }) => fault !== undefined);
      this.#heirs.learn(report.shards);
      return;
    }
    // An empty report (a node that was just reset, say) is no reason to forget a map that may still be right.
    if (!first) return;
    const { domain } = config;
    const nothing = `the cluster of domain ${domain} serves no slots`;
    throw report.faults[0] ?? new KeylaneError("KEYLANE_ERR_NO_NODE", nothing, { domain, node: node.name });
  }

  async #report(node: NodeLane): Promise<Report> {
    const { natMap, domain, tls } = this.lane.config;
    try {
      if (!this.#useSlots) {
        const report = readShards(await this.#cluster(node, "SHARDS"), node.address, tls !== undefined, natMap, domain);
        if (!report.ambiguous) return report;
      }
    } catch (error) {
      if (!(error instanceof KeylaneError) || error.outcome !== "rejected") throw error;
      if (/cluster support disabled/i.test(error.message)) throw this.#notCluster(node, error);
      this.#useSlots = true;
    }
    try {
      return readSlots(await this.#cluster(node, "SLOTS"), node.address, natMap, domain);
    } catch (error) {
      const { message } = error as Error;
      throw /cluster support disabled/i.test(message) ? this.#notCluster(node, error as KeylaneError) : error;
    }
  }

  #cluster(node: NodeLane, what: string): Promise<Reply> {
    const timeoutMs = Math.min(ASK_MS, this.lane.config.connectTimeoutMs);
    return this.lane.callNode(node, "CLUSTER", [what], RAW_SHAPE, timeoutMs) as Promise<Reply>;
  }

  #notCluster(node: NodeLane, cause: KeylaneError): KeylaneError {
    const { domain } = this.lane.config;
    return new KeylaneError(
      "KEYLANE_ERR_NOT_CLUSTER",
      `${node.name} of domain ${domain} does not run in cluster mode; use mode: "single" for one server`,
      { domain, node: node.name, cause },
    );
  }
}
