/**
 * Strict counting: a decision that counted is told only once a replica holds it. One WAIT a node and event-loop turn covers
 * all that was answered before it, on the connection that the counts went over; later calls on that connection wait behind it.
 */
import { KeylaneError } from "../errors.js";
import type { Lane } from "../lane/contract.js";
import { DomainLane } from "../lane/lane.js";
import type { NodeLane } from "../lane/node.js";
import { RAW_SHAPE } from "../lane/replies.js";

/** How long the server waits for its replica, in milliseconds. */
const WAIT_MS = 250;

export class Replicas {
  /** Null where the connections are in other threads; the options exclude that. */
  readonly #lane: DomainLane | null;
  readonly #domain: string;
  readonly #turns = new Map<NodeLane, Promise<void>>();

  constructor(lane: Lane) {
    this.#lane = lane instanceof DomainLane ? lane : null;
    this.#domain = lane.config.domain;
  }

  /** The connection to a slot's primary, and which of its lives it is in. */
  place(slot: number): Place {
    const node = this.#node(slot);
    return { node, connects: node?.connects ?? 0 };
  }

  /**
   * Resolves when a replica holds what was counted in a slot.
   *
   * @throws (rejects) KeylaneError `KEYLANE_ERR_NOREPLICAS` with outcome `unknown`
   */
  async confirmed(slot: number, before: Place): Promise<void> {
    const node = this.#node(slot);
    // A connection made after the count would be told of no write at all.
    if (node === null || (node === before.node && node.connects !== before.connects)) throw this.#missing(node);
    let turn = this.#turns.get(node);
    if (turn === undefined) {
      turn = new Promise((resolve) => setImmediate(resolve)).then(() => this.#wait(node));
      this.#turns.set(node, turn);
    }
    await turn;
  }

  #node(slot: number): NodeLane | null {
    if (this.#lane === null) return null;
    const { fleet, topology } = this.#lane;
    return fleet.at(topology.nodeOf(slot));
  }

  async #wait(node: NodeLane): Promise<void> {
    this.#turns.delete(node);
    const lane = this.#lane!;
    const { commandTimeoutMs } = lane.config;
    const held = await lane.callNode(node, "WAIT", ["1", String(WAIT_MS)], RAW_SHAPE, commandTimeoutMs + WAIT_MS);
    if (typeof held !== "number" || held < 1) throw this.#missing(node);
  }

  #missing(node: NodeLane | null): KeylaneError {
    const message = `no replica has confirmed the count within ${WAIT_MS} ms`;
    const domain = this.#domain;
    return new KeylaneError("KEYLANE_ERR_NOREPLICAS", message, { domain, node: node?.name, outcome: "unknown" });
  }
}

export interface Place {
  readonly node: NodeLane | null;
  readonly connects: number;
}
