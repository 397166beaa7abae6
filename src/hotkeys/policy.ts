/** When keys are hot and what may be done then; resolved from the options at open. Rates in operations a second. */
import type { GivenSource } from "../options/hot-key-source.js";

/** A domain's own. */
export interface HotRules {
  readonly warn: number;
  /** Above `warn`. */
  readonly critical: number;
  /** What one node is good for. */
  readonly nodeLimit: number;
  /** Whether keys at `critical` may be copied to other nodes. */
  readonly replicas: boolean;
}

export interface HotKeysPolicy {
  /** By domain; null for domains whose keys are left alone. */
  readonly rules: readonly (HotRules | null)[];
  /** Prefixes of keys that are acted on; empty for all. `deny` wins. */
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** Most keys that `top` gives. */
  readonly topK: number;
  /** Where processes tell each other; null when they do not. */
  readonly source: GivenSource | null;
}
