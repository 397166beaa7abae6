/** Plays a node-redis client whose cache the server keeps coherent (RESP3). It gives the text; parsing would come on top. */
import { textPass } from "../../harness/cache-keys.js";
import type { ProfileSet } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { OpenCache } from "./contestant.js";

/** Options of the client: nothing leaves the cache by itself. */
export const CLIENT_SIDE_CACHE = {
  RESP: 3,
  clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: "LRU" },
} as const;

/** What is needed of a client, of one server or of a cluster. */
interface Client {
  on(event: "error", heard: (error: unknown) => void): unknown;
  connect(): Promise<unknown>;
  get(key: string): Promise<string | null>;
  close(): Promise<unknown>;
}

/** Connects and fills the cache by a first pass. */
export async function clientSideCached(client: Client, set: ProfileSet): Promise<OpenCache> {
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
}
