/** Which domains take part in hot keys. */
import type { HotShare } from "../shared/hot-share.js";
import type { HotKeysPolicy } from "./policy.js";

/** A thread's share, by domain; null for domains that are left alone. */
export function sharesOf(
  policy: HotKeysPolicy | null,
  share: HotShare | null,
  domains: number,
): readonly (HotShare | null)[] {
  return Array.from({ length: domains }, (_, domain) => ((policy?.rules[domain] ?? null) === null ? null : share));
}
