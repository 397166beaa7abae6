/** A cluster of two scripted servers, one of which will misbehave, and what that costs in memory. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Keylane } from "keylane";
import { keysIn } from "./keys.js";
import { Stub, type StubHandler } from "./stub.js";

export const MIB = 1 << 20;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Resident memory after a collection, in bytes. */
export function memory(): number {
  collect();
  return process.memoryUsage.rss();
}

/** Two nodes and a key on each. */
export interface Pair extends AsyncDisposable {
  readonly ill: Stub;
  readonly well: Stub;
  readonly lanes: Keylane<never>;
  readonly illKey: string;
  readonly wellKey: string;
}

/** Starts both; calls have half a second. */
export async function illAndWell(
  options: { silenceTimeoutMs?: number; connectTimeoutMs?: number } = {},
): Promise<Pair> {
  const [ill, well] = (await Stub.cluster(2)) as [Stub, Stub];
  const [illKey, wellKey] = [...keysIn([10, 16_000]).values()] as [string, string];
  well.script("GET", "well").answer("INCRBY", ({ calls }) => calls);
  const lanes = (await Keylane.open({
    domains: { all: { prefixes: [""], nodes: [well.address] } },
    commandTimeoutMs: 500,
    ...options,
  })) as unknown as Keylane<never>;
  return {
    ill,
    well,
    lanes,
    illKey,
    wellKey,
    async [Symbol.asyncDispose]() {
      await lanes.close({ timeoutMs: 100 });
      await Promise.all([ill.stop(), well.stop()]);
    },
  };
}

/** An answer that begins with `head` and goes on with `body` as long as anybody reads. */
export function flood(head: string, body: string | Buffer): StubHandler {
  return ({ connection: { socket } }) => {
    socket.write(head);
    const more = (): void => {
      while (!socket.destroyed && socket.write(body));
      if (!socket.destroyed) socket.once("drain", more);
    };
    more();
    return undefined;
  };
}
