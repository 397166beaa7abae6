/** ioredis Clusters as people set them up: autopipelining on, one client a cluster. */
import { once } from "node:events";
import { Cluster } from "ioredis";
import { overClients } from "#dist/cli/demo/over-ioredis.js";
import { parseNode } from "../../harness/nodes.js";
import type { OpenPhase } from "./phase.js";

/** Clients for profiles, frequency and billing; the same nodes three times share one client. */
export async function openClients(nodes: readonly (readonly string[])[]): Promise<OpenPhase> {
  const made = new Map<readonly string[], Cluster>();
  for (const seeds of nodes) {
    if (!made.has(seeds)) made.set(seeds, new Cluster(seeds.map(parseNode), { enableAutoPipelining: true }));
  }
  const clients = [...made.values()];
  await Promise.all(clients.map((client) => once(client, "ready")));
  const [user_profile, freq_control, realtime_billing] = nodes.map((seeds) => made.get(seeds)!);
  return {
    lanes: overClients({ user_profile, freq_control, realtime_billing }),
    async close() {
      await Promise.all(clients.map((client) => client.quit()));
    },
  };
}
