/** Where caps live: what the facade gives them. */
import type { Domain } from "../cache/domain.js";
import type { SharedRegion } from "../shared/region.js";

/** Options of caps, resolved. */
export interface CapsPolicy {
  /** Index of the domain; -1 when there is none. */
  readonly domain: number;
  /** What the keys of users begin with. */
  readonly prefix: string;
  readonly onError: "allow" | "deny" | "throw";
  readonly strict: boolean;
  readonly reservationMs: number;
  /** How long a denial is kept that a refund in another process may end unheard. */
  readonly denialMs: number;
  /** The options name caps: denials get a region of shared memory, if need be one of their own. */
  readonly shared: boolean;
}

export interface CapsHome {
  readonly options: CapsPolicy;
  readonly domain: Domain | null;
  readonly region: SharedRegion | null;
  /** @throws KeylaneError `KEYLANE_ERR_ROUTE`, `KEYLANE_ERR_ARGUMENT` */
  domainOf(key: string): Domain;
  /** The prefix that routes a key; null when the fallback does. */
  prefixOf(key: string): string | null;
  degraded(domain: string, reason: string): void;
}
