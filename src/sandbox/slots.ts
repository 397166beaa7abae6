/**
 * Moving slots between two primaries while clients use them, in the order the cluster specification asks for: the target
 * imports, the source migrates, keys go over by MIGRATE, then the target is told first that it owns the slot, so that at no
 * moment nobody does. The steps are also there one by one, to hold a cluster in the state that answers ASK and TRYAGAIN.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { KeylaneError } from "../errors.js";
import type { SandboxNode } from "./node.js";
import { parseNodes } from "./topology.js";

/** How many slots are between two nodes at once while many are moved. */
const CHUNK = 64;
/** Keys of one MIGRATE. */
const KEYS = 100;
/** MIGRATE's own timeout, in milliseconds. */
const MIGRATE_TIMEOUT = 5000;
/** Deadline of a node's hearing of another, in milliseconds. */
const ACQUAINT_MS = 5000;

type Admin = { readonly username: string; readonly password: string } | undefined;

/**
 * The rest of a slot between two of its moves. A node that has heard its owner not claim a slot yet keeps that in mind until
 * it hears it claim it. If the slot comes back to it before, it gives it away again at the next old packet (Redis 7.0.15),
 * and then each of the two says that the other has it. By the end of the rest every node has heard every other.
 */
export class SlotRest {
  readonly #ms: number;
  readonly #since = new Map<number, number>();

  /** Nodes hear of each other every half node timeout; the rest adds the time that a loaded machine may take. */
  constructor(nodeTimeoutMs: number) {
    this.#ms = nodeTimeoutMs / 2 + 300;
  }

  begin(slot: number): void {
    this.#since.set(slot, performance.now());
  }

  async over(slot: number): Promise<void> {
    const left = (this.#since.get(slot) ?? -Infinity) + this.#ms - performance.now();
    if (left > 0) await sleep(left);
  }
}

/** A slot that is under way from one primary to another. */
export class SlotMove {
  readonly slot: number;
  readonly from: SandboxNode;
  readonly to: SandboxNode;
  readonly #others: () => readonly SandboxNode[];
  readonly #admin: Admin;
  readonly #rest: SlotRest;

  /** Use `SandboxCluster.beginMove`. */
  constructor(
    slot: number,
    from: SandboxNode,
    to: SandboxNode,
    others: () => readonly SandboxNode[],
    admin: Admin,
    rest: SlotRest,
  ) {
    this.slot = slot;
    this.from = from;
    this.to = to;
    this.#others = others;
    this.#admin = admin;
    this.#rest = rest;
  }

  /** Waits until the slot has rested from its last move. */
  rest(): Promise<void> {
    return this.#rest.over(this.slot);
  }

  /**
   * Waits until the target knows the source's epoch. Taking the slot it raises its own above all that it knows; of two equal
   * epochs the cluster would let chance decide who owns the slot.
   */
  async acquaint(): Promise<void> {
    const epochOf = async (node: SandboxNode): Promise<number> => {
      const line = parseNodes(String(await node.command("CLUSTER", "NODES"))).find(({ id }) => id === this.from.id);
      return line?.epoch ?? -1;
    };
    const epoch = await epochOf(this.from);
    for (const deadline = performance.now() + ACQUAINT_MS; (await epochOf(this.to)) < epoch; await sleep(10)) {
      if (performance.now() > deadline) {
        throw new KeylaneError("KEYLANE_ERR_SANDBOX", `${this.to.address} does not hear of ${this.from.address}`);
      }
    }
  }

  /** Opens the slot on both sides: from here on the source answers ASK for keys it does not hold. */
  async begin(): Promise<void> {
    await this.to.command("CLUSTER", "SETSLOT", this.slot, "IMPORTING", this.from.id);
    await this.from.command("CLUSTER", "SETSLOT", this.slot, "MIGRATING", this.to.id);
  }

  /** Hands keys over: the given ones, or all that the source holds in this slot. Gives their number. */
  async migrate(keys?: readonly (string | Uint8Array)[]): Promise<number> {
    if (keys !== undefined) return this.#send(keys);
    const client = await this.from.client();
    try {
      for (let moved = 0; ;) {
        const found = (await client.command("CLUSTER", "GETKEYSINSLOT", this.slot, KEYS)) as Buffer[];
        if (found.length === 0) return moved;
        moved += await this.#send(found);
      }
    } finally {
      client.close();
    }
  }

  /** Hands over what is left and gives the slot to the target; every primary is told. */
  async finish(): Promise<void> {
    for (let tries = 0; ; tries++) {
      await this.migrate();
      await this.to.command("CLUSTER", "SETSLOT", this.slot, "NODE", this.to.id);
      try {
        await this.from.command("CLUSTER", "SETSLOT", this.slot, "NODE", this.to.id);
        break;
      } catch (error) {
        // A key came in between the last look and this command.
        if (tries === 100 || !/still hold keys/.test((error as Error).message)) throw error;
      }
    }
    const others = this.#others().filter((node) => node !== this.from && node !== this.to);
    await Promise.all(others.map((node) => node.command("CLUSTER", "SETSLOT", this.slot, "NODE", this.to.id)));
    this.#rest.begin(this.slot);
  }

  /** Closes the slot again on both sides without changing its owner. Keys already handed over stay where they are. */
  async cancel(): Promise<void> {
    await this.from.command("CLUSTER", "SETSLOT", this.slot, "STABLE");
    await this.to.command("CLUSTER", "SETSLOT", this.slot, "STABLE");
  }

  async #send(keys: readonly (string | Uint8Array)[]): Promise<number> {
    const { host, port } = this.to;
    const auth = this.#admin === undefined ? [] : ["AUTH2", this.#admin.username, this.#admin.password];
    await this.from.command("MIGRATE", host, port, "", 0, MIGRATE_TIMEOUT, "REPLACE", ...auth, "KEYS", ...keys);
    return keys.length;
  }
}

/** Carries out whole moves, some at a time. */
export async function finishMoves(moves: readonly SlotMove[]): Promise<void> {
  for (let start = 0; start < moves.length; start += CHUNK) {
    const chunk = moves.slice(start, start + CHUNK);
    await Promise.all(chunk.map((move) => move.rest()));
    await chunk[0]!.acquaint();
    await Promise.all(chunk.map((move) => move.begin()));
    await Promise.all(chunk.map((move) => move.finish()));
  }
}

/** Slots as a list: numbers as they are, `[from, to]` pairs as inclusive ranges. */
export function listSlots(slots: Iterable<number | readonly [number, number]>): number[] {
  const list: number[] = [];
  for (const entry of slots) {
    const [from, to] = typeof entry === "number" ? [entry, entry] : entry;
    if (!(from >= 0 && to < 16_384 && Number.isInteger(from) && Number.isInteger(to))) {
      throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `${JSON.stringify(entry)} is not a slot or a range of slots`);
    }
    for (let slot = from; slot <= to; slot++) list.push(slot);
  }
  return list;
}
