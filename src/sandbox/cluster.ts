/**
 * A whole cluster on loopback ports: made by CLUSTER MEET, ADDSLOTS and REPLICATE, declared ready when every node agrees on
 * every slot and every replica has synced, and taken apart without a trace. Failures are produced through its nodes (`kill`,
 * `pause`, …) and through the methods here.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { KeylaneError } from "../errors.js";
import { atLeast, findServer, type ServerBinary } from "./find-server.js";
import { acquire, release } from "./guard.js";
import { adminFor, type NodeSettings, SandboxNode } from "./node.js";
import type { ClusterOptions, ServerConfig } from "./options.js";
import { BUS_OFFSET } from "./ports.js";
import { finishMoves, listSlots, SlotMove, SlotRest } from "./slots.js";
import { makeCertificates, type SandboxTls } from "./tls.js";
import { ailment, type NodeLine, parseNodes, SLOTS } from "./topology.js";

/** While a cluster forms, nodes gossip at this rate, so that it takes seconds and not node timeouts. */
const FORMING_TIMEOUT = 1000;
/** Distance between two looks while waiting for a cluster, in milliseconds. */
const LOOK = 25;

/** A running cluster; make one with `startCluster`. */
export class SandboxCluster {
  /** All nodes ever started, in order: first the primaries of the beginning, then their replicas, then added ones. */
  readonly nodes: SandboxNode[] = [];
  readonly binary: ServerBinary;
  readonly tls: SandboxTls | undefined;
  readonly #settings: NodeSettings;
  readonly #nodeTimeoutMs: number;
  readonly #rest: SlotRest;
  #stopped = false;

  /** @internal */
  constructor(settings: NodeSettings, nodeTimeoutMs: number) {
    this.#settings = settings;
    this.#nodeTimeoutMs = nodeTimeoutMs;
    this.#rest = new SlotRest(nodeTimeoutMs);
    this.binary = settings.binary;
    this.tls = settings.tls;
  }

  /** `host:port` of every node that was a primary when the sandbox last looked. */
  get seeds(): string[] {
    return this.primaries.map((node) => node.address);
  }

  /** Nodes that were primaries when the sandbox last looked. */
  get primaries(): SandboxNode[] {
    return this.nodes.filter((node) => node.role === "primary");
  }

  /** Nodes that were replicas when the sandbox last looked. */
  get replicas(): SandboxNode[] {
    return this.nodes.filter((node) => node.role === "replica");
  }

  /** CLUSTER NODES as `through`, or the first node that can, tells it. */
  async view(through?: SandboxNode): Promise<NodeLine[]> {
    const node = through ?? this.#live()[0];
    if (node === undefined) throw new KeylaneError("KEYLANE_ERR_SANDBOX", "no node of the cluster is running");
    return parseNodes(String(await node.command("CLUSTER", "NODES")));
  }

  /** The node that owns a slot, as the first live node sees it. */
  async ownerOf(slot: number): Promise<SandboxNode> {
    const line = (await this.view()).find(({ slots }) => slots.some(([from, to]) => from <= slot && slot <= to));
    const node = this.nodes.find(({ id }) => id === line?.id);
    if (node === undefined)
      throw new KeylaneError("KEYLANE_ERR_SANDBOX", `slot ${slot} has no owner in this cluster`, { slot });
    return node;
  }

  /** The live replicas of a primary. */
  replicasOf(primary: SandboxNode): SandboxNode[] {
    return this.replicas.filter((node) => node.running && node.primaryId === primary.id);
  }

