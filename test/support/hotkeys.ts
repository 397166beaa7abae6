/** The finders at the servers, on a scripted server. */
import { Keylane } from "keylane";
import { findOnServers } from "#dist/hotkeys/server-side.js";
import type { FindOptions, Findings, FoundKey } from "#dist/hotkeys/server-side.js";
import type { Stub } from "./stub.js";

/** The names of keys. */
export const names = (keys: readonly FoundKey[]): string[] => keys.map(({ key }) => key.toString());

/** As `findOnServers`, on a scripted server. */
export async function findOnStub(stub: Stub, options: FindOptions = {}): Promise<Findings> {
  const lanes = await Keylane.open({ domains: { all: { prefixes: [""], nodes: [stub.address] } } });
  try {
    return await findOnServers(lanes.redis("all"), { seconds: 1, ...options });
  } finally {
    await lanes.close();
  }
}
