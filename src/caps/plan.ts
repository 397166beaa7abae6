/**
 * A list of caps, checked, in the words of the scripts. The invariant: what is not valid throws before anything is sent, and
 * equal caps have equal fields in every process.
 */
import { badArgument } from "../lane/arguments.js";
import { Template } from "../lane/op.js";
import { CivilWindows } from "./civil.js";
import type { Period } from "./civil.js";
import { DECIDE, KEY_AT, KEY_TAIL } from "./scripts.js";
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
/** Lists kept a thread: by so many first caps, so many each, of so many caps at most. */
const MAX_PLANNED = 8192;
const MAX_PLANS_A_CAP = 4;
const MAX_KEPT_CAPS = 16;
const QUESTION_AT = 3;
/** The operation that is asked in short: a take. */
const TAKE = "t";

/** A cap as the scripts know it. */
export class PlannedCap {
  readonly cap: Cap;
  readonly name: string;
  readonly limit: number;
  /** Field of the user's hash: window and name. */
  readonly field: string;
  /** Of the field, in UTF-8. */
  readonly fieldBytes: number;
  /** Null for windows that are not civil. */
  readonly civil: CivilWindows | null;
  #hash = -1;

  constructor(cap: Cap, field: string, civil: CivilWindows | null) {
    this.cap = { ...cap };
    this.name = cap.name;
    this.limit = cap.limit;
    this.field = field;
    this.fieldBytes = Buffer.byteLength(field);
    this.civil = civil;
  }

  /** Stands for the field in the mark of a list. */
  get hash(): number {
    if (this.#hash === -1) this.#hash = hashText(this.field);
    return this.#hash;
  }

  /** Whether the window is a fixed one. */
  get fixed(): boolean {
    return this.civil === null && this.cap.sliding !== true;
  }

  /** The window, for a server whose time is about `now`; of one that is not civil, the field tells. */
  window(now: number): string {
    return this.civil === null ? "" : this.civil.at(now).text;
  }

  /** Whether it was made of this cap. */
  is({ name, limit, windowMs, sliding, per, timeZone }: Cap): boolean {
    const { cap } = this;
    return (
      cap.limit === limit &&
      cap.name === name &&
      cap.windowMs === windowMs &&
      cap.sliding === sliding &&
      cap.per === per &&
      cap.timeZone === timeZone
    );
  }
}

/** A list of caps, checked, and what is sent for it. */
export class Plan {
  readonly caps: readonly PlannedCap[];
  readonly #civil: boolean;
  /** Of fixed windows alone: what `quick.lua` takes. */
  readonly #fixed: boolean;
  /** By operation, for times in `[#from, #until)`. */
  #texts: Map<string, string> | null = null;
  /** Made last, and the one of a take that is asked in short. */
  #template: Template | null = null;
  #quick: Template | null = null;
  #from = -Infinity;
  #until = Infinity;
  #mark = "";

