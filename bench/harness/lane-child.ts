/** The process of one contestant of the lane suite: a client, its keys, and the loop that suits it. */
import { type BaselineId, loadBaseline } from "../baselines/baseline.js";
import { type KeySpec, makeKeys } from "./keys.js";
import { type Batches, type RoundSpec, runBatches, runLoop } from "./loop.js";
import { type Contestant, serve } from "./serve.js";

/** Which client, which cluster, which keys. */
export interface LaneEntry {
  readonly id: BaselineId;
  readonly nodes: readonly string[];
  readonly keys: KeySpec;
}

serve(async ({ id, nodes, keys }: LaneEntry): Promise<Contestant<RoundSpec>> => {
  const baseline = await loadBaseline(id);
  const { name, role } = baseline;
  const set = makeKeys(keys);
  const target = { nodes, prefixes: keys.prefixes, set };
  if (baseline.kind === "single") {
    const peer = await baseline.open(target);
    const cursor = { at: 0 };
    return { name, role, play: (round) => runLoop(peer.get, set, cursor, round), close: () => peer.close() };
  }
  const peer = await baseline.open(target);
  const prepared = new Map<number, Batches>();
  return {
    name,
    role,
    play(round) {
      const batches = prepared.get(round.inFlight) ?? peer.prepare(round.inFlight);
      prepared.set(round.inFlight, batches);
      return runBatches(batches, round);
    },
    close: () => peer.close(),
  };
});
