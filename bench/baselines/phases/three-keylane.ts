/** A cluster a domain, through keylane. */
import { keylanePhase } from "./keylane-open.js";

export const phase = keylanePhase("three clusters, keylane", {});
