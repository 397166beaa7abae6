/**
 * The program of a thread that writes one copied key and reads all of them: what it reads is never older than what was
 * acknowledged, to whichever thread, before it asked.
 */
import { parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { KeylaneHandle } from "keylane";

/** What a thread is told. */
export interface HotThreadOrder {
  readonly handle: KeylaneHandle;
  readonly via: "own" | "pool";
  /** Keys; key `at` is this thread's own to write. */
  readonly keys: readonly string[];
  readonly at: number;
  /** By key: the last number that was acknowledged. */
  readonly acknowledged: SharedArrayBuffer;
  /** Calls, and how many are under way at once. */
  readonly calls: number;
  readonly width: number;
}

/** What it found. */
export interface HotThreadReport {
  readonly reads: number;
  readonly writes: number;
  readonly stale: readonly string[];
}

/** Runs one thread's part. */
export async function playHot(
  lanes: Keylane,
  { keys, at, acknowledged, calls, width }: Omit<HotThreadOrder, "handle" | "via">,
): Promise<HotThreadReport> {
  const floors = new Int32Array(acknowledged);
  const stale: string[] = [];
  let [reads, writes, made] = [0, 0, 0];
  const write = async (): Promise<void> => {
    const next = floors[at]! + 1;
    // By turns, every way to write.
    if (next % 3 === 0) await lanes.incrBy(keys[at]!);
    else if (next % 3 === 1) await lanes.set(keys[at]!, `${next}`);
    else await lanes.multi(keys[at]!).set(keys[at]!, `${next}`).exec();
    Atomics.store(floors, at, next);
    writes += 1;
  };
  const read = async (): Promise<void> => {
    const which = (made * 7) % keys.length;
    const floor = Atomics.load(floors, which);
    const value = Number(await lanes.get(keys[which]!));
    if (value < floor) stale.push(`${keys[which]!}: ${value} after ${floor}`);
    reads += 1;
  };
  const loop = async (writer: boolean): Promise<void> => {
    while (made < calls) {
      made += 1;
      if (writer) await write();
      else await read();
    }
  };
  await Promise.all(Array.from({ length: width }, (_, i) => loop(i === 0)));
  return { reads, writes, stale };
}

if (parentPort !== null) {
  const order = workerData as HotThreadOrder;
  const lanes = await Keylane.attach(order.handle, { via: order.via });
  parentPort.postMessage(await playHot(lanes as unknown as Keylane, order));
  await lanes.close();
}
