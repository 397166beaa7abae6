/** A worker that takes caps when it is told to, with the keylane of the thread that started it. */
import { parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { Cap, KeylaneHandle } from "keylane";

/** What the worker is asked. */
export interface CapsRequest {
  readonly call: "take" | "refund" | "close";
  readonly user: string;
  readonly caps: readonly Cap[];
  readonly id: string;
}

const lanes = await Keylane.attach((workerData as { handle: KeylaneHandle }).handle);
parentPort!.on("message", ({ call, user, caps, id }: CapsRequest) => {
  const decide = async (): Promise<unknown> => {
    if (call === "take") return lanes.caps.take(user, caps, { id });
    if (call === "refund") return lanes.caps.refund(user, caps, { id });
    await lanes.close();
    return "closed";
  };
  const answer = async (): Promise<void> => {
    parentPort!.postMessage(await decide(), []);
    if (call === "close") parentPort!.close();
  };
  void answer();
});
parentPort!.postMessage("ready", []);
