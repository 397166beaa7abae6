/** A cluster a domain, through ioredis. */
import { openClients } from "./ioredis-open.js";
import type { Phase } from "./phase.js";

export const phase: Phase = {
  name: "three clusters, ioredis",
  role: "peer",
  servers: ({ three }) => ({ all: three.flat(), profiles: three[0] }),
  open: ({ three }) => openClients(three),
};