  constructor(caps: readonly PlannedCap[]) {
    this.caps = caps;
    this.#civil = caps.some(({ civil }) => civil !== null);
    this.#fixed = caps.every(({ fixed }) => fixed);
    if (this.#civil) this.#until = -Infinity;
  }

  /** Whether it was made of these caps. */
  isOf(caps: readonly Cap[]): boolean {
    const planned = this.caps;
    if (planned.length !== caps.length) return false;
    for (let i = 0; i < planned.length; i += 1) {
      const cap = caps[i];
      if (typeof cap !== "object" || cap === null || !planned[i]!.is(cap)) return false;
    }
    return true;
  }

  /**
   * The first argument of the scripts: the operation, then per cap `limit bytes window;field`, where `bytes` is the field's
   * length in UTF-8. `offsetMs` is the server's clock less this process's; it matters to civil windows only.
   */
  question(operation: string, offsetMs: number): string {
    const now = this.#civil ? Date.now() + offsetMs : 0;
    if (this.#civil) this.#turn(now);
    this.#texts ??= new Map();
    let text = this.#texts.get(operation);
    if (text === undefined) {
      text = operation;
      for (const cap of this.caps) text += `${cap.limit} ${cap.fieldBytes} ${cap.window(now)};${cap.field}`;
      this.#texts.set(operation, text);
    }
    return text;
  }

  /**
   * What `decide.lua` is sent for an operation without an id: all but the user, whose key begins with `head`, always the same. A
   * take of fixed windows is asked in short.
   */
  template(operation: string, offsetMs: number, head: string): Template {
    if (this.#fixed && operation === TAKE) return (this.#quick ??= this.#short(head));
    const question = this.question(operation, offsetMs);
    let template = this.#template;
    if (template === null || template.args[QUESTION_AT] !== question) {
      template = new Template(KEY_AT, [DECIDE.sha, "1", "", question], head, KEY_TAIL);
      this.#template = template;
    }
    return template;
  }

  /** A number for the list, whatever its order. */
  get mark(): string {
    if (this.#mark === "") {
      let sum = 0;
      for (const { hash } of this.caps) sum = (sum + hash) >>> 0;
      this.#mark = String(sum);
    }
    return this.#mark;
  }

  /** See `quick.lua`. */
  #short(head: string): Template {
    const caps = this.caps.flatMap(({ limit, field }) => [String(limit), field]);
    return new Template(KEY_AT, [DECIDE.sha, "1", "", ...caps], head, KEY_TAIL);
  }

  /** Forgets what was written for civil windows that have ended. */
  #turn(now: number): void {
    if (now >= this.#from && now < this.#until) return;
    this.#texts?.clear();
    this.#from = -Infinity;
    this.#until = Infinity;
    for (const { civil } of this.caps) {
      if (civil === null) continue;
      civil.at(now);
      this.#from = Math.max(this.#from, civil.from);
      this.#until = Math.min(this.#until, civil.until);
    }
  }
}

/** Compiles lists of caps; remembers caps by name, and lists by their first cap. */
export class Planner {
  readonly #known = new Map<string, PlannedCap>();
  readonly #zones = new Map<string, CivilWindows>();
  readonly #plans = new Map<PlannedCap, Plan[]>();
  #last: Plan | null = null;

  /** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` naming the cap and what is wrong with it */
  plan(caps: readonly Cap[]): Plan {
    const last = this.#last;
    if (last !== null && Array.isArray(caps) && last.isOf(caps)) return last;
    this.#last = this.#find(caps);
    return this.#last;
  }

  #find(caps: readonly Cap[]): Plan {
    if (!Array.isArray(caps)) throw badArgument("caps: a list is needed");
    const count = caps.length;
    if (count === 0 || count > MAX_CAPS) throw badArgument(`caps: 1 to ${MAX_CAPS} are allowed, not ${count}`);
    const first = this.#known.get((caps[0] as Cap | null)?.name as string);
    const plans = first === undefined ? undefined : this.#plans.get(first);
    if (plans !== undefined) for (const plan of plans) if (plan.isOf(caps)) return plan;
    const planned: PlannedCap[] = [];
    for (let i = 0; i < count; i += 1) {
      const cap = caps[i] as Cap;
      const known = this.#known.get(cap?.name);
      const one = known !== undefined && known.is(cap) ? known : this.#compile(cap, i);
      if (planned.some(({ name }) => name === one.name)) {
        throw badArgument(`caps: the name ${one.name} is there twice`);
      }
      planned.push(one);
    }
    return this.#keep(new Plan(planned));
  }

  #keep(plan: Plan): Plan {
    if (plan.caps.length > MAX_KEPT_CAPS) return plan;
    const first = plan.caps[0]!;
    const plans = this.#plans.get(first);
    if (plans !== undefined) {
      if (plans.length >= MAX_PLANS_A_CAP) plans.shift();
      plans.push(plan);
      return plan;
    }
    if (this.#plans.size >= MAX_PLANNED) this.#plans.delete(this.#plans.keys().next().value!);
    this.#plans.set(first, [plan]);
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
    return new PlannedCap(cap, `${zone} ${cap.name}`, civil);
  }
}

function timed(cap: Cap, at: string): PlannedCap {
  assertWindow(`${at}: windowMs`, cap.windowMs);
  const { sliding = false, windowMs, timeZone } = cap;
  if (typeof sliding !== "boolean") throw badArgument(`${at}: sliding must be a boolean, not ${String(sliding)}`);
  if (timeZone !== undefined) throw badArgument(`${at}: only civil windows have a timeZone`);
  return new PlannedCap(cap, `${sliding ? "s" : "f"}${windowMs} ${cap.name}`, null);
}

/** FNV-1a over UTF-16 units, 32 bits. */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

/** By itself: looking it up on strings of many kinds costs more than the check. */
const wellFormed = String.prototype.isWellFormed;

/** @throws KeylaneError `KEYLANE_ERR_ARGUMENT` */
export function assertText(what: string, text: unknown, most: number): asserts text is string {
  if (typeof text !== "string" || text === "") throw badArgument(`${what} must be a non-empty string`);
  if (text.length > most) throw badArgument(`${what} is longer than ${most}`);
  if (!wellFormed.call(text)) throw badArgument(`${what} holds a lone surrogate`);
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
