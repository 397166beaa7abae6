/** lmdb: a memory-mapped store that threads and processes share, with msgpack objects as it has them by default. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Profile } from "#dist/cli/demo/ads.js";
import { open } from "lmdb";
import { parsed, profilePass } from "../../harness/cache-keys.js";
import { playPasses } from "../../harness/passes.js";
import type { CacheContestant } from "./contestant.js";

export const contestant: CacheContestant = {
  name: "lmdb get",
  role: "peer",
  async open({ set }) {
    const folder = mkdtempSync(join(tmpdir(), "keylane-bench-lmdb-"));
    const store = open<Profile, string>({ path: join(folder, "profiles") });
    await Promise.all(set.keys.map((key, user) => store.put(key, parsed(set, user))));
    const pass = profilePass(set, (key) => store.get(key));
    return {
      play: (maxMs) => playPasses("lmdb", pass, set.keys.length, maxMs),
      async close() {
        await store.close();
        rmSync(folder, { recursive: true });
      },
    };
  },
};
