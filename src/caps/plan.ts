/**
 * A list of caps, checked, in the words of the scripts. The invariant: what is not valid throws before anything is sent, and
 * equal caps have equal fields in every process.
 */
import { badArgument } from "../lane/arguments.js";
import { CivilWindows } from "./civil.js";
import type { Period } from "./civil.js";
import type { Cap } from "./types.js";

/** Caps of one call. */
export const MAX_CAPS = 64;
/** UTF-16 units of names and ids. */
export const MAX_TEXT = 256;
/** UTF-16 units of a user. */
export const MAX_USER = 512;
/** 400 days. */
export const MAX_WINDOW_MS = 34_560_000_000;
/** Compiled caps kept a thread; the oldest leave first. */
const MAX_KNOWN = 65_536;
const MAX_ZONES = 1024;

/** A cap as the scripts know it. */
export class PlannedCap {
  readonly cap: Cap;
  readonly name: string;
  readonly limit: number;
  readonly limitText: string;
  /** Field of the user's hash: window and name. */
  readonly field: string;
  #hash = -1;
  readonly #fixed: string;
  readonly #civil: CivilWindows | null;

  constructor(cap: Cap, field: string, fixed: string, civil: CivilWindows | null) {
    this.cap = { ...cap };
    this.name = cap.name;
    this.limit = cap.limit;
    this.limitText = String(cap.limit);
    this.field = field;
    this.#fixed = fixed;
    this.#civil = civil;
  }

  /** Stands for the field in the mark of a list. */
  get hash(): number {
    if (this.#hash === -1) this.#hash = hashText(this.field);
    return this.#hash;
  }

  /** The window, for a server whose time is about `now`. */
  window(now: number): string {
    return this.#civil === null ? this.#fixed : this.#civil.spec(now);
  }

  is({ limit, windowMs, sliding, per, timeZone }: Cap): boolean {
    const { cap } = this;
    return (
      cap.limit === limit &&
      cap.windowMs === windowMs &&
      cap.sliding === sliding &&
      cap.per === per &&
      cap.timeZone === timeZone
    );
  }
}

export type Plan = readonly PlannedCap[];

/** Compiles lists of caps; remembers caps by name. */
export class Planner {
  readonly #known = new Map<string, PlannedCap>();
  readonly #zones = new Map<string, CivilWindows>();

  /** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` naming the cap and what is wrong with it */
  plan(caps: readonly Cap[]): Plan {
    if (!Array.isArray(caps)) throw badArgument("caps: a list is needed");
    const count = caps.length;
    if (count === 0 || count > MAX_CAPS) throw badArgument(`caps: 1 to ${MAX_CAPS} are allowed, not ${count}`);
    const plan: PlannedCap[] = [];
    for (let i = 0; i < count; i += 1) {
      const cap = caps[i] as Cap;
      const known = this.#known.get(cap?.name);
      const planned = known !== undefined && known.is(cap) ? known : this.#compile(cap, i);
      for (let before = 0; before < i; before += 1) {
        if (plan[before]!.name === planned.name) throw badArgument(`caps: the name ${planned.name} is there twice`);
      }
      plan.push(planned);
    }
    return plan;
  }

  #compile(cap: Cap, index: number): PlannedCap {
    if (typeof cap !== "object" || cap === null) throw badArgument(`caps.${index}: must be an object`);
    assertText(`caps.${index}.name`, cap.name, MAX_TEXT);
    const at = `cap ${cap.name}`;
    assertLimit(`${at}: limit`, cap.limit);
    const planned = cap.per === undefined ? timed(cap, at) : this.#civil(cap as Cap & { per: Period }, at);
    if (this.#known.size >= MAX_KNOWN) this.#known.delete(this.#known.keys().next().value!);
    this.#known.set(cap.name, planned);
    return planned;
  }

  #civil(cap: Cap & { per: Period }, at: string): PlannedCap {
    const { per, timeZone = "UTC" } = cap;
    if (cap.windowMs !== undefined) throw badArgument(`${at}: windowMs and per exclude each other`);
    if (cap.sliding !== undefined) throw badArgument(`${at}: a civil window cannot slide`);
    if (per !== "day" && per !== "week" && per !== "month") {
      throw badArgument(`${at}: per must be day, week or month, not ${String(per)}`);
    }
    if (typeof timeZone !== "string" || !/^[\w+/:-]{1,64}$/.test(timeZone)) {
      throw badArgument(`${at}: timeZone must be the name of a time zone, not ${String(timeZone)}`);
    }
    const zone = `${per[0]}${timeZone}`;
    let civil = this.#zones.get(zone);
    if (civil === undefined) {
      try {
        civil = new CivilWindows(per, timeZone);
      } catch {
        throw badArgument(`${at}: there is no time zone ${timeZone}`);
      }
      if (this.#zones.size >= MAX_ZONES) this.#zones.clear();
      this.#zones.set(zone, civil);
    }
    return new PlannedCap(cap, `${zone} ${cap.name}`, "", civil);
  }
}

function timed(cap: Cap, at: string): PlannedCap {
  assertWindow(`${at}: windowMs`, cap.windowMs);
  const { sliding = false, windowMs, timeZone } = cap;
  if (typeof sliding !== "boolean") throw badArgument(`${at}: sliding must be a boolean, not ${String(sliding)}`);
  if (timeZone !== undefined) throw badArgument(`${at}: only civil windows have a timeZone`);
  const window = `${sliding ? "s" : "f"}${windowMs}`;
  return new PlannedCap(cap, `${window} ${cap.name}`, window, null);
}

/** A number for a list of caps, whatever their order. */
export function markOf(plan: Plan): string {
  let sum = 0;
  for (const { hash } of plan) sum = (sum + hash) >>> 0;
  return String(sum);
}

/** FNV-1a over UTF-16 units, 32 bits. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function assertText(what: string, text: unknown, most: number): asserts text is string {
  if (typeof text !== "string" || text === "") throw badArgument(`${what} must be a non-empty string`);
  if (text.length > most) throw badArgument(`${what} is longer than ${most}`);
  if (!text.isWellFormed()) throw badArgument(`${what} holds a lone surrogate`);
}

/** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function assertLimit(what: string, limit: unknown): void {
  if (Number.isSafeInteger(limit) && (limit as number) > 0) return;
  throw badArgument(`${what} must be a positive safe integer, not ${String(limit)}`);
}

/** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function assertWindow(what: string, ms: unknown): asserts ms is number {
  if (Number.isSafeInteger(ms) && (ms as number) > 0 && (ms as number) <= MAX_WINDOW_MS) return;
  throw badArgument(`${what} must be a whole number of milliseconds from 1 to ${MAX_WINDOW_MS}, not ${String(ms)}`);
}
