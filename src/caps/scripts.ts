/** The scripts of the caps, one file each beside this one, and how they are sent: by digest, to the slot of the user. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { headOf } from "../lane/op.js";
import { Opcode } from "../native/types.js";

/** Where the key stands among a call's arguments: behind the digest and the number of keys. */
export const KEY_AT = 2;
/** Head of their calls. */
export const HEAD_SCRIPT = headOf(Opcode.EVALSHA, KEY_AT, false);

/** A script as a lane sends it. */
export interface CapScript {
  readonly sha: string;
  readonly source: string;
}

const read = (name: string): string => readFileSync(new URL(name, import.meta.url), "utf8");

function scriptOf(source: string): CapScript {
  return { source, sha: createHash("sha1").update(source).digest("hex") };
}

const CLOCK = read("clock.lua");
const WINDOWS = read("windows.lua");

/** check, take, reserve, commit */
export const DECIDE = scriptOf(CLOCK + read("quick.lua") + WINDOWS + read("decide.lua"));
/** refund, release */
export const UNDO = scriptOf(CLOCK + WINDOWS + read("undo.lua"));
/** takeKey */
export const KEY = scriptOf(read("key.lua"));

/** What stands before the user in the key of the hash, and behind. */
export function headOfKeys(prefix: string): string {
  return `${prefix}caps:{`;
}
export const KEY_TAIL = "}";

/** The hash of a user. */
export function keyOf(prefix: string, user: string): string {
  return headOfKeys(prefix) + user + KEY_TAIL;
}
