/**
 * Contestants side by side: one process each, all connected before the first round, rounds interleaved, rows out. The
 * invariant: contestants of one group play under the same bounds, and none is left running.
 */
import type { BaselineId } from "../baselines/baseline.js";
import { summarize } from "../report/stats.js";
import type { Row } from "../report/types.js";
import type { KeySpec } from "./keys.js";
import type { RoundSpec } from "./loop.js";
import { PeerProcess } from "./peer-process.js";
import { interleave } from "./rounds.js";
import type { Settings } from "./suite.js";

/** One contestant: a baseline and the keys it reads. */
export interface Entrant {
  readonly id: BaselineId;
  readonly keys: KeySpec;
  /** Told apart by this when a baseline takes part more than once. */
  readonly label?: string;
}

/** A condition all contestants play under. */
export interface Heat {
  /** Heading of its rows; its end, after the name of the contestant, makes the row's name. */
  readonly group: string;
  readonly round: RoundSpec;
}

/** Name of a contestant's row in a heat. */
export function rowName(contestant: string, label: string): string {
  return `${contestant}, ${label}`;
}

/** Bounds of a round of gets with `inFlight` promises open. */
export function roundOf(settings: Settings, inFlight: number): RoundSpec {
  if (settings.quick) return { inFlight, maxOps: Math.max(1000, inFlight * 4), maxMs: 200 };
  return { inFlight, maxOps: 1_500_000, maxMs: 1000 };
}

/** Plays all heats, one after the other, with the same processes. */
export async function contest(
  settings: Settings,
  nodes: readonly string[],
  entrants: readonly Entrant[],
  heats: readonly Heat[],
): Promise<Row[]> {
  const peers: PeerProcess[] = [];
  const rows: Row[] = [];
  try {
    for (const { id, keys } of entrants) peers.push(await PeerProcess.start(id, nodes, keys));
    for (const { group, round } of heats) {
      settings.note(`${group}: ${settings.rounds} rounds of ${peers.length} contestants`);
      const samples = await interleave(peers.length, settings.rounds, (i) => peers[i].play(round));
      for (const [i, peer] of peers.entries()) {
        rows.push(summarize(rowName(peer.name, entrants[i].label ?? group), group, peer.role, samples[i]));
      }
    }
  } finally {
    await Promise.all(peers.map((peer) => peer.stop()));
  }
  return rows;
}
