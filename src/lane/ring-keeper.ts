/**
 * The topology of a ring of standalone servers (see `routing/ring.ts`). A server that stays down longer than `ejectMs` is
 * taken out: its slots go to the next server in rank until it is back. Only operations that a cache can bear follow them;
 * counters never do, since two servers would then count the same thing.
 */
import { native } from "../native/index.js";
import { Opcode } from "../native/types.js";
import { ringScores, ringShards } from "../routing/ring.js";
import { Keeper } from "./keeper.js";
import type { NodeLane } from "./node.js";
import type { Op } from "./op.js";

/** Opcodes that may run on a stand-in server: losing or repeating their effect costs a cache miss. */
const BEARABLE: ReadonlySet<number> = new Set([
  Opcode.GET,
  Opcode.SET,
  Opcode.DEL,
  Opcode.EXISTS,
  Opcode.PTTL,
  Opcode.EXPIRE,
  Opcode.PEXPIRE,
]);

export class RingKeeper extends Keeper {
  protected readonly refreshes = false;
  readonly #scores = ringScores(this.lane.config.ring);
  /** Index of the server that owns each slot while all are well. */
  #home = new Uint16Array(16_384);
  /** Servers taken out, by position in the ring. */
  readonly #ejected = new Set<number>();
  readonly #timers = new Map<number, NodeJS.Timeout>();

  protected async establish(deadline: number): Promise<void> {
    const { config, fleet } = this.lane;
    ringShards(config.ring, this.#scores, new Set()).forEach(({ ranges }, server) => {
      for (const [first, last] of ranges) this.#home.fill(server, first, last + 1);
    });
    this.#apply();
    fleet.follow();
    const nodes = fleet.live();
    await this.until(deadline, () => nodes.every((node) => node.state === "ready") || this.authFailed(nodes) !== null);
    if (!nodes.some((node) => node.state === "ready")) throw this.unreachable(nodes);
    for (const node of nodes) {
      if (node.state !== "ready") this.lane.notifyDegraded(`node ${node.name} is not reachable`);
      if (node.state !== "ready") this.changed(node);
    }
  }

  protected async refresh(): Promise<void> {
    // A ring has no map of its own to ask for.
  }

  get ejecting(): boolean {
    return this.#ejected.size > 0;
  }

  /** Why an operation may not run now, or null: it would count on a server that stands in for another. */
  refusal(op: Op): string | null {
    if (op.isRead || BEARABLE.has(op.head & 0xff)) return null;
    const key = op.key;
    const server = key === null ? undefined : this.lane.config.ring[this.#home[native.slot(key)]!];
    if (server === undefined || !this.#ejected.has(this.lane.config.ring.indexOf(server))) return null;
    return `${server.host}:${server.port} is down, and only cached values move to another server`;
  }

  override changed(node: NodeLane): void {
    super.changed(node);
    const { config } = this.lane;
    const server = config.ring.findIndex(({ host, port }) => host === node.address.host && port === node.address.port);
    if (server === -1 || config.ejectMs === undefined || this.stopped) return;
    if (node.state === "ready") {
      clearTimeout(this.#timers.get(server));
      this.#timers.delete(server);
      if (this.#ejected.delete(server)) this.#apply();
    } else this.#ejectIn(server, config.ejectMs);
  }

  override stop(): void {
    super.stop();
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  #ejectIn(server: number, ms: number): void {
    if (this.#timers.has(server)) return;
    const timer = setTimeout(() => this.#eject(server), ms);
    timer.unref();
    this.#timers.set(server, timer);
  }

  #eject(server: number): void {
    const { ring, domain, ejectMs } = this.lane.config;
    this.#timers.delete(server);
    if (this.#ejected.size === ring.length - 1) {
      // The last one stays. Once another is back, it is looked at again.
      this.#ejectIn(server, ejectMs!);
      return;
    }
    this.#ejected.add(server);
    this.#apply();
    const { host, port } = ring[server]!;
    this.lane.notifyDegraded(`${host}:${port} was taken out of the ring of ${domain}`);
  }

  #apply(): void {
    this.lane.topology.apply(ringShards(this.lane.config.ring, this.#scores, this.#ejected));
  }
}
