/**
 * A program that shares its cache with fifty short-lived threads, ten at a time: some leave in order, some exit, some are
 * terminated while they start or read. Prints what became of them, and of the seats of the cache, as JSON, and ends by itself.
 */
import { once } from "node:events";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";
import { Keylane } from "keylane";
import type { KeylaneHandle } from "keylane";
import { cachedOn, freeSeats } from "./cached.js";

const WORKERS = 50;
const AT_ONCE = 10;
const KEYS = 20;

const key = (at: number): string => `t:${at % KEYS}`;

async function work(handle: KeylaneHandle, id: number): Promise<void> {
  const lanes = await Keylane.attach(handle);
  const port = parentPort!;
  port.postMessage("attached");
  const rounds = id % 3 === 2 ? Infinity : 20;
  for (let round = 0; round < rounds; round += 1) {
    const [value] = await Promise.all([lanes.get(key(id + round)), lanes.get(key(id))]);
    if (value !== `of ${key(id + round)}`) throw new Error(`${key(id + round)} gave ${String(value)}`);
    lanes.invalidate(key(round));
  }
  if (id % 3 === 1) process.exit(0);
  await lanes.close();
}

/** Exit code of a worker; every third reads until it is terminated, every other of these is terminated before it may read. */
async function run(handle: KeylaneHandle, id: number): Promise<number> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { handle, id } });
  const exit = once(worker, "exit");
  const end = (): void => void setTimeout(() => void worker.terminate(), Math.random() * 50);
  if (id % 6 === 2) end();
  if (id % 6 === 5) worker.once("message", end);
  return (await exit)[0] as number;
}

async function main(address: string): Promise<void> {
  const { domains, ...rest } = cachedOn(address);
  const lanes = await Keylane.open({ ...rest, domains: { texts: domains["texts"]! } });
  const keys = Array.from({ length: KEYS }, (_, at) => key(at));
  for (const one of keys) await lanes.set(one, `of ${one}` as never);
  const before = freeSeats(lanes.handle());
  const codes: number[] = [];
  for (let first = 0; first < WORKERS; first += AT_ONCE) {
    const ids = Array.from({ length: AT_ONCE }, (_, at) => first + at);
    codes.push(...(await Promise.all(ids.map((id) => run(lanes.handle(), id)))));
  }
  const after = freeSeats(lanes.handle());
  const values = await lanes.getMany(keys);
  const right = values.every((value, at) => value === `of ${keys[at]}`);
  await lanes.close();
  console.log(JSON.stringify({ before, after, codes, right }));
}

if (isMainThread) await main(process.argv[2]!);
else await work((workerData as { handle: KeylaneHandle }).handle, (workerData as { id: number }).id);
