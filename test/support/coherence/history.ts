/**
 * What every key held at every moment, computed from the commands that the servers ran. A key is followed as a set of
 * alternatives, because a command that runs within `DOUBT_MS` of a key's expiry may have met it alive or dead; nearly always
 * there is one.
 *
 * A reading of a value is as stale as the time since the key last held it.
 */
import type { Ran } from "./monitor.js";

/** How far an expiry may be from where the commands say it is (servers count lives in whole milliseconds). */
const DOUBT_MS = 2;

/** Commands that a history follows. */
export const FOLLOWED: ReadonlySet<string> = new Set(["SET", "DEL", "INCRBY", "PEXPIRE"]);

/** The key held the value from one moment to another. */
interface Span {
  readonly from: number;
  readonly to: number;
  /** The end is an expiry; no invalidation was sent then. */
  readonly expired: boolean;
}

interface Alternative {
  readonly value: string | null;
  /** Since when, and `Infinity` or when it expires. */
  readonly from: number;
  readonly expiry: number;
}

/** How a reading relates to the history. */
export interface Verdict {
  /** Milliseconds since the key last held the value; 0 while it does. */
  readonly staleMs: number;
  /** The value was not replaced: its life was over. */
  readonly expired: boolean;
  /** The value that came next, where one command wrote it. */
  readonly next: string | null | undefined;
  /** When the monitor heard of that, by `clock()`. */
  readonly heard: number | undefined;
}

const FRESH: Verdict = { staleMs: 0, expired: false, next: undefined, heard: undefined };

class KeyHistory {
  readonly #spans = new Map<string | null, Span[]>();
  /** Moments of writes, and what they left behind. */
  readonly #steps: { readonly at: number; readonly heard: number; readonly value: string | null | undefined }[] = [];
  #now: Alternative[] = [{ value: null, from: -Infinity, expiry: Infinity }];

  apply({ at, heard, parts }: Ran): void {
    const met = this.#now.flatMap((one) => this.#meet(one, at));
    const next = met.map((one) => step(one, at, parts));
    const distinct = new Map(next.map((one) => [`${one.value} ${one.expiry}`, one]));
    this.#now = [...distinct.values()];
    this.#steps.push({ at, heard, value: this.#now.length === 1 ? this.#now[0]!.value : undefined });
    for (const one of met) {
      const goesOn = this.#now.some(({ value, from }) => value === one.value && from === one.from);
      if (!goesOn) this.#add(one.value, { from: one.from, to: at, expired: false });
    }
  }

  /** Commands are over. */
  end(): void {
    for (const last of this.#now.flatMap((one) => this.#meet(one, Infinity))) {
      this.#add(last.value, { from: last.from, to: Infinity, expired: false });
    }
  }

  /** Null when the key never held the value by `until`. */
  judge(value: string | null, began: number, until: number): Verdict | null {
    const spans = this.#spans.get(value);
    if (spans === undefined) return null;
    let latest: Span | undefined;
    for (const span of spans) {
      if (span.from > until + DOUBT_MS) continue;
      if (span.to >= began) return FRESH;
      if (latest === undefined || span.to > latest.to) latest = span;
    }
    if (latest === undefined) return null;
    const { to, expired } = latest;
    const after = expired ? undefined : this.#steps.find(({ at }) => at >= to);
    return { staleMs: began - to, expired, next: after?.value, heard: after?.heard };
  }

  /** What a command at `at` may meet of an alternative. Notes the spans that expiry ended. */
  #meet(one: Alternative, at: number): Alternative[] {
    if (one.expiry === Infinity || at < one.expiry - DOUBT_MS) return [one];
    this.#add(one.value, { from: one.from, to: one.expiry, expired: true });
    const dead = { value: null, from: one.expiry, expiry: Infinity };
    return at > one.expiry + DOUBT_MS ? [dead] : [one, dead];
  }

  #add(value: string | null, span: Span): void {
    const spans = this.#spans.get(value);
    if (spans === undefined) this.#spans.set(value, [span]);
    else spans.push(span);
  }
}

function step(one: Alternative, at: number, [name, , first, option, life]: readonly string[]): Alternative {
  if (name === "SET") {
    const expiry = option?.toUpperCase() === "PX" ? Math.floor(at) + Number(life) : Infinity;
    return { value: first!, from: at, expiry };
  }
  if (name === "DEL") return one.value === null ? one : { value: null, from: at, expiry: Infinity };
  if (name === "INCRBY") {
    const sum = String(Number(one.value ?? 0) + Number(first));
    return { value: sum, from: at, expiry: one.expiry };
  }
  return one.value === null ? one : { ...one, expiry: Math.floor(at) + Number(first) };
}

export class History {
  readonly #keys = new Map<string, KeyHistory>();

  /** `ran` in the order of each server; a key belongs to one of them. */
  constructor(keys: readonly string[], ran: readonly Ran[]) {
    for (const key of keys) this.#keys.set(key, new KeyHistory());
    for (const one of ran) this.#keys.get(one.parts[1]!)?.apply(one);
    for (const key of this.#keys.values()) key.end();
  }

  /** Judges that `key` was read as `value` by a call that began at `began`. Null: it never held that by `until`. */
  judge(key: string, value: string | null, began: number, until: number): Verdict | null {
    return this.#keys.get(key)!.judge(value, began, until);
  }
}
