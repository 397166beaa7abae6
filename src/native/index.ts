/**
 * The native interface a thread works with: the Rust core where the addon loads, else the portable one. Invariant: the
 * choice is made once, when a thread first imports this module, and never changes, so tables that one core filled are read
 * by the same core.
 */
import { loadAddon } from "./load.js";
import { portable } from "./portable.js";
import type { CacheCore } from "./cache-types.js";
import type { HitsCore } from "./hits-types.js";
import type { NativeCore } from "./types.js";

/** Which implementation runs in this thread, and for the portable one why the addon does not. */
export type NativeInfo = { readonly kind: "rust" } | { readonly kind: "portable"; readonly reason: string };

const addon = loadAddon();

/** The core of this thread. */
export const native: NativeCore = "core" in addon ? addon.core : portable;

/** The shared cache of this thread; only the addon has one. */
export const cacheCore: CacheCore | undefined = "core" in addon ? addon.cache : undefined;

/** The counting of hot keys in this thread; only the addon has it. */
export const hitsCore: HitsCore | undefined = "core" in addon ? addon.hits : undefined;

const info: NativeInfo = Object.freeze("core" in addon ? { kind: "rust" } : { kind: "portable", reason: addon.reason });

/** Says which implementation of the native interface runs in this thread, and why. */
export function nativeInfo(): NativeInfo {
  return info;
}
