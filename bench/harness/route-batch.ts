/**
 * Passes that hand keys to a core in batches: join, cross once, compare every word that came back. Joining is part of the
 * cost, since keys come one by one.
 */
import type { NativeCore } from "#dist/native/types.js";
import { KEYS, type RouteKeys } from "./route-keys.js";

/** Routes all keys in batches of `size`, a divisor of `KEYS`; returns how many words were wrong. */
export function batchPass(core: NativeCore, { keys, words, spec }: RouteKeys, size: number): () => number {
  const router = core.createRouter(spec);
  const lengths = new Int32Array(size);
  const out = new Int32Array(size * 2);
  return () => {
    let wrong = 0;
    for (let from = 0; from < KEYS; from += size) {
      let text = "";
      for (let i = 0; i < size; i += 1) {
        const key = keys[from + i];
        text += key;
        lengths[i] = key.length;
      }
      router.routeBatch(text, lengths, size, out);
      for (let i = 0, at = from * 2; i < size * 2; i += 1, at += 1) if (out[i] !== words[at]) wrong += 1;
    }
    return wrong;
  };
}

/** Slots only; otherwise as `batchPass`. */
export function batchSlotPass(core: NativeCore, { keys, slots }: RouteKeys, size: number): () => number {
  const lengths = new Int32Array(size);
  const out = new Int32Array(size);
  return () => {
    let wrong = 0;
    for (let from = 0; from < KEYS; from += size) {
      let text = "";
      for (let i = 0; i < size; i += 1) {
        const key = keys[from + i];
        text += key;
        lengths[i] = key.length;
      }
      core.slotBatch(text, lengths, size, out);
      for (let i = 0; i < size; i += 1) if (out[i] !== slots[from + i]) wrong += 1;
    }
    return wrong;
  };
}
