/**
 * The catalogue of faults. Each is carried out on one shard, lasts a little and is taken back; the next begins when the
 * cluster is whole again. What a fault does to acknowledged writes is said beforehand (`mayLose`), so that a history can tell
 * a server's losses from a client's.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { SandboxNode } from "keylane/sandbox";
import type { Relay } from "../relay.js";
import { until } from "../until.js";
import type { Random } from "./random.js";
import type { RelayedCluster } from "./relayed.js";

/** What a fault works with. */
export interface Stage {
  readonly rig: RelayedCluster;
  readonly random: Random;
  /** The shard: its primary when the fault begins, and a replica of it. */
  readonly primary: SandboxNode;
  readonly replica: SandboxNode;
  /** A primary of another shard. */
  readonly other: SandboxNode;
  /** A slot of the shard that carries load. */
  readonly slot: number;
  /** The server may lose what it acknowledges from `beforeMs` ago until `afterMs` from now. */
  mayLose(beforeMs: number, afterMs: number): void;
  /** Clients can be served again from here on, as far as the rig is concerned. Without it: from the fault's beginning on. */
  served(): void;
  /** A replica became the primary. */
  promoted(): void;
}

export interface Fault {
  readonly name: string;
  /** True when no operation at all may fail, not even of the shard concerned. */
  readonly harmless: boolean;
  run(stage: Stage): Promise<void>;
}

const PROMOTION = { timeoutMs: 20_000, everyMs: 25, what: "the replica's promotion" };
/** So long a client may take to notice that a connection is dead (ms). */
const NOTICE_MS = 10_000;
/** Acknowledged this long before a primary dies (ms), a write may not have left for its replica. */
const REPLICATION_MS = 250;

async function isPrimary(node: SandboxNode): Promise<boolean> {
  return (await node.info("replication")).get("role") === "master";
}

/** Waits for a client's new connection. One that does not notice gets its old ones reset after a while. */
async function reconnected(relay: Relay, before: number): Promise<void> {
  await until(() => relay.accepted > before, { timeoutMs: NOTICE_MS }).catch(() => relay.cut());
}

async function whole({ rig }: Stage): Promise<void> {
  await rig.cluster.waitHealthy({ timeoutMs: 30_000 });
}

export const FAULTS: readonly Fault[] = [
  {
    name: "kill a primary, restart it as a replica",
    harmless: false,
    async run(stage) {
      const { primary, replica } = stage;
      stage.mayLose(REPLICATION_MS, 100);
      await primary.kill();
      await until(() => isPrimary(replica), PROMOTION);
      stage.promoted();
      await primary.start();
      await whole(stage);
    },
  },
  {
    name: "kill a replica, restart it",
    harmless: true,
    async run(stage) {
      const { replica, random } = stage;
      await replica.kill();
      await sleep(random.between(100, 1500));
      await replica.start();
      await whole(stage);
    },
  },
  {
    name: "fail over gracefully",
    harmless: true,
    async run({ rig, replica }) {
      await rig.cluster.failover(replica);
    },
  },
  {
    name: "fail over by force",
    harmless: false,
    async run(stage) {
      // The old primary goes on serving until it hears of its replacement.
      stage.mayLose(REPLICATION_MS, 2000);
      await stage.rig.cluster.failover(stage.replica, "force");
    },
  },
  {
    name: "pause a primary until it is replaced",
    harmless: false,
    async run(stage) {
      const { primary, replica, random } = stage;
      stage.mayLose(REPLICATION_MS, 100);
      primary.pause();
      await until(() => isPrimary(replica), PROMOTION);
      stage.promoted();
      await sleep(random.between(0, 1500));
      // It serves what it finds in its sockets before it hears of its replacement.
      stage.mayLose(0, 1000);
      primary.resume();
      await whole(stage);
    },
  },
  {
    name: "pause a primary for a moment",
    harmless: true,
    async run(stage) {
      stage.primary.pause();
      await sleep(stage.random.between(100, 400));
      stage.primary.resume();
      await whole(stage);
    },
  },
  {
    name: "pause a replica",
    harmless: true,
    async run(stage) {
      stage.replica.pause();
      await sleep(stage.random.between(200, 2500));
      stage.replica.resume();
      await whole(stage);
    },
  },
  {
    name: "cut the connections to a primary",
    harmless: false,
    async run({ rig, primary, random }) {
      const relay = rig.relay(primary);
      const { accepted } = relay;
      relay.cut(random.pick(["reset", "close"] as const));
      await reconnected(relay, accepted);
    },
  },
  {
    name: "cut the connections to a primary in the middle of a reply",
    harmless: false,
    async run({ rig, primary, random }) {
      const relay = rig.relay(primary);
      const { accepted } = relay;
      relay.down.cutAfter(random.between(1, 2000));
      await reconnected(relay, accepted);
    },
  },
  {
    name: "half-open connections to a primary",
    harmless: false,
    async run({ rig, primary }) {
      const relay = rig.relay(primary);
      const { accepted } = relay;
      relay.halfOpen();
      await reconnected(relay, accepted);
    },
  },
  {
    name: "partition between client and primary",
    harmless: false,
    async run(stage) {
      const relay = stage.rig.relay(stage.primary);
      relay.up.stall = true;
      relay.down.stall = true;
      await sleep(stage.random.between(200, 3000));
      relay.heal();
      stage.served();
    },
  },
  {
    name: "move a slot there and back",
    harmless: true,
    async run({ rig, primary, other, slot }) {
      await rig.cluster.moveSlots([slot], primary, other);
      await rig.cluster.moveSlots([slot], other, primary);
      await rig.cluster.waitHealthy();
    },
  },
  {
    name: "leave a slot half moved for a while",
    harmless: true,
    async run({ rig, primary, other, slot, random }) {
      const move = await rig.cluster.beginMove(slot, primary, other);
      await sleep(random.between(50, 500));
      await move.finish();
      await rig.cluster.moveSlots([slot], other, primary);
      await rig.cluster.waitHealthy();
    },
  },
];
