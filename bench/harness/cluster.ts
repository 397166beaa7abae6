/**
 * Lends a cluster to a benchmark: a fresh one from the sandbox, ended afterwards whatever happens, or the one the user named.
 */
import { startCluster } from "keylane/sandbox";
import type { Settings } from "./suite.js";

/** Runs `use` with the `host:port` of the cluster's nodes. */
export async function withCluster<T>(settings: Settings, use: (nodes: readonly string[]) => Promise<T>): Promise<T> {
  if (settings.nodes.length > 0) return use(settings.nodes);
  settings.note("starting a cluster of 3 primaries");
  const cluster = await startCluster({ primaries: 3, replicas: 0 });
  try {
    return await use(cluster.seeds);
  } finally {
    await cluster.stop();
  }
}
