/**
 * The phases of a demo: the same traffic, played once for each, over the same three clusters: through ioredis as people set it
 * up, through keylane, and through keylane with its shared cache in front of the profiles.
 */
import type { OpenOptions } from "../../options.js";
import type { SandboxTriple } from "../../sandbox/index.js";
import type { AdLanes, OpenLanes } from "./ads.js";
import { overClients } from "./over-ioredis.js";

/** How the three prefixes are laid over the sandbox's clusters. */
export type Layout = (triple: SandboxTriple) => OpenOptions;

/** One line of the closing table. */
export interface Phase {
  readonly name: string;
  readonly layout: Layout;
  /** Whether it needs the shared cache. */
  readonly cached: boolean;
  /** What the traffic goes through. */
  through(lanes: OpenLanes): AdLanes;
}

/** A deadline that a busy machine with nine servers on it does not break. */
const COMMAND_TIMEOUT_MS = 10_000;
/** Profiles change seldom; an old one is looked after in the background. */
export const PROFILE_CACHE = { mode: "all", ttlMs: 60_000, refreshAfterMs: 30_000 } as const;

const threeDomains =
  (profiles: object): Layout =>
  ({ domains }) => ({
    domains: { ...domains, user_profile: { ...domains.user_profile, codec: "json", ...profiles } },
    commandTimeoutMs: COMMAND_TIMEOUT_MS,
    connectTimeoutMs: COMMAND_TIMEOUT_MS,
  });

const itself = (lanes: OpenLanes): AdLanes => lanes;

/** What `keylane demo` plays. */
export const PHASES: readonly Phase[] = [
  {
    name: "three clusters, ioredis",
    layout: threeDomains({}),
    cached: false,
    through: (lanes) =>
      overClients({
        user_profile: lanes.redis("user_profile"),
        freq_control: lanes.redis("freq_control"),
        realtime_billing: lanes.redis("realtime_billing"),
      }),
  },
  { name: "three clusters, keylane", layout: threeDomains({}), cached: false, through: itself },
  {
    name: "three clusters, keylane + L1",
    layout: threeDomains({ cache: PROFILE_CACHE }),
    cached: true,
    through: itself,
  },
];
