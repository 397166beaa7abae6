/** What one thread gives another so that it can attach: shared memories and the options they were opened with. */
import type { MessagePort } from "node:worker_threads";
import { KeylaneError } from "../errors.js";
import type { OpenOptions } from "../options.js";
import type { HotHandle } from "./hot-share.js";
import type { RegionHandle } from "./region.js";

/** Grows with every change of what a handle holds. */
export const HANDLE_VERSION = 3;

/** Structured-cloneable as long as the options are (no functions); means something only inside its process. */
export interface KeylaneHandle {
  readonly keylane: number;
  readonly pid: number;
  readonly options: OpenOptions;
  /** Slot maps by domain. */
  readonly topologies: readonly SharedArrayBuffer[];
  /** The shared cache; null when no domain is cached. */
  readonly region: RegionHandle | null;
  /** Counters and set of hot keys; null when they are not looked for. */
  readonly hot: HotHandle | null;
  /** What it takes to use the pool; null unless asked for. Its `port` must be in the transfer list. */
  readonly pool: PoolHandle | null;
}

/** One more thread's way to the workers of a pool. */
export interface PoolHandle {
  readonly port: MessagePort;
  readonly workers: number;
  /** What the workers count. */
  readonly board: SharedArrayBuffer;
}

/** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` for what is no handle of this process and version */
export function assertHandle(handle: unknown): asserts handle is KeylaneHandle {
  const given = handle as Partial<KeylaneHandle> | null | undefined;
  if (typeof given !== "object" || given === null || typeof given.keylane !== "number") {
    throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "attach needs what handle() gave");
  }
  if (given.keylane !== HANDLE_VERSION) {
    const versions = `version ${given.keylane}, this is ${HANDLE_VERSION}`;
    throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `the handle comes from another version of keylane (${versions})`);
  }
  const { topologies, region, hot } = given;
  const shared =
    Array.isArray(topologies) &&
    topologies.every((buffer) => buffer instanceof SharedArrayBuffer) &&
    typeof region === "object" &&
    typeof hot === "object";
  if (given.pid !== process.pid || !shared) {
    throw new KeylaneError("KEYLANE_ERR_ARGUMENT", "the handle belongs to another process; its memory is not here");
  }
}
