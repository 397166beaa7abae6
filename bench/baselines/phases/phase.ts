/**
 * A phase of the suite `phases`: one way to lay the ad traffic's three prefixes over servers, and the client through which it
 * is played. Each runs in a process of its own; `PHASES` is the register of the files of this folder.
 */
import type { AdLanes } from "#dist/cli/demo/ads.js";
import type { Role } from "../../report/types.js";

/** `host:port` of the primaries. */
export interface Clusters {
  /** One cluster for everything. */
  readonly one: readonly string[];
  /** The same number of servers as three clusters: profiles, frequency, billing. */
  readonly three: readonly (readonly string[])[];
}

/** A client that is open. */
export interface OpenPhase {
  readonly lanes: AdLanes;
  close(): Promise<void>;
}

/** What a file of this folder exports as `phase`. */
export interface Phase {
  /** As shown in tables. */
  readonly name: string;
  readonly role: Role;
  /** The servers it uses: all of them, and those of the profiles. */
  servers(clusters: Clusters): { readonly all: readonly string[]; readonly profiles: readonly string[] };
  open(clusters: Clusters): Promise<OpenPhase>;
}

/** Files of this folder, in the order of the table. */
export const PHASES = ["one-ioredis", "three-ioredis", "three-keylane", "three-keylane-l1"] as const;

export type PhaseId = (typeof PHASES)[number];

/** Loads a phase; its client library is loaded into this process only now. */
export async function loadPhase(id: PhaseId): Promise<Phase> {
  const module = (await import(`./${id}.js`)) as { readonly phase: Phase };
  return module.phase;
}
