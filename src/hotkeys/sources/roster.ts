/**
 * What all other processes say, by holder. The invariant: a holder counts while its beat number changes, as seen by this
 * process's monotonic clock; no clocks of two processes are ever compared. A holder that fell silent counts again only with a
 * beat it has not had, so an old document that is still found revives nothing.
 */
import { byHeat, isHolder, MAX_KEYS, readDocument, shapeOf } from "./document.js";
import type { SharedHotKey } from "./source.js";

/** Holders beyond that are not listened to. */
const MAX_HOLDERS = 1024;
/** A holder is silent after so many of its beats. */
const SILENT_BEATS = 3;

interface Holder {
  text: string;
  beat: number;
  heardAt: number;
  silenceMs: number;
  keys: readonly SharedHotKey[];
  /** What the keys say apart from rates. */
  shape: string;
  silent: boolean;
}

const NOTHING = shapeOf([]);

/** How the roster is set up. */
export interface RosterOptions {
  /** This process's holder, which is passed over. */
  readonly own: string;
  /** Beat of this process in milliseconds; nobody is silent sooner than after three of them. */
  readonly beatMs: number;
  /** A monotonic clock in milliseconds. */
  readonly clock: () => number;
  /** Told when what is found under a name is no good, and with null when that is over. */
  readonly bad: (name: string, reason: string | null) => void;
}

export class Roster {
  readonly #options: RosterOptions;
  readonly #holders = new Map<string, Holder>();
  /** Text or message of what was no good, by name. */
  readonly #bad = new Map<string, string>();
  /** What changed since it was last taken: keys and what is done about them, or their rates alone. */
  #keysChanged = false;
  #ratesChanged = false;
  #tickedAt: number;

  constructor(options: RosterOptions) {
    this.#options = options;
    this.#tickedAt = options.clock();
  }

  /** Everything that is there; holders in `newer` have been heard of since it was looked up, and stay as they are. */
  all(texts: ReadonlyMap<string, string | Error>, newer: ReadonlySet<string>): void {
    for (const name of [...this.#holders.keys(), ...this.#bad.keys()]) {
      if (!texts.has(name) && !newer.has(name)) this.remove(name);
    }
    for (const [name, text] of texts) {
      if (!newer.has(name)) this.put(name, text);
    }
  }

  /** A document, or why it cannot be read. */
  put(name: string, text: string | Error): void {
    const { own, clock, beatMs } = this.#options;
    if (name === own) return;
    const known = this.#holders.get(name);
    if (known?.text === text) return;
    if (known === undefined && isHolder(name) && this.#holders.size >= MAX_HOLDERS) {
      return this.#spoil(name, "", `there are more than ${MAX_HOLDERS} holders`);
    }
    if (text instanceof Error) return this.#spoil(name, text.message, text.message);
    if (this.#bad.get(name) === text) return;
    try {
      const { beat, keys, beatMs: theirs } = readDocument(name, text);
      this.#heal(name);
      if (known !== undefined && beat <= known.beat) return;
      const silenceMs = SILENT_BEATS * Math.max(beatMs, theirs);
      const shape = shapeOf(keys);
      if (shape === (known?.shape ?? NOTHING)) this.#ratesChanged = true;
      else this.#keysChanged = true;
      this.#holders.set(name, { text, beat, heardAt: clock(), silenceMs, keys, shape, silent: false });
    } catch (error) {
      this.#forget(name);
      this.#spoil(name, text, (error as Error).message);
    }
  }

  /** The document is gone. */
  remove(name: string): void {
    this.#forget(name);
    this.#heal(name);
  }

  /**
   * Time has passed: drops who is silent, and gives their names and documents. Time in which this process itself stood
   * still is nobody's silence.
   */
  tick(): [holder: string, text: string][] {
    const now = this.#options.clock();
    const stood = Math.max(0, now - this.#tickedAt - this.#options.beatMs);
    this.#tickedAt = now;
    const fallen: [string, string][] = [];
    for (const [name, holder] of this.#holders) {
      holder.heardAt += stood;
      if (holder.silent || now - holder.heardAt < holder.silenceMs) continue;
      if (holder.shape !== NOTHING) this.#keysChanged = true;
      holder.silent = true;
      holder.keys = [];
      holder.shape = NOTHING;
      fallen.push([name, holder.text]);
    }
    return fallen;
  }

  /**
   * What all say together if it has changed since it was last taken, else null; with `rates` false a change of rates alone is
   * left for later. O(all keys of all holders).
   */
  take(rates: boolean): SharedHotKey[] | null {
    if (!this.#keysChanged && !(rates && this.#ratesChanged)) return null;
    this.#keysChanged = false;
    this.#ratesChanged = false;
    return this.#merged();
  }

  /**
   * Each key once, the hottest first, at most 1,000: its highest level, the sum of its rates, and the replicas that the
   * holder with the lowest id names, so that all processes settle on the same.
   */
  #merged(): SharedHotKey[] {
    const found = new Map<string, SharedHotKey>();
    for (const name of [...this.#holders.keys()].toSorted()) {
      for (const entry of this.#holders.get(name)!.keys) {
        const id = `${entry.domain}\0${entry.key}`;
        const before = found.get(id);
        found.set(id, before === undefined ? entry : joined(before, entry));
      }
    }
    return [...found.values()].toSorted(byHeat).slice(0, MAX_KEYS);
  }

  #forget(name: string): void {
    const holder = this.#holders.get(name);
    if (holder === undefined) return;
    this.#holders.delete(name);
    if (holder.shape !== NOTHING) this.#keysChanged = true;
  }

  #spoil(name: string, text: string, reason: string): void {
    if (this.#bad.size >= MAX_HOLDERS && !this.#bad.has(name)) return;
    if (this.#bad.get(name) === text) return;
    this.#bad.set(name, text);
    this.#options.bad(name, reason);
  }

  #heal(name: string): void {
    if (this.#bad.delete(name)) this.#options.bad(name, null);
  }
}

function joined(a: SharedHotKey, b: SharedHotKey): SharedHotKey {
  return {
    domain: a.domain,
    key: a.key,
    level: a.level === "critical" ? a.level : b.level,
    rate: a.rate + b.rate,
    replicas: a.replicas.length > 0 ? a.replicas : b.replicas,
  };
}
