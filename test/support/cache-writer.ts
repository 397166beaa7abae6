/** The program of a thread that stores values in a region, one after the other, until it is ended. Each tells whether it is whole. */
import { parentPort, workerData } from "node:worker_threads";
import type { KeylaneHandle } from "keylane";
import { INFO_WORDS } from "#dist/native/cache-types.js";
import { sessionOf } from "./cached.js";

/** Keys are `t:0` … */
export const WRITER_KEYS = 100;

/** A value of a key: the key, its length and so many equal letters. */
export function wholeValue(key: string, turn: number): string {
  const length = 10 + ((turn * 7919) % 3990);
  return `${key}|${length}|${String.fromCharCode(97 + (turn % 26)).repeat(length)}`;
}

/** Whether a text is a value of the key, from its first letter to its last. */
export function isWhole(key: string, text: string): boolean {
  const [of, length, letters] = text.split("|") as [string, string, string];
  return of === key && letters.length === Number(length) && letters === letters[0]!.repeat(letters.length);
}

const port = parentPort;
if (port !== null) {
  const session = sessionOf((workerData as { handle: KeylaneHandle }).handle);
  const info = new Int32Array(INFO_WORDS);
  for (let turn = 0; ; turn += 1) {
    const key = `t:${turn % WRITER_KEYS}`;
    session.store(key, Buffer.from(wholeValue(key, turn)), 60_000, 0, 0, 0, session.beginLoad(key), info);
    if (turn === 1000) port.postMessage("stored");
  }
}
