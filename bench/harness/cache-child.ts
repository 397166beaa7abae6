/** The process of one contestant of the cache suite. */
import { type CacheId, loadContestant } from "../baselines/cache/contestant.js";
import { profiles } from "./cache-keys.js";
import { type Contestant, serve } from "./serve.js";

/** Which contestant, and what it is filled from. */
export interface CacheEntry {
  readonly id: CacheId;
  readonly server: string;
  readonly cluster: readonly string[];
  readonly count: number;
  readonly small: number;
}

/** A round lasts so many milliseconds. */
export interface CacheRound {
  readonly maxMs: number;
}

serve(async ({ id, server, cluster, count, small }: CacheEntry): Promise<Contestant<CacheRound>> => {
  const { name, role, open } = await loadContestant(id);
  const cache = await open({ server, cluster, set: profiles(count), small });
  return { name, role, play: ({ maxMs }) => cache.play(maxMs), close: () => cache.close() };
});
