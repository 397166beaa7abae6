/**
 * Valkey GLIDE, cluster client. Its core runs on a native thread of this process, so its CPU time is counted. The limit on
 * requests in flight (1,000 by default) and the request timeout are raised, or 1,024 in flight would be refused.
 */
import { GlideClusterClient } from "@valkey/valkey-glide";
import { parseNode } from "../harness/nodes.js";
import type { Baseline } from "./baseline.js";

export const baseline: Baseline = {
  name: "GLIDE cluster",
  role: "peer",
  kind: "single",
  async open({ nodes }) {
    const client = await GlideClusterClient.createClient({
      addresses: nodes.map(parseNode),
      inflightRequestsLimit: 8192,
      requestTimeout: 10_000,
    });
    return {
      get: (key) => client.get(key) as Promise<string | null>,
      close: async () => client.close(),
    };
  },
};
