/** ioredis Cluster with autopipelining: the commands of one turn of the event loop go out as a pipeline per node. */
import { openCluster } from "./ioredis-open.js";
import type { Baseline } from "./baseline.js";

export const baseline: Baseline = {
  name: "ioredis Cluster, autopipelining",
  role: "peer",
  kind: "single",
  open: (target) => openCluster(target, true),
};
