/** The phases of a demo: the same traffic, played once for each, over one layout of clusters after another. */
import type { Keylane } from "../../keylane.js";
import type { OpenOptions } from "../../options.js";
import type { SandboxTriple } from "../../sandbox/index.js";
import type { ValueType } from "../../types.js";
import type { Profile } from "./ads.js";

/** How the three prefixes are laid over the sandbox's clusters. */
export type Layout = (triple: SandboxTriple) => OpenOptions;

/** One line of the closing table. */
export interface Phase {
  readonly name: string;
  readonly layout: Layout;
}

/** Every layout serves these prefixes with these values, under whatever domain names. */
export type AdLanes = Keylane<{
  profile: { prefixes: ["up:"]; codec: "json"; value: ValueType<Profile> };
  counters: { prefixes: ["fc:", "rb:"] };
}>;

/** A deadline that a busy machine with nine servers on it does not break. */
const COMMAND_TIMEOUT_MS = 10_000;

const threeDomains: Layout = ({ domains }) => ({
  domains: { ...domains, user_profile: { ...domains.user_profile, codec: "json" } },
  commandTimeoutMs: COMMAND_TIMEOUT_MS,
  connectTimeoutMs: COMMAND_TIMEOUT_MS,
});

/** What `keylane demo` plays. */
export const PHASES: readonly Phase[] = [{ name: "three domain clusters", layout: threeDomains }];
