/** node-redis with its client-side cache (RESP3, server-assisted invalidation). It gives the text; parsing would come on top. */
import { createClient } from "redis";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";

export const contestant: CacheContestant = {
  name: "node-redis await get, client-side cache",
  role: "peer",
  async open({ server, set: { keys, texts } }) {
    const client = createClient({
      url: `redis://${server}`,
      RESP: 3,
      clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: "LRU" },
    });
    client.on("error", (error: unknown) => {
      throw error;
    });
    await client.connect();
    const pass = async (): Promise<number> => {
      let wrong = 0;
      for (let i = 0; i < keys.length; i += 1) if ((await client.get(keys[i])) !== texts[i]) wrong += 1;
      return wrong;
    };
    if ((await pass()) !== 0) throw new Error("node-redis: values are wrong");
    return {
      play: (maxMs) => playPasses("node-redis", pass, keys.length, maxMs),
      async close() {
        await client.close();
      },
    };
  },
};