  /**
   * Resolves when all nodes that run (paused ones aside) agree on roles and slots, see each other, and replicas are in sync;
   * unless `coverage` is false, also that they cover all slots.
   * @throws KeylaneError `KEYLANE_ERR_SANDBOX` with what is still wrong after `timeoutMs` (default 30,000).
   */
  async waitHealthy(options: { timeoutMs?: number; coverage?: boolean } = {}): Promise<void> {
    const { timeoutMs = 30_000, coverage = true } = options;
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const live = this.#live();
      const problem = live.length === 0 ? "no node is running" : await ailment(live, coverage);
      if (problem === undefined) return;
      if (performance.now() >= deadline) {
        throw new KeylaneError("KEYLANE_ERR_SANDBOX", `the cluster is not whole after ${timeoutMs} ms: ${problem}`);
      }
      await sleep(LOOK);
    }
  }

  /**
   * Makes a replica the primary and waits until every live node knows. Mode `"force"` does not need the old primary's
   * consent, `"takeover"` not even the other primaries'.
   */
  async failover(replica: SandboxNode, mode: "graceful" | "force" | "takeover" = "graceful"): Promise<void> {
    const deadline = performance.now() + 30_000;
    const words = mode === "graceful" ? [] : [mode.toUpperCase()];
    let again = 0;
    let refusal = "";
    for (;;) {
      if ((await replica.info("replication")).get("role") === "master") break;
      if (performance.now() >= deadline) {
        throw new KeylaneError("KEYLANE_ERR_SANDBOX", `${replica.address} did not become a primary${refusal}`, {
          node: replica.address,
        });
      }
      if (performance.now() >= again) {
        // A failover that its primary did not take part in lapses silently after 5 s. One is refused while the replica loads
        // its data or has no link to its primary, both of which pass.
        const asked = await replica.command("CLUSTER", "FAILOVER", ...words).catch((error: Error) => error);
        refusal = asked instanceof Error ? `: ${asked.message}` : "";
        if (refusal === "") again = performance.now() + 6000;
      }
      await sleep(LOOK);
    }
    await this.waitHealthy({ timeoutMs: 30_000, coverage: false });
  }

  /** Opens the move of one slot, once it has rested from its last one; see `SlotMove`. */
  async beginMove(slot: number, from: SandboxNode, to: SandboxNode): Promise<SlotMove> {
    const move = this.#move(slot, from, to);
    await move.rest();
    await move.acquaint();
    await move.begin();
    return move;
  }

  /** Moves slots with all their keys, live: single slots and inclusive ranges. A slot that moved just now rests first. */
  async moveSlots(
    slots: Iterable<number | readonly [number, number]>,
    from: SandboxNode,
    to: SandboxNode,
  ): Promise<void> {
    await finishMoves(listSlots(slots).map((slot) => this.#move(slot, from, to)));
  }

  /** Starts one more node: a primary without slots, or a replica of `replicaOf`. */
  async addNode(options: { replicaOf?: SandboxNode } = {}): Promise<SandboxNode> {
    const [node] = await this.launch(1);
    const known = this.#live().filter((other) => other !== node);
    await meet([node!, ...known]);
    if (options.replicaOf !== undefined) await follow(node!, options.replicaOf);
    await this.waitHealthy();
    return node!;
  }

  /** Makes all other nodes forget a node, then ends it. Move its slots away first. */
  async removeNode(node: SandboxNode): Promise<void> {
    const others = this.#live().filter((other) => other !== node);
    await node.stop();
    await Promise.all(others.map((other) => other.command("CLUSTER", "FORGET", node.id)));
    this.nodes.splice(this.nodes.indexOf(node), 1);
  }

  /** Ends all nodes and removes all files. May be called again. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    await Promise.all(this.nodes.map((node) => node.kill()));
    release(this.#settings.folder);
  }

  /** The same as `stop`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** @internal Starts `count` more nodes, which know nothing of each other yet. */
  async launch(count: number): Promise<SandboxNode[]> {
    const first = Math.max(-1, ...this.nodes.map((node) => node.index)) + 1;
    const added = Array.from({ length: count }, (_, index) => new SandboxNode(this.#settings, first + index));
    this.nodes.push(...added);
    await Promise.all(added.map((node) => node.start()));
    await Promise.all(
      added.map(async (node) => {
        node.id = String(await node.command("CLUSTER", "MYID"));
      }),
    );
    return added;
  }

  /** @internal Turns the launched nodes into a cluster. */
  async form(primaries: number): Promise<void> {
    const { nodes } = this;
    await Promise.all(nodes.map((node, index) => node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)));
    await Promise.all(
      nodes.slice(0, primaries).map((node, index) => {
        const [from, to] = [index, index + 1].map((part) => Math.floor((part * SLOTS) / primaries)) as [number, number];
        return node.command("CLUSTER", "ADDSLOTS", ...listSlots([[from, to - 1]]));
      }),
    );
    await meet(nodes);
    await Promise.all(nodes.slice(primaries).map((node, index) => follow(node, nodes[index % primaries]!)));
    await this.waitHealthy();
    if (this.#nodeTimeoutMs === FORMING_TIMEOUT) return;
    await Promise.all(nodes.map((node) => node.command("CONFIG", "SET", "cluster-node-timeout", this.#nodeTimeoutMs)));
    for (const node of nodes) node.config = { ...node.config, "cluster-node-timeout": this.#nodeTimeoutMs };
  }

  #live(): SandboxNode[] {
    return this.nodes.filter((node) => node.running && !node.paused);
  }

  #move(slot: number, from: SandboxNode, to: SandboxNode): SlotMove {
    const others = (): SandboxNode[] => this.#live().filter((node) => node.role === "primary");
    return new SlotMove(slot, from, to, others, this.#settings.admin, this.#rest);
  }
}

/**
 * Starts a cluster and waits until it is whole: typically 2 to 4 s, since a primary serves nothing in its first 2 s.
 * Stop it with `stop()`; whatever happens to this process, nothing of it stays.
 * @throws KeylaneError `KEYLANE_ERR_SANDBOX` when no server binary is found or the cluster does not form.
 */
export async function startCluster(options: ClusterOptions = {}): Promise<SandboxCluster> {
  const { primaries = 3, replicas = 0, nodeTimeoutMs = FORMING_TIMEOUT } = options;
  if (!Number.isInteger(primaries) || primaries < 1 || !Number.isInteger(replicas) || replicas < 0) {
    throw new KeylaneError(
      "KEYLANE_ERR_ARGUMENT",
      `a cluster can't have ${primaries} primaries with ${replicas} replicas each`,
    );
  }
  const binary = await findServer();
  const folder = acquire();
  let cluster: SandboxCluster | undefined;
  try {
    const tls = options.tls ? await makeCertificates(folder, options.tls === true ? {} : options.tls) : undefined;
    const { announce } = options;
    const settings = {
      binary,
      folder,
      options,
      tls,
      admin: adminFor(options),
      cluster: clusterConfig(binary),
      announce,
    };
    cluster = new SandboxCluster(settings, nodeTimeoutMs);
    await cluster.launch(primaries * (1 + replicas));
    await cluster.form(primaries);
    return cluster;
  } catch (error) {
    if (cluster === undefined) release(folder);
    await cluster?.stop();
    throw error;
  }
}

function clusterConfig(binary: ServerBinary): ServerConfig {
  return {
    "cluster-enabled": "yes",
    "cluster-config-file": "nodes.conf",
    "cluster-node-timeout": FORMING_TIMEOUT,
    // Replicas stay where a test put them, and a primary that gave its last slot away stays a primary.
    ...(atLeast(binary, 7) ? { "cluster-allow-replica-migration": "no" } : { "cluster-migration-barrier": 1000 }),
  };
}

/** Introduces every node to every other. */
async function meet(nodes: readonly SandboxNode[]): Promise<void> {
  const meetings = nodes.flatMap((node, index) =>
    nodes
      .slice(index + 1)
      .map((other) => node.command("CLUSTER", "MEET", other.host, other.port, other.port + BUS_OFFSET)),
  );
  await Promise.all(meetings);
}

/** Makes a node a replica, as soon as it knows its primary. */
async function follow(node: SandboxNode, primary: SandboxNode): Promise<void> {
  const deadline = performance.now() + 15_000;
  for (;;) {
    try {
      await node.command("CLUSTER", "REPLICATE", primary.id);
      return;
    } catch (error) {
      if (performance.now() >= deadline || !/Unknown node/i.test((error as Error).message)) throw error;
      await sleep(LOOK);
    }
  }
}
