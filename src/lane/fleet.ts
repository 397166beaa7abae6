/**
 * The connections of one domain in this thread, by node index of the shared topology. The invariant: `nodes[i]` is a
 * connection to the address that record i held when it was dialled; `follow` lets go of those whose record changed. A
 * connection let go takes nothing any more, gets the replies it is owed, and ends.
 */
import type { NodeStats } from "../types.js";
import type { Topology } from "../routing/topology.js";
import { NodeLane } from "./node.js";
import type { NodeOwner } from "./node.js";
import { SETTLED } from "./op.js";
import type { Op } from "./op.js";

const MAX_NODES = 512;
/** A replica that has owed replies for so long, in milliseconds, is given no reads. */
const SILENT_MS = 100;

export class Fleet {
  /** Sparse, by node index. */
  readonly nodes: (NodeLane | undefined)[] = [];
  /** node → node that answers its reads this turn. */
  readonly alias = Int32Array.from({ length: MAX_NODES }, (_, index) => index);
  readonly #owner: NodeOwner;
  readonly #topology: Topology;
  readonly #replace: (ops: Op[]) => void;
  #version = 0;
  #rotation = 0;
  #closed = false;
  readonly #leaving = new Set<NodeLane>();
  /** Counts of connections that ended. */
  readonly #past: Traffic = { bytesSent: 0, bytesReceived: 0, writes: 0, reconnects: 0 };

  /** `replace` takes operations whose node went away before they were sent. */
  constructor(owner: NodeOwner, topology: Topology, replace: (ops: Op[]) => void) {
    this.#owner = owner;
    this.#topology = topology;
    this.#replace = replace;
  }

  /** The connection for a topology record, dialled when there is none yet; null when the record is free. */
  at(index: number): NodeLane | null {
    const known = this.nodes[index];
    const view = this.#topology.node(index);
    if (view === null) return known ?? null;
    if (known !== undefined && known.generation === view.generation) return known;
    if (this.#closed) return null;
    if (known !== undefined) this.#retire(known);
    const node = new NodeLane(this.#owner, view);
    this.nodes[index] = node;
    return node;
  }

  /** Every connection held. */
  live(): NodeLane[] {
    return this.nodes.filter((node): node is NodeLane => node !== undefined);
  }

  /** Every connection that may still owe replies: those held, and those let go. */
  all(): NodeLane[] {
    return this.#leaving.size === 0 ? this.live() : [...this.live(), ...this.#leaving];
  }

  /** Whether any connection owes replies. */
  get owing(): boolean {
    return this.all().some((node) => node.ring.size > 0);
  }

  /** Connections that can send now. */
  ready(): NodeLane[] {
    return this.live().filter((node) => node.state === "ready");
  }

  /** Whether the topology changed since the last `follow`. */
  get behind(): boolean {
    return this.#topology.version !== this.#version;
  }

  /** Follows the topology: dials new nodes, lets go of removed ones, has what waited for a lost node placed anew. */
  follow(): void {
    this.#version = this.#topology.version;
    const { scaleReads } = this.#owner.config;
    for (const view of this.#topology.nodes()) {
      const node = this.nodes[view.index];
      if (node !== undefined && node.generation === view.generation && node.replica !== view.replica) {
        if (view.replica) this.#retire(node);
        else node.promote();
      }
      if (!view.replica || scaleReads !== "master") this.at(view.index);
    }
    for (const node of this.live()) {
      const view = this.#topology.node(node.index);
      if (view === null || view.generation !== node.generation) this.#retire(node);
      else if (node.state !== "ready" && node.waiting.length > 0) this.#replace(node.waiting.splice(0));
    }
  }

  /** Lets go of a connection that nothing is sent to: a replica's, when reads go to primaries. */
  release(index: number): void {
    const node = this.nodes[index];
    const idle = this.#owner.config.scaleReads === "master" && this.#topology.node(index)?.replica === true;
    if (node !== undefined && idle) this.#retire(node);
  }

  /** Forgets the connections let go that have ended. */
  sweep(): void {
    for (const node of this.#leaving) {
      if (node.state !== "closed") continue;
      this.#leaving.delete(node);
      count(this.#past, node);
    }
  }

  /** Traffic of all connections since the beginning. */
  traffic(): Traffic {
    const total = { ...this.#past };
    for (const node of this.all()) count(total, node);
    return total;
  }

  /**
   * Chooses, for this turn, which node answers the reads of each primary: its healthy replicas in turn, with `all` the
   * primary too, with `nearest` whichever has the shortest round trip.
   */
  rotate(now: number): void {
    this.#rotation += 1;
    const choices = new Map<number, NodeLane[]>();
    for (const node of this.live()) {
      this.alias[node.index] = node.index;
      const usable = node.replica && node.linked && node.state === "ready" && !node.silentFor(now, SILENT_MS);
      const view = usable ? this.#topology.node(node.index) : null;
      if (view === null || view.primary < 0) continue;
      const list = choices.get(view.primary);
      if (list === undefined) choices.set(view.primary, [node]);
      else list.push(node);
    }
    const { scaleReads } = this.#owner.config;
    for (const [primary, choice] of choices) {
      const owner = this.nodes[primary];
      const withPrimary = scaleReads === "all" || scaleReads === "nearest";
      if (withPrimary && owner?.state === "ready") choice.push(owner);
      const pick = scaleReads === "nearest" ? nearest(choice) : choice[this.#rotation % choice.length]!;
      this.alias[primary] = pick.index;
    }
  }

  /** Ends all connections for good. */
  close(): void {
    this.#closed = true;
    for (const node of this.all()) node.close();
  }

  stats(): NodeStats[] {
    return this.live()
      .filter((node) => node.state !== "closed")
      .map((node) => ({
        node: node.name,
        role: node.replica ? "replica" : "primary",
        state: node.state === "connecting" || node.state === "ready" ? node.state : "down",
        slots: this.#topology.slotCount(node.index),
        inFlight: node.ring.size,
        waiting: node.waiting.length,
      }));
  }

  #retire(node: NodeLane): void {
    if (this.nodes[node.index] === node) this.nodes[node.index] = undefined;
    const waiting = node.waiting.splice(0).filter((op) => op.state !== SETTLED);
    this.#leaving.add(node);
    node.leave();
    if (waiting.length > 0) this.#replace(waiting);
  }
}

/** Counters of connections, as `DomainStats` tells them. */
interface Traffic {
  bytesSent: number;
  bytesReceived: number;
  writes: number;
  reconnects: number;
}

function count(total: Traffic, node: NodeLane): void {
  total.bytesSent += node.bytesSent;
  total.bytesReceived += node.inbox.bytesReceived;
  total.writes += node.writes;
  total.reconnects += Math.max(0, node.connects - 1);
}

function nearest(nodes: readonly NodeLane[]): NodeLane {
  return nodes.reduce((best, node) => (node.roundTripMs < best.roundTripMs ? node : best));
}
