/** node-redis with its client-side cache (RESP3, server-assisted invalidation). It gives the text; parsing would come on top. */
import { createClient } from "redis";
import { textPass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";

export const contestant: CacheContestant = {
  name: "node-redis await get, client-side cache",
  role: "peer",
  async open({ server, set }) {
    const client = createClient({
      url: `redis://${server}`,
      RESP: 3,
      clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: "LRU" },
    });
    client.on("error", (error: unknown) => {
      throw error;
    });
    await client.connect();
    const pass = textPass(set, (key) => client.get(key));
    if ((await pass()) !== 0) throw new Error("node-redis: values are wrong");
    return {
      play: (maxMs) => playPasses("node-redis", pass, set.keys.length, maxMs),
      async close() {
        await client.close();
      },
    };
  },
};
