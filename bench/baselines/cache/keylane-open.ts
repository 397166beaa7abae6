/** Opens keylane over the suite's server, its shared cache filled with all profiles. */
import type { Profile } from "#dist/cli/demo/ads.js";
import { Keylane, type OpenOptions, valueOf } from "keylane";
import type { CacheTarget } from "./contestant.js";

/** Longer than any run, so that nothing expires in a round. */
export const LIFE_MS = 3_600_000;

/** The domain of the suite; `codec: "json"` for profiles. */
export function optionsFor(server: string) {
  return {
    domains: {
      profiles: {
        prefixes: ["up:"],
        nodes: [server],
        mode: "single",
        codec: "json",
        value: valueOf<Profile>(),
        cache: { mode: "all", ttlMs: LIFE_MS },
      },
    },
    commandTimeoutMs: 10_000,
    connectTimeoutMs: 10_000,
  } as const satisfies OpenOptions;
}

/** Lanes whose cache holds all profiles. */
export async function openWarm({ server, set }: CacheTarget) {
  const lanes = await Keylane.open(optionsFor(server));
  const warm = await lanes.warm(set.keys);
  if (warm !== set.keys.length) throw new Error(`${warm} of ${set.keys.length} keys are in the cache`);
  return lanes;
}
