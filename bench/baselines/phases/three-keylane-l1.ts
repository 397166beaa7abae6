/** A cluster a domain, through keylane, profiles in the shared cache. */
import { PROFILE_CACHE } from "#dist/cli/demo/phases.js";
import { keylanePhase } from "./keylane-open.js";

export const phase = keylanePhase("three clusters, keylane + L1", { cache: PROFILE_CACHE });
