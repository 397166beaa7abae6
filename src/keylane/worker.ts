/** What a thread of the pool runs: lanes of its own, with the shared cache beside them where the options want one. */
import { CacheStore } from "../cache/store.js";
import { sharesOf } from "../hotkeys/shares.js";
import { resolveOptions } from "../options.js";
import { work } from "../pool/worker.js";
import type { WorkerJob } from "../pool/worker.js";
import { HotShare } from "../shared/hot-share.js";

/** The piscina task. */
export default async function run(job: WorkerJob): Promise<void> {
  const resolved = resolveOptions(job.options);
  const share = job.hot === null ? null : HotShare.join(job.hot);
  const shares = sharesOf(resolved.hotKeys, share, resolved.lanes.length);
  const counts = shares.map((one) => one?.counts ?? null);
  try {
    await work(job, resolved.lanes, counts, (crew) => {
      const store = CacheStore.open(resolved, crew.lanes, job.region, shares, crew);
      if (store === null) return null;
      const errands = store.caches.map((cache) => cache?.errands() ?? null);
      return {
        load: (domain, key) => errands[domain]?.loadFor(key) ?? null,
        fetch: (domain, key, timeoutMs, asker, id) => {
          const own = errands[domain] ?? null;
          own?.run(key, timeoutMs, asker, id);
          return own !== null;
        },
        opened: () => store.opened(),
        end: () => store.end(),
      };
    });
  } finally {
    share?.end();
  }
}
