/**
 * Keeps a domain's topology true. What is common to clusters, single servers and rings: waiting for connections at open,
 * coalescing wishes for a fresh map, telling each fault once, watching the health of nodes that answer reads.
 *
 * The invariant: requests of all threads of the process go through `Topology.claimRefresh`, so between two of them lies at
 * least `refreshMinimumMs`, however many MOVED, disconnects and refusals wish for one.
 */
import { KeylaneError } from "../errors.js";
import type { Topology } from "../routing/topology.js";
import type { Reply } from "../types.js";
import type { LaneConfig } from "./config.js";
import type { Fleet } from "./fleet.js";
import type { NodeLane } from "./node.js";
import { RAW_SHAPE } from "./replies.js";
import type { Shape } from "./replies.js";

const AUTH_PATTERN = /WRONGPASS|NOAUTH|invalid password|invalid username|Client sent AUTH|AUTH <password>/i;
/** Distance of health checks of nodes that answer reads, in milliseconds. */
const HEALTH_MS = 1000;
/** While a domain is not whole, it is asked again after this part of the time it has not been. */
const PATIENCE = 1 / 16;

/** What a keeper needs of its lane. */
export interface KeeperLane {
  readonly config: LaneConfig;
  readonly topology: Topology;
  readonly fleet: Fleet;
  callNode(node: NodeLane, name: string, args: readonly string[], shape: Shape, timeoutMs: number): Promise<unknown>;
  notifyDegraded(reason: string): void;
  notifyError(error: KeylaneError): void;
}

export abstract class Keeper {
  protected readonly lane: KeeperLane;
  protected stopped = false;
  #timer: NodeJS.Timeout | null = null;
  /** When `#timer` fires. */
  #due = 0;
  /** Since when the domain has not been whole; 0 while it is. */
  #ailingSince = 0;
  #interval: NodeJS.Timeout | null = null;
  #health: NodeJS.Timeout | null = null;
  #running = false;
  #wished = false;
  #waiters: (() => void)[] = [];
  /** Faults already told, so that a broken map is one event and not one a second. */
  readonly #told = new Set<string>();

  constructor(lane: KeeperLane) {
    this.lane = lane;
  }

  /** Contacts the servers and fills the topology. Rejects when none can serve before the connect deadline. */
  async open(): Promise<void> {
    const { refreshIntervalMs, scaleReads } = this.lane.config;
    await this.establish(performance.now() + this.lane.config.connectTimeoutMs);
    if (this.stopped) return;
    if (this.refreshes) {
      this.#askAgain();
      this.#interval = setInterval(() => this.request(), refreshIntervalMs * (0.9 + Math.random() / 5));
      this.#interval.unref();
    }
    if (scaleReads === "master") return;
    await this.#checkAll();
    this.#health = setInterval(() => void this.#checkAll(), HEALTH_MS);
    this.#health.unref();
  }

  /** Wishes for a fresh map: soon, or after `leastMs`. */
  request(leastMs = 0): void {
    if (!this.refreshes || this.stopped) return;
    if (this.#running) {
      this.#wished = true;
      return;
    }
    const delay = Math.max(leastMs, this.lane.topology.refreshDelay(this.lane.config.refreshMinimumMs));
    const due = performance.now() + delay;
    if (this.#timer !== null && this.#due <= due) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => void this.#run(), delay === 0 ? 0 : delay + Math.random() * 20);
    this.#timer.unref();
  }

  /** A node became ready or was lost. */
  changed(node: NodeLane): void {
    for (const wake of this.#waiters.splice(0)) wake();
    if (node.state === "ready" && this.#health !== null) void this.#check(node);
  }

  stop(): void {
    this.stopped = true;
    for (const timer of [this.#timer, this.#interval, this.#health]) if (timer !== null) clearTimeout(timer);
    for (const wake of this.#waiters.splice(0)) wake();
  }

  /** Whether this kind of domain has a map that servers can tell. */
  protected abstract readonly refreshes: boolean;
  protected abstract establish(deadline: number): Promise<void>;
  /** Asks for the map and applies it. */
  protected abstract refresh(): Promise<void>;

  /** Whether every slot has a primary that is connected. */
  protected whole(): boolean {
    const { topology, fleet } = this.lane;
    return [...new Set(topology.slots)].every((owner) => owner >= 0 && fleet.at(owner)?.state === "ready");
  }

  /** Why a slot has no node, when that is known and will not pass by itself. */
  faultOf(_slot: number): KeylaneError | null {
    return null;
  }

  /** Tells a fault, once. */
  tell(error: KeylaneError): void {
    const key = `${error.code} ${error.node ?? ""}`;
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.lane.notifyError(error);
  }

  /** Waits until `done()` holds, looking whenever a node comes or goes and at short intervals, or the deadline passes. */
  protected async until(deadline: number, done: () => boolean): Promise<void> {
    while (!done() && !this.stopped) {
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

  protected authFailed(nodes: readonly NodeLane[]): NodeLane | null {
    return nodes.find((node) => node.lastError !== null && AUTH_PATTERN.test(node.lastError.message)) ?? null;
  }

  /** Why a domain cannot be opened: which node, and what happened there. */
  protected unreachable(nodes: readonly NodeLane[]): KeylaneError {
    const { domain, connectTimeoutMs } = this.lane.config;
    const refused = this.authFailed(nodes);
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

  async #run(): Promise<void> {
    this.#timer = null;
    if (this.stopped) return;
    if (!this.lane.topology.claimRefresh(this.lane.config.refreshMinimumMs)) {
      this.request();
      return;
    }
    this.#running = true;
    this.#wished = false;
    try {
      await this.refresh();
    } catch (error) {
      this.#wished = true;
      this.tell(error as KeylaneError);
    } finally {
      this.#running = false;
    }
    if (this.#wished) this.request();
    this.#askAgain();
  }

  /** A cluster that lost a node says nothing by itself when another has taken over: it is asked until it is whole. */
  #askAgain(): void {
    const now = performance.now();
    if (this.whole()) this.#ailingSince = 0;
    else {
      this.#ailingSince ||= now;
      this.request(Math.min(this.lane.config.refreshIntervalMs, (now - this.#ailingSince) * PATIENCE));
    }
  }

  async #checkAll(): Promise<void> {
    await Promise.all(this.lane.fleet.ready().map((node) => this.#check(node)));
  }

  /** A replica answers reads only while it is linked to its primary; the round trip also ranks nodes for `nearest`. */
  async #check(node: NodeLane): Promise<void> {
    const began = performance.now();
    try {
      const role = (await this.lane.callNode(node, "ROLE", [], RAW_SHAPE, HEALTH_MS)) as Reply;
      node.linked = !Array.isArray(role) || role[0] !== "slave" || role[3] === "connected";
    } catch (error) {
      // A user without ROLE cannot be told the difference; everything else is a reason not to read there.
      node.linked = (error as KeylaneError).code === "KEYLANE_ERR_NOPERM";
    }
    const trip = performance.now() - began;
    node.roundTripMs = node.roundTripMs === 0 ? trip : node.roundTripMs * 0.7 + trip * 0.3;
  }
}

export function whyOf(node: NodeLane): string {
  return node.lastError?.message ?? "no answer";
}
