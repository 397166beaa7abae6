/** bentocache with its memory layer alone, values kept as objects (its fastest setting). */
import type { Profile } from "#dist/cli/demo/ads.js";
import { BentoCache, bentostore } from "bentocache";
import { memoryDriver } from "bentocache/drivers/memory";
import { awaitedPass, parsed } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";
import { LIFE_MS } from "./keylane-open.js";

export const contestant: CacheContestant = {
  name: "bentocache await get, memory",
  role: "peer",
  async open({ set }) {
    const store = bentostore().useL1Layer(memoryDriver({ maxItems: 2 * set.keys.length, serialize: false }));
    const bento = new BentoCache({ default: "memory", ttl: LIFE_MS, stores: { memory: store } });
    for (const [user, key] of set.keys.entries()) await bento.set({ key, value: parsed(set, user) });
    const pass = awaitedPass(set, (key) => bento.get<Profile>({ key }));
    return {
      play: (maxMs) => playPasses("bentocache", pass, set.keys.length, maxMs),
      close: () => bento.disconnectAll(),
    };
  },
};
