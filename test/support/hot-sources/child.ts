/**
 * A process with a keylane of its own, told what to do over the channel that `fork` opens: `node child.js OPTIONS` with the
 * options as JSON. Answers `[number, result]` to `[number, name, ...arguments]`.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Keylane } from "keylane";
import type { HotKeyInfo, HotKeysStats, OpenOptions } from "keylane";

const lanes = await Keylane.open(JSON.parse(process.argv[2]!) as OpenOptions);
const errors: string[] = [];
const events: string[] = [];
lanes.on("error", (error) => void errors.push(`${error.code} ${error.message}`));
lanes.on("hotkey", ({ key }) => void events.push(`hotkey ${key}`));
lanes.on("hotkey:recovered", ({ key }) => void events.push(`recovered ${key}`));
let driver: NodeJS.Timeout | undefined;

/** What a parent can have it do. */
export const jobs = {
  list: (): HotKeyInfo[] => lanes.hotKeys.list(),
  stats: (): HotKeysStats => lanes.hotKeys.stats(),
  told: (): { errors: string[]; events: string[] } => ({ errors, events }),
  /** Reads a key some hundred times a second until `rest`. */
  drive: (key: string): void => {
    driver = setInterval(() => {
      for (let at = 0; at < 10; at++) void lanes.get(key).catch((error: Error) => errors.push(error.message));
    }, 10);
  },
  rest: (): void => clearInterval(driver),
  /** Reads a key so often, at a rate that makes nothing hot; gives its last value. */
  read: async (key: string, times: number): Promise<unknown> => {
    let value: unknown;
    for (let at = 0; at < times; at++) {
      value = await lanes.get(key);
      await sleep(15);
    }
    return value;
  },
  cached: (key: string): boolean => lanes.peek(key) !== undefined,
  close: async (): Promise<void> => {
    await lanes.close();
  },
};

process.on("message", (message: [number, keyof typeof jobs, ...unknown[]]) => {
  const [id, name, ...given] = message;
  const job = jobs[name] as (...given: unknown[]) => unknown;
  void Promise.resolve(job(...given)).then((result) => {
    process.send!([id, result ?? null]);
    if (name === "close") process.disconnect();
    return undefined;
  });
});
process.send!([0, "ready"]);
