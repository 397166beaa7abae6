/** What a process holds: what it must not gather while it opens, closes, loses and reconnects. */
import { readdirSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Memory in bytes, the rest in pieces. */
export interface Footprint {
  readonly rss: number;
  /** Of this thread's heap, and outside of it but held by it. */
  readonly heap: number;
  readonly descriptors: number;
  /** Timers, sockets, ports and requests that the event loop knows of. */
  readonly resources: number;
  /** Listeners of the process's events. */
  readonly listeners: number;
}

/** Looks after a full collection of this thread's garbage. */
export function footprint(): Footprint {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  const { rss, heapUsed, external } = process.memoryUsage();
  return {
    rss,
    heap: heapUsed + external,
    descriptors: readdirSync("/proc/self/fd").length,
    resources: process.getActiveResourcesInfo().length,
    listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
  };
}
