/** The process of one contestant of the route suite. */
import { playPasses } from "./passes.js";
import { ROUTE_CONTESTANTS } from "./route-contestants.js";
import { KEYS } from "./route-keys.js";
import { type Contestant, serve } from "./serve.js";

/** A round: passes over the keys until this many milliseconds are over. */
export interface RouteRound {
  readonly maxMs: number;
}

serve(async (name: string): Promise<Contestant<RouteRound>> => {
  const entry = ROUTE_CONTESTANTS.find((contestant) => contestant.name === name);
  if (entry === undefined) throw new Error(`no contestant is called ${name}`);
  const pass = entry.prepare();
  return {
    name,
    role: entry.role,
    play: ({ maxMs }) => playPasses(name, pass, KEYS, maxMs),
    close: () => Promise.resolve(),
  };
});
