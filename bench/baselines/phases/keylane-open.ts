/** keylane over the three clusters, the profiles cached or not. */
import type { AdLanes, OpenLanes } from "#dist/cli/demo/ads.js";
import { Keylane } from "keylane";
import type { Clusters, OpenPhase, Phase } from "./phase.js";

/** A deadline that a busy machine does not break. */
const COMMAND_TIMEOUT_MS = 10_000;

async function openLanes({ three }: Clusters, profiles: object): Promise<OpenPhase> {
  const [user_profile, freq_control, realtime_billing] = three;
  const lanes = await Keylane.open({
    domains: {
      user_profile: { prefixes: ["up:"], nodes: user_profile, codec: "json", ...profiles },
      freq_control: { prefixes: ["fc:"], nodes: freq_control },
      realtime_billing: { prefixes: ["rb:"], nodes: realtime_billing },
    },
    commandTimeoutMs: COMMAND_TIMEOUT_MS,
    connectTimeoutMs: COMMAND_TIMEOUT_MS,
  });
  return {
    lanes: lanes as unknown as OpenLanes satisfies AdLanes,
    close: async () => {
      await lanes.close();
    },
  };
}

/** The phase with so much of `DomainOptions` for the profiles. */
export function keylanePhase(name: string, profiles: object): Phase {
  return {
    name,
    role: "keylane",
    servers: ({ three }) => ({ all: three.flat(), profiles: three[0] }),
    open: (clusters) => openLanes(clusters, profiles),
  };
}
