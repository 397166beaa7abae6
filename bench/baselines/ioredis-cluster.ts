/** ioredis Cluster with its defaults: one write a command. */
import { openCluster } from "./ioredis-open.js";
import type { Baseline } from "./baseline.js";

export const baseline: Baseline = {
  name: "ioredis Cluster",
  role: "peer",
  kind: "single",
  open: (target) => openCluster(target, false),
};
