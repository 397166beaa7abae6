/** What a thread of the pool runs: lanes of its own, with the shared cache beside them where the options want one. */
import { CacheStore } from "../cache/store.js";
import { resolveOptions } from "../options.js";
import { work } from "../pool/worker.js";
import type { WorkerJob } from "../pool/worker.js";

/** The piscina task. */
export default function run(job: WorkerJob): Promise<void> {
  const resolved = resolveOptions(job.options);
  return work(job, resolved.lanes, (crew) => {
    const store = CacheStore.open(resolved, crew.lanes, job.region, crew);
    if (store === null) return null;
    return {
      load: (domain, key) => store.caches[domain]?.loadFor(key) ?? null,
      opened: () => store.opened(),
      end: () => store.end(),
    };
  });
}
