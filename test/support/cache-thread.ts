/** The program of a `CacheThread`: attaches to the handle it is given and makes the calls it is told to. */
import { once } from "node:events";
import { parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { KeylaneError, KeylaneHandle } from "keylane";
import type { Answer, Order, Told } from "./cache-threads.js";

const port = parentPort!;
const given = workerData as { readonly handle?: KeylaneHandle };
const handle = given.handle ?? ((await once(port, "message")) as [KeylaneHandle])[0];
const lanes = await Keylane.attach(handle);
const calls = lanes as unknown as Record<string, (...args: readonly unknown[]) => unknown>;

async function answer({ call, args }: Order): Promise<Answer> {
  try {
    return { value: await calls[call]!(...args) };
  } catch (error) {
    return { error: (error as KeylaneError).toJSON() };
  }
}

const tell = (told: Told): void => port.postMessage(told);
port.on("message", async (order: Order) => {
  if (order.call === "end") {
    await lanes.close();
    port.close();
    return;
  }
  const answers = Array.from({ length: order.times }, () => answer(order));
  tell({ id: order.id, answers: null });
  tell({ id: order.id, answers: await Promise.all(answers) });
});
tell({ id: 0, answers: [] });
