/**
 * Keeps a domain's topology: contacts the seeds at open, then asks any connected node on MOVED, on disconnect and at an
 * interval. Requests of all threads of the process are coalesced through the shared topology: between two of them lies at
 * least `refreshMinimumMs`, and a wish in between is served by the one that is due.
 */
import { KeylaneError } from "../errors.js";
import type { Reply } from "../types.js";
import { readShards, readSlots } from "./discover.js";
import type { Report } from "./discover.js";
import type { DomainLane } from "./lane.js";
import type { NodeLane } from "./node.js";
import { RAW_SHAPE } from "./replies.js";

const AUTH_PATTERN = /WRONGPASS|NOAUTH|invalid password|invalid username|Client sent AUTH|NOPERM/i;

export class Refresher {
  readonly #lane: DomainLane;
  #timer: NodeJS.Timeout | null = null;
  #interval: NodeJS.Timeout | null = null;
  #running = false;
  #stopped = false;
  #useSlots = false;
  #waiters: (() => void)[] = [];
  /** Faults already told, so that a broken map is one event and not one a second. */
  readonly #told = new Set<string>();

  constructor(lane: DomainLane) {
    this.#lane = lane;
  }

  async open(): Promise<void> {
    const { config, topology } = this.#lane;
    const deadline = performance.now() + config.connectTimeoutMs;
    if (!config.cluster) {
      topology.apply([{ ranges: [[0, 16_383]], primary: config.seeds[0]!, replicas: config.seeds.slice(1) }]);
      const nodes = topology.nodes().map((view) => this.#lane.fleet.at(view.index)!);
      await this.#until(deadline, () => nodes[0]!.state === "ready" || this.#authFailed(nodes) !== null);
      if (nodes[0]!.state !== "ready") throw this.#unreachable(nodes);
      return;
    }
    const seeds = config.seeds.map((seed) => this.#lane.fleet.at(topology.intern(seed))!);
    await this.#until(deadline, () => seeds.some((node) => node.state === "ready") || this.#authFailed(seeds) !== null);
    const seed = seeds.find((node) => node.state === "ready");
    if (seed === undefined) throw this.#unreachable(seeds);
    topology.claimRefresh(0);
    await this.#ask(seed, true);
    const primaries = (): NodeLane[] =>
      topology
        .nodes()
        .filter((view) => !view.replica)
        .map((view) => this.#lane.fleet.at(view.index)!);
    for (const view of topology.nodes()) {
      if (!view.replica || config.scaleReads !== "master") this.#lane.fleet.at(view.index);
    }
    await this.#until(deadline, () => primaries().every((node) => node.state === "ready"));
    const down = primaries().filter((node) => node.state !== "ready");
    if (down.length === primaries().length) throw this.#unreachable(down);
    for (const node of down) this.#lane.notifyDegraded(`node ${node.name} is not reachable: ${whyOf(node)}`);
    const uncovered = topology.uncovered();
    if (uncovered > 0) this.#lane.notifyDegraded(`${uncovered} slots have no node`);
    this.#interval = setInterval(() => this.request(), config.refreshIntervalMs * (0.9 + Math.random() / 5));
    this.#interval.unref();
  }

  /** Wishes for a fresh map, soon. */
  request(): void {
    const { config, topology } = this.#lane;
    if (!config.cluster || this.#stopped || this.#timer !== null || this.#running) return;
    const delay = topology.refreshDelay(config.refreshMinimumMs);
    this.#timer = setTimeout(() => void this.#run(), delay === 0 ? 0 : delay + Math.random() * 20);
    this.#timer.unref();
  }

  /** A node became ready or failed: `open` looks again. */
  wake(): void {
    for (const wake of this.#waiters.splice(0)) wake();
  }

  stop(): void {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#interval !== null) clearInterval(this.#interval);
    this.wake();
  }

  async #run(): Promise<void> {
    this.#timer = null;
    const { config, topology, fleet } = this.#lane;
    if (this.#stopped) return;
    const ready = fleet.ready();
    const node = ready[Math.floor(Math.random() * ready.length)];
    if (node === undefined || !topology.claimRefresh(config.refreshMinimumMs)) {
      if (node !== undefined) this.request();
      return;
    }
    this.#running = true;
    try {
      await this.#ask(node, false);
    } catch (error) {
      this.#tell(error as KeylaneError);
    } finally {
      this.#running = false;
    }
  }

  async #ask(node: NodeLane, first: boolean): Promise<void> {
    const { config, topology } = this.#lane;
    const report = await this.#report(node, first);
    for (const fault of report.faults) this.#tell(fault);
    const usable = report.shards.some((shard) => shard.primary !== null && shard.ranges.length > 0);
    if (!usable) {
      const [fault] = report.faults;
      if (first) {
        throw (
          fault ??
          new KeylaneError("KEYLANE_ERR_NO_NODE", `the cluster of domain ${config.domain} serves no slots`, {
            domain: config.domain,
            node: node.name,
          })
        );
      }
      return;
    }
    topology.apply(report.shards);
  }

  async #report(node: NodeLane, first: boolean): Promise<Report> {
    const { config } = this.#lane;
    const timeout = config.connectTimeoutMs;
    if (!this.#useSlots) {
      try {
        const reply = (await this.#lane.callNode(node, "CLUSTER", ["SHARDS"], RAW_SHAPE, timeout)) as Reply;
        const report = readShards(reply, node.address, config.tls !== undefined, config.natMap, config.domain);
        if (!report.ambiguous) return report;
      } catch (error) {
        if (!(error instanceof KeylaneError) || error.outcome !== "rejected") throw error;
        if (/cluster support disabled/i.test(error.message)) throw this.#notCluster(node, error);
        this.#useSlots = true;
      }
    }
    try {
      const reply = (await this.#lane.callNode(node, "CLUSTER", ["SLOTS"], RAW_SHAPE, timeout)) as Reply;
      return readSlots(reply, node.address, config.natMap, config.domain);
    } catch (error) {
      if (first && error instanceof KeylaneError && /cluster support disabled/i.test(error.message)) {
        throw this.#notCluster(node, error);
      }
      throw error;
    }
  }

  #notCluster(node: NodeLane, cause: KeylaneError): KeylaneError {
    const { domain } = this.#lane.config;
    return new KeylaneError(
      "KEYLANE_ERR_NOT_CLUSTER",
      `${node.name} of domain ${domain} does not run in cluster mode; use mode: "single" for one server`,
      { domain, node: node.name, cause },
    );
  }

  #tell(error: KeylaneError): void {
    const key = `${error.code} ${error.node ?? ""}`;
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.#lane.notifyError(error);
  }

  #authFailed(nodes: readonly NodeLane[]): NodeLane | null {
    return nodes.find((node) => node.lastError !== null && AUTH_PATTERN.test(node.lastError.message)) ?? null;
  }

  #unreachable(nodes: readonly NodeLane[]): KeylaneError {
    const { domain, connectTimeoutMs } = this.#lane.config;
    const refused = this.#authFailed(nodes);
    if (refused !== null) {
      return new KeylaneError(
        "KEYLANE_ERR_AUTH",
        `${refused.name} of domain ${domain} refused the credentials: ${whyOf(refused)}`,
        { domain, node: refused.name, cause: refused.lastError },
      );
    }
    const list = nodes.map((node) => `${node.name} (${whyOf(node)})`).join(", ");
    return new KeylaneError(
      "KEYLANE_ERR_CONNECT",
      `no node of domain ${domain} could be reached within ${connectTimeoutMs} ms: ${list}`,
      { domain, node: nodes[0]?.name, cause: nodes[0]?.lastError ?? undefined },
    );
  }

  /** Waits until `done()` holds, looking whenever a node comes up and at short intervals, or the deadline passes. */
  async #until(deadline: number, done: () => boolean): Promise<void> {
    while (!done() && !this.#stopped) {
      const left = deadline - performance.now();
      if (left <= 0) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, 20));
        this.#waiters.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }
}

function whyOf(node: NodeLane): string {
  return node.lastError?.message ?? "no answer";
}
