/** keylane through its public API: one domain, no cache, lanes on the calling thread. */
import { Keylane } from "keylane";
import type { Baseline } from "./baseline.js";

export const baseline: Baseline = {
  name: "keylane",
  role: "keylane",
  kind: "single",
  async open({ nodes, prefixes }) {
    const lanes = await Keylane.open({
      domains: { profiles: { prefixes: [...prefixes], nodes: [...nodes], codec: "utf8" } },
    });
    return {
      get: (key) => lanes.get(key) as Promise<string | null>,
      close: async () => {
        await lanes.close();
      },
    };
  },
};
