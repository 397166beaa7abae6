/**
 * The native interface in JavaScript, for hosts where the addon does not load. Slots come from cluster-key-slot and hashes
 * from @node-rs/xxhash; the rest is here. Invariant: it answers every call with the same bytes, rows and words as the Rust
 * core, only slower; the differential tests under test/property hold both to that.
 */
import { encode, encodeTo } from "./portable/encode.js";
import { hash64, slotOf, splitBatch } from "./portable/keys.js";
import { createRouter } from "./portable/router.js";
import { PortableScanner } from "./portable/scan.js";
import type { NativeCore } from "./types.js";

/** The portable implementation; stateless, so one serves a whole thread. */
export const portable: NativeCore = {
  kind: "portable",
  slot: slotOf,
  slotBatch(text, lengths, count, out) {
    for (const [i, key] of splitBatch(text, lengths, count, out.length).entries()) out[i] = slotOf(key);
  },
  hash64,
  createRouter,
  createScanner: (limits) => new PortableScanner(limits),
  encode,
  encodeTo,
};
