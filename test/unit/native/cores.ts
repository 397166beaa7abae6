/** The two implementations of the native interface, side by side. A test that needs both fails where the addon is missing. */
import { loadAddon } from "#dist/native/load.js";
import { portable } from "#dist/native/portable.js";
import type { NativeCore } from "#dist/native/types.js";

const addon = loadAddon();
if (!("core" in addon)) throw new Error(`the addon does not load: ${addon.reason}`);

export const rust: NativeCore = addon.core;
export { portable };

/** Both, for tests that hold each to the same figures. */
export const cores: readonly NativeCore[] = [rust, portable];
