/**
 * Contestants side by side: one process each, all open before the first round, rounds interleaved, rows out. The invariant:
 * contestants of one heat play under the same bounds, and none is left running. No garbage collection is forced between
 * rounds: it would throw compiled code away, and the shorter rounds would then measure the compiler.
 */
import { summarize } from "../report/stats.js";
import type { Row } from "../report/types.js";
import { PeerProcess, type Program } from "./peer-process.js";
import { interleave } from "./rounds.js";
import type { Settings } from "./suite.js";

/** One contestant. */
export interface Entrant<Entry> {
  /** Stands for it in messages until it is open. */
  readonly name: string;
  /** What its program needs to open it. */
  readonly entry: Entry;
}

/** A condition that all contestants play under. */
export interface Heat<Round> {
  /** What the messages call it. */
  readonly name: string;
  readonly round: Round;
  /** Name and group of the row of contestant `i`, whose own name is `name`. */
  row(name: string, i: number): { readonly name: string; readonly group: string };
}

/**
 * Plays all heats, one after the other, with the same processes. Before the first, each contestant plays `warmup` once, which
 * is not counted: long enough for its code to be compiled as it would be in a service that runs for days.
 */
export async function contest<Entry, Round extends { readonly maxMs: number }>(
  settings: Settings,
  program: Program,
  entrants: readonly Entrant<Entry>[],
  heats: readonly Heat<Round>[],
  warmup: Round,
): Promise<Row[]> {
  const peers: PeerProcess<Entry, Round>[] = [];
  const rows: Row[] = [];
  try {
    for (const { name, entry } of entrants) peers.push(await PeerProcess.start(program, name, entry));
    for (const peer of peers) await peer.play(warmup);
    for (const heat of heats) {
      settings.note(`${heat.name}: ${settings.rounds} rounds of ${peers.length} contestants`);
      const samples = await interleave(peers.length, settings.rounds, (i) => peers[i].play(heat.round));
      for (const [i, peer] of peers.entries()) {
        const { name, group } = heat.row(peer.name, i);
        rows.push(summarize(name, group, peer.role, samples[i]));
      }
    }
  } finally {
    await Promise.all(peers.map((peer) => peer.stop()));
  }
  return rows;
}
