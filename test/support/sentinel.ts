/** A primary, replicas of it, and real Sentinels that watch over them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { acquire, release, spawnGuarded } from "#dist/sandbox/guard.js";
import { takePort } from "#dist/sandbox/ports.js";
import { type RespClient, type SandboxServer, startSingle } from "keylane/sandbox";
import { connectRaw } from "./raw.js";
import { until } from "./until.js";

const HOST = "127.0.0.1";

/** How the Sentinels call the primary. */
export const MONITORED = "main";

export class SentinelRig {
  readonly servers: readonly SandboxServer[];
  /** `host:port` of the Sentinels. */
  readonly sentinels: string[] = [];
  readonly #processes: ReturnType<typeof spawnGuarded>[] = [];
  readonly #folder = acquire();

  private constructor(servers: readonly SandboxServer[]) {
    this.servers = servers;
  }

  /** Starts a primary with `replicas` replicas and `sentinels` Sentinels; resolves when they know each other. */
  static async start({ replicas = 1, sentinels = 3 } = {}): Promise<SentinelRig> {
    const servers = await Promise.all(Array.from({ length: replicas + 1 }, () => startSingle()));
    const rig = new SentinelRig(servers);
    const [primary, ...others] = servers as [SandboxServer, ...SandboxServer[]];
    await Promise.all(others.map(({ node }) => node.command("REPLICAOF", HOST, primary.node.port)));
    for (const { node } of others) {
      await until(async () => (await node.info("replication")).get("master_link_status") === "up");
    }
    for (let at = 0; at < sentinels; at += 1) await rig.#launch(primary, Math.floor(sentinels / 2) + 1);
    for (const address of rig.sentinels) {
      await until(async () => {
        const told = await rig.ask(address, "SENTINEL", "MASTER", MONITORED);
        return told.get("num-slaves") === String(replicas) && told.get("num-other-sentinels") === String(sentinels - 1);
      });
    }
    return rig;
  }

  /** The server that a Sentinel names as the primary. */
  async primary(): Promise<SandboxServer> {
    const client = await connectRaw(this.sentinels[0]!);
    const [host, port] = (await client.text("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MONITORED)) as [string, string];
    client.close();
    return this.servers.find(({ address }) => address === `${host}:${port}`)!;
  }

  /** A command of pairs to one Sentinel. */
  async ask(address: string, ...command: string[]): Promise<Map<string, string>> {
    const client: RespClient = await connectRaw(address);
    const flat = (await client.text(...command)) as string[];
    client.close();
    return new Map(Array.from({ length: flat.length / 2 }, (_, at) => [flat[at * 2]!, flat[at * 2 + 1]!]));
  }

  async stop(): Promise<void> {
    const ended = this.#processes.map((child) => new Promise((resolve) => child.once("exit", resolve)));
    for (const child of this.#processes) {
      child.ref();
      child.kill("SIGKILL");
    }
    await Promise.all(ended);
    await Promise.all(this.servers.map((server) => server.stop()));
    release(this.#folder);
  }

  async #launch(primary: SandboxServer, quorum: number): Promise<void> {
    const port = await takePort(HOST);
    const file = join(this.#folder, `sentinel-${port}.conf`);
    const lines = [
      `bind ${HOST}`,
      `port ${port}`,
      `dir "${this.#folder}"`,
      `sentinel monitor ${MONITORED} ${HOST} ${primary.node.port} ${quorum}`,
      `sentinel down-after-milliseconds ${MONITORED} 500`,
      `sentinel failover-timeout ${MONITORED} 3000`,
    ];
    writeFileSync(file, `${lines.join("\n")}\n`);
    this.#processes.push(spawnGuarded(primary.binary.path, [file, "--sentinel"], this.#folder, `:${port}`));
    this.sentinels.push(`${HOST}:${port}`);
    await until(() => connectRaw(`${HOST}:${port}`).then((client) => (client.close(), true)));
  }
}
