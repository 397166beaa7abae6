/** A thread that attaches to what its parent opened, and does what it is told: one command a message, one answer each. */
import { parentPort, workerData } from "node:worker_threads";
import { Keylane, type KeylaneError, type KeylaneHandle } from "keylane";

/** What the thread is given. */
export interface GuestData {
  readonly handle: KeylaneHandle;
  readonly via: "own" | "pool";
}

/** A method of keylane and its arguments. */
export interface GuestAsk {
  readonly call: "get" | "set" | "incrBy" | "command" | "peek" | "close" | "stats";
  readonly args: readonly unknown[];
}

const { handle, via } = workerData as GuestData;
const lanes = await Keylane.attach(handle, { via });

parentPort!.on("message", ({ call, args }: GuestAsk) => {
  const method = lanes[call].bind(lanes) as (...args: unknown[]) => unknown;
  Promise.resolve()
    .then(() => method(...args))
    .then(
      (value) => parentPort!.postMessage({ value }),
      (error: KeylaneError) => parentPort!.postMessage({ code: error.code, outcome: error.outcome }),
    )
    .finally(() => {
      if (call === "close") parentPort!.close();
    });
});
parentPort!.postMessage("ready");
