/**
 * The process of one contestant: opens it, plays rounds when told to, closes it. One message in, one message out; it ends
 * when its parent does.
 */
import { type BatchPeer, type BaselineId, loadBaseline, type SinglePeer } from "../baselines/baseline.js";
import type { Role, Sample } from "../report/types.js";
import { makeKeys, type KeySpec } from "./keys.js";
import { type Batches, type RoundSpec, runBatches, runLoop } from "./loop.js";

/** What the parent asks. */
export type Request =
  | { readonly do: "open"; readonly id: BaselineId; readonly nodes: readonly string[]; readonly keys: KeySpec }
  | { readonly do: "round"; readonly round: RoundSpec }
  | { readonly do: "close" };

/** What this process answers, once per request. */
export type Answer =
  | { readonly did: "open"; readonly name: string; readonly role: Role }
  | { readonly did: "round"; readonly sample: Sample }
  | { readonly did: "close" }
  | { readonly did: "fail"; readonly reason: string };

interface Contestant {
  play(round: RoundSpec): Promise<Sample>;
  close(): Promise<void>;
}

function single(peer: SinglePeer, set: ReturnType<typeof makeKeys>): Contestant {
  const cursor = { at: 0 };
  return { play: (round) => runLoop(peer.get, set, cursor, round), close: () => peer.close() };
}

function batched(peer: BatchPeer): Contestant {
  const prepared = new Map<number, Batches>();
  return {
    play(round) {
      const batches = prepared.get(round.inFlight) ?? peer.prepare(round.inFlight);
      prepared.set(round.inFlight, batches);
      return runBatches(batches, round);
    },
    close: () => peer.close(),
  };
}

let contestant: Contestant | undefined;

async function handle(request: Request): Promise<Answer> {
  if (request.do === "open") {
    const baseline = await loadBaseline(request.id);
    const set = makeKeys(request.keys);
    const target = { nodes: request.nodes, prefixes: request.keys.prefixes, set };
    contestant =
      baseline.kind === "single" ? single(await baseline.open(target), set) : batched(await baseline.open(target));
    return { did: "open", name: baseline.name, role: baseline.role };
  }
  if (contestant === undefined) throw new Error("nothing is open");
  if (request.do === "round") return { did: "round", sample: await contestant.play(request.round) };
  await contestant.close();
  return { did: "close" };
}

function answer(what: Answer): void {
  process.send?.(what);
}

function fail(error: unknown): void {
  answer({ did: "fail", reason: error instanceof Error ? (error.stack ?? error.message) : String(error) });
}

process.on("message", (request: Request) => {
  handle(request).then(answer, fail);
});
process.on("uncaughtException", fail);
process.once("disconnect", () => process.exit());
