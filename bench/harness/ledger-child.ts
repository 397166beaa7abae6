/**
 * The process of one contestant of the ledger suite: keylane's ledger in one of its modes, or INCRBY on an ioredis Cluster, which
 * neither survives the process nor knows what it has counted. After each round every account is read back and compared.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Cluster } from "ioredis";
import { Keylane } from "keylane";
import type { LedgerOptions } from "keylane";
import { type RoundSpec, runLoop } from "./loop.js";
import { parseNode } from "./nodes.js";
import { type Contestant, serve } from "./serve.js";

export const LEDGER_IDS = ["durable", "fast", "incrby", "incrby-autopipelining"] as const;
export type LedgerId = (typeof LEDGER_IDS)[number];

/** Which client, which cluster, how many accounts. */
export interface LedgerEntry {
  readonly id: LedgerId;
  readonly nodes: readonly string[];
  readonly accounts: number;
}

interface Client {
  readonly name: string;
  add(account: string, amount: number): Promise<unknown>;
  /** Resolves when all that was added is at the servers. */
  settled(): Promise<void>;
  balance(account: string): Promise<number>;
  close(): Promise<void>;
}

async function openKeylane(nodes: readonly string[], ledger: LedgerOptions): Promise<Client> {
  const lanes = await Keylane.open({
    domains: { realtime_billing: { prefixes: ["rb:"], nodes } },
    ledger,
    commandTimeoutMs: 10_000,
  });
  const run = process.hrtime.bigint().toString(36);
  let next = 0;
  return {
    name: `keylane, ${ledger.mode}`,
    add: (account, amount) => lanes.ledger.add(account, BigInt(amount), { id: `${run}:${next++}` }),
    settled: () => lanes.ledger.flush(),
    balance: async (account) => Number(await lanes.ledger.balance(account)),
    close: async () => {
      await lanes.close();
      if (ledger.directory !== undefined) rmSync(ledger.directory, { recursive: true, force: true });
    },
  };
}

async function openIoredis(nodes: readonly string[], enableAutoPipelining: boolean): Promise<Client> {
  const cluster = new Cluster(nodes.map(parseNode), { enableAutoPipelining });
  await once(cluster, "ready");
  return {
    name: `INCRBY, ioredis Cluster${enableAutoPipelining ? ", autopipelining" : ""}`,
    add: (account, amount) => cluster.incrby(account, amount),
    settled: () => Promise.resolve(),
    balance: async (account) => Number(await cluster.get(account)),
    close: async () => {
      await cluster.quit();
    },
  };
}

function open({ id, nodes }: LedgerEntry): Promise<Client> {
  if (id === "fast") return openKeylane(nodes, { mode: "fast" });
  if (id === "durable") {
    return openKeylane(nodes, { mode: "durable", directory: mkdtempSync(join(tmpdir(), "keylane-bench-ledger-")) });
  }
  return openIoredis(nodes, id === "incrby-autopipelining");
}

serve(async (entry: LedgerEntry): Promise<Contestant<RoundSpec>> => {
  const client = await open(entry);
  const keys = Array.from({ length: entry.accounts }, (_, i) => `${entry.id}:advertiser_${i}`);
  const values = keys.map(() => "added");
  const order = Uint32Array.from({ length: entry.accounts }, (_, i) => i);
  const sums = new Map(keys.map((key) => [key, 0]));
  const cursor = { at: 0 };
  let amount = 0;
  const add = async (account: string): Promise<string> => {
    amount = (amount % 1000) + 1;
    sums.set(account, sums.get(account)! + amount);
    await client.add(account, amount);
    return "added";
  };
  return {
    name: client.name,
    role: entry.id === "durable" || entry.id === "fast" ? "keylane" : "peer",
    async play(round) {
      const began = performance.now();
      const cpuBegan = process.cpuUsage();
      const sample = await runLoop(add, { keys, values, order }, cursor, round);
      const entries = (sample.opsPerSec * (performance.now() - began)) / 1000;
      await client.settled();
      const bookedMs = performance.now() - began;
      const { user, system } = process.cpuUsage(cpuBegan);
      for (const account of keys) {
        const balance = await client.balance(account);
        if (balance !== sums.get(account)) throw new Error(`${account}: ${balance} instead of ${sums.get(account)}`);
      }
      const booked = (entries / bookedMs) * 1000;
      return { ...sample, cpuMicrosPerOp: (user + system) / entries, more: { "booked entries/s": booked } };
    },
    close: () => client.close(),
  };
});
