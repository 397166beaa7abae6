/**
 * Loads the Rust addon, and nothing else does. Invariant: it never throws; where the addon is missing, unfit or switched off,
 * it says why. An addon built for another version of this interface is refused by its ABI number before it is used.
 *
 * ```text
 * dist/native/load.js                       this file, compiled
 * dist/native/keylane.linux-x64-gnu.node    the addon beside it: keylane.<platform>-<arch>[-<libc or toolchain>].node
 * ```
 */
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

import { cacheOf } from "./cache.js";
import type { CacheAddon } from "./cache.js";
import type { CacheCore } from "./cache-types.js";
import { hitsOf } from "./hits.js";
import type { HitsAddon } from "./hits.js";
import type { HitsCore } from "./hits-types.js";
import { DOMAIN_NONE } from "./types.js";
import type { EncodeTables, FallbackSpec, NativeCore, NativeRouter, RouterSpec, Scanner } from "./types.js";

/** `ABI_VERSION` of `crates/addon/src/lib.rs`. */
const ABI_VERSION = 6;

/** Values of `fallback` in `createRouter`. */
const FALLBACKS = { reject: 0, domain: 1, hash: 2, "md5-modulo": 3 } as const;

/** What the addon exports: the interface with its objects taken apart, so that a call is arrays and numbers only. */
interface Addon extends CacheAddon, HitsAddon, Pick<NativeCore, "slot" | "slotBatch" | "hash64" | "encodeTo"> {
  abiVersion(): number;
  createRouter(
    prefixes: string,
    lengths: Int32Array,
    domains: Int32Array,
    fallback: number,
    fallbackDomains: Int32Array,
    names: string,
    nameLengths: Int32Array,
  ): NativeRouter;
  createScanner(maxBulk: number, maxRows: number, maxDepth: number, maxLine: number): Scanner;
  encode(
    scratch: Uint8Array,
    desc: Int32Array,
    count: number,
    slots: Int32Array,
    held: Int32Array,
    alias: Int32Array,
    out: Uint8Array,
    place: Int32Array,
    sections: Int32Array,
  ): number;
}

/** What a thread gets from the addon. */
interface Loaded {
  core: NativeCore;
  cache: CacheCore;
  hits: HitsCore;
}

let loaded: Loaded | undefined;

/**
 * The Rust core for this thread, or the reason why there is none. `KEYLANE_NATIVE=off` in the environment is a reason.
 * The first call in a thread costs a directory listing and, in a process, mapping the library; later ones give the same core.
 */
export function loadAddon(): Loaded | { reason: string } {
  if (process.env["KEYLANE_NATIVE"] === "off") return { reason: "switched off by KEYLANE_NATIVE=off" };
  if (loaded !== undefined) return loaded;
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const target = `${process.platform}-${process.arch}`;
  const files = listed(folder).filter((file) => file.startsWith(`keylane.${target}`) && file.endsWith(".node"));
  if (files.length === 0) return { reason: `no addon for ${target} beside ${folder}load.js` };
  const require = createRequire(import.meta.url);
  const reasons: string[] = [];
  for (const file of files) {
    try {
      const addon: Addon = require(`./${file}`);
      const version = addon.abiVersion();
      if (version === ABI_VERSION) {
        return (loaded = { core: coreOf(addon), cache: cacheOf(addon), hits: hitsOf(addon) });
      }
      reasons.push(`${file} speaks version ${version} of the interface, not ${ABI_VERSION}`);
    } catch (error) {
      reasons.push(`${file}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { reason: reasons.join("; ") };
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** The addon as `NativeCore`. Functions of one call are handed on as they are. */
function coreOf(addon: Addon): NativeCore {
  return {
    kind: "rust",
    slot: addon.slot,
    slotBatch: addon.slotBatch,
    hash64: addon.hash64,
    createRouter: (spec) => createRouter(addon, spec),
    createScanner: ({ maxBulk, maxRows, maxDepth, maxLine }) =>
      addon.createScanner(maxBulk, maxRows, maxDepth, maxLine),
    encode(
      scratch: Uint8Array,
      desc: Int32Array,
      count: number,
      tables: EncodeTables,
      out: Uint8Array,
      place: Int32Array,
      sections: Int32Array,
    ): number {
      return addon.encode(scratch, desc, count, tables.slots, tables.held, tables.alias, out, place, sections);
    },
    encodeTo: addon.encodeTo,
  };
}

function createRouter(addon: Addon, { prefixes, fallback }: RouterSpec): NativeRouter {
  const texts = prefixes.map(({ prefix }) => prefix);
  const { domains, names } = candidates(fallback);
  return addon.createRouter(
    texts.join(""),
    lengthsOf(texts),
    domainWords(prefixes.map(({ domain }) => domain)),
    FALLBACKS[fallback.kind],
    domainWords(domains),
    names.join(""),
    lengthsOf(names),
  );
}

function candidates(fallback: FallbackSpec): { domains: number[]; names: string[] } {
  switch (fallback.kind) {
    case "reject":
      return { domains: [], names: [] };
    case "domain":
      return { domains: [fallback.domain], names: [] };
    case "hash":
      return { domains: fallback.domains, names: fallback.names };
    case "md5-modulo":
      return { domains: fallback.domains, names: [] };
  }
}

function lengthsOf(texts: string[]): Int32Array {
  return Int32Array.from(texts, (text) => text.length);
}

/** Domains as words; checked here, since a word would hide what was no number. */
function domainWords(domains: number[]): Int32Array {
  for (const domain of domains) {
    if (!(Number.isInteger(domain) && domain >= 0 && domain < DOMAIN_NONE)) {
      throw new RangeError(`domain ${domain} is not within 0..${DOMAIN_NONE - 1}`);
    }
  }
  return Int32Array.from(domains);
}
