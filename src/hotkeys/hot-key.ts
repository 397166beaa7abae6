/** One key that the governor follows: what it is, where it stands, and since when. */
import type { SharedHotKey } from "./sources/source.js";
import type { HotLevel, HotState } from "./types.js";

/** How long a key that changes too often is not copied: at first, and, doubled each time, at most. */
const FIRST_REST_MS = 30_000;
const LONGEST_REST_MS = 480_000;

export class HotKey {
  /** Tells keys apart; see `HotRow`. */
  readonly id: string;
  readonly key: string;
  readonly domain: number;
  /** Something can and may be done about it. */
  readonly actable: boolean;
  /** Operations a second, by this process's count: for certain, at most, and the most so far. */
  rate = 0;
  upper = 0;
  peak = 0;
  state: HotState = "warm";
  /** The highest level reached. */
  level: HotLevel = "warn";
  /** Hot by this process's own count. */
  own = false;
  /** Copies asked for with `pin`; null when it is not pinned. */
  pinned: number | null = null;
  /** What other processes say of it. */
  remote: SharedHotKey | null = null;
  /** Reported since it became hot. */
  reported = false;
  hotSince: number;
  stateSince: number;
  /** Windows that it has been cooling. */
  calm = 0;
  /** Bytes of its value when it became hot; null when that is not known. */
  valueBytes: number | null = null;
  /** That was asked for, and not answered yet. */
  measuring = false;
  measured = false;
  /** Full names of the copies of its value, as they were published last. */
  replicas: readonly string[] = [];
  /** Copies that this process was asked to make. */
  copies = 0;
  /** … however often it changes. */
  always = false;
  /** It changed too often for copies: until when none are tried, and how long that is next time. */
  restlessUntil = -Infinity;
  restMs = FIRST_REST_MS;
  /** A report that is due: its level, since when, and the rate then. */
  due: { readonly level: HotLevel; readonly since: number; readonly rate: number } | null = null;

  constructor(id: string, key: string, domain: number, actable: boolean, now: number) {
    this.id = id;
    this.key = key;
    this.domain = domain;
    this.actable = actable;
    this.hotSince = now;
    this.stateSince = now;
  }

  /** Nothing makes it hot any more. */
  get cold(): boolean {
    return !this.own && this.pinned === null && this.remote === null;
  }

  /** It changes too often for copies. */
  rest(now: number): void {
    this.restlessUntil = now + this.restMs;
    this.restMs = Math.min(LONGEST_REST_MS, this.restMs * 2);
  }

  /** Enters a state, unless it is there. */
  enter(state: HotState, now: number): void {
    if (this.state === state) return;
    this.state = state;
    this.stateSince = now;
    this.calm = 0;
  }
}
