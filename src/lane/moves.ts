/**
 * Slots that change nodes while operations are under way. A MOVED holds its slot back by itself (`redirect.ts`); but when the
 * whole map changes, the old node may still have operations of a slot, and later ones sent to the new node at once would
 * overtake them. Those slots are held until the old node has answered or is given up.
 */
import { native } from "../native/index.js";
import type { Topology } from "../routing/topology.js";
import type { Fleet } from "./fleet.js";
import type { Holds } from "./holds.js";
import type { NodeLane } from "./node.js";
import { SETTLED } from "./op.js";

export class Moves {
  readonly #topology: Topology;
  readonly #fleet: Fleet;
  readonly #holds: Holds;
  /** The map as of the last look. */
  readonly #known: Int32Array;

  constructor(topology: Topology, fleet: Fleet, holds: Holds) {
    this.#topology = topology;
    this.#fleet = fleet;
    this.#holds = holds;
    this.#known = topology.slots.slice();
  }

  /** Looks at what changed; before connections follow. O(slots), and O(operations under way) at nodes that lost slots. */
  look(): void {
    const { slots } = this.#topology;
    const known = this.#known;
    const lost = new Map<number, NodeLane>();
    for (let slot = 0; slot < slots.length; slot += 1) {
      const [before, now] = [known[slot]!, slots[slot]!];
      if (before === now) continue;
      known[slot] = now;
      const node = this.#fleet.nodes[before];
      const held = (this.#holds.bits[slot >> 5]! & (1 << (slot & 31))) !== 0;
      if (node !== undefined && node.ring.size > 0 && !held) lost.set(slot, node);
    }
    for (const node of new Set(lost.values())) {
      node.ring.forEach((op) => {
        const key = op.state === SETTLED ? null : op.key;
        if (key === null) return;
        const slot = native.slot(key);
        if (lost.get(slot) === node) this.#holds.fence(slot, node);
      });
    }
  }
}
