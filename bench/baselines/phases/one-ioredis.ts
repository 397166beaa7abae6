/** Everything in one cluster, through ioredis. */
import { openClients } from "./ioredis-open.js";
import type { Phase } from "./phase.js";

export const phase: Phase = {
  name: "one cluster, ioredis",
  role: "peer",
  servers: ({ one }) => ({ all: one, profiles: one }),
  open: ({ one }) => openClients([one, one, one]),
};
