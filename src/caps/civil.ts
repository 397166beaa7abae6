/**
 * Civil days, weeks and months of IANA time zones as spans of instants. The invariant: the windows of one zone follow each
 * other without gap or overlap, whatever its clocks do. A day begins at the first instant whose local date is it; a day that
 * a zone skips is no window.
 */

export type Period = "day" | "week" | "month";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Local dates lead or trail UTC's by no more than this. */
const MOST_OFFSET_MS = 16 * HOUR_MS;

/** Days since 1970-01-01 in a civil calendar. */
type DayNumber = number;

export class CivilClock {
  readonly #format: Intl.DateTimeFormat;
  readonly #starts = new Map<DayNumber, number>();

  /** @throws RangeError for a time zone that is not known */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat("en-US", {
      timeZone,
      calendar: "gregory",
      numberingSystem: "latn",
      era: "short",
      year: "numeric",
      month: "numeric",
      day: "numeric",
    });
  }

  /** Start of the window before the one that holds `instant`, of it, and of the two that follow. */
  around(period: Period, instant: number): [before: number, start: number, end: number, after: number] {
    let first = firstOf(period, this.#dayOf(instant));
    let start = this.#startOf(first);
    // Where clocks are put back over midnight, a date is shown, not shown, and shown again.
    while (start > instant) {
      first = previous(period, first);
      start = this.#startOf(first);
    }
    for (;;) {
      const following = next(period, first);
      const end = this.#startOf(following);
      if (end > instant) break;
      first = following;
      start = end;
    }
    let earlier = previous(period, first);
    while (this.#startOf(earlier) === start) earlier = previous(period, earlier);
    const later = this.#distinct(period, first, start);
    return [this.#startOf(earlier), start, later.start, this.#distinct(period, later.first, later.start).start];
  }

  /** The first window after `first` that begins later than `start`. */
  #distinct(period: Period, first: DayNumber, start: number): { first: DayNumber; start: number } {
    for (let following = next(period, first); ; following = next(period, following)) {
      const begins = this.#startOf(following);
      if (begins > start) return { first: following, start: begins };
    }
  }

  #dayOf(instant: number): DayNumber {
    let [year, month, day, negative] = [0, 0, 0, false];
    for (const { type, value } of this.#format.formatToParts(instant)) {
      if (type === "year") year = Number(value);
      else if (type === "month") month = Number(value);
      else if (type === "day") day = Number(value);
      else if (type === "era") negative = value.startsWith("B");
    }
    return dayNumber(negative ? 1 - year : year, month, day);
  }

  /** The first instant whose local date is `day` or later. */
  #startOf(day: DayNumber): number {
    const known = this.#starts.get(day);
    if (known !== undefined) return known;
    let low = day * DAY_MS - MOST_OFFSET_MS;
    let high = day * DAY_MS + MOST_OFFSET_MS;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.#dayOf(middle) >= day) high = middle;
      else low = middle;
    }
    if (this.#starts.size >= 64) this.#starts.clear();
    this.#starts.set(day, high);
    return high;
  }
}

function dayNumber(year: number, month: number, day: number): DayNumber {
  return Date.UTC(year, month - 1, day) / DAY_MS;
}

/** First day of the period that holds `day`. */
function firstOf(period: Period, day: DayNumber): DayNumber {
  if (period === "day") return day;
  const date = new Date(day * DAY_MS);
  // 1970-01-01 was a Thursday; weeks begin on Mondays.
  if (period === "week") return day - ((date.getUTCDay() + 6) % 7);
  return day - (date.getUTCDate() - 1);
}

function next(period: Period, first: DayNumber): DayNumber {
  if (period !== "month") return first + (period === "day" ? 1 : 7);
  const date = new Date(first * DAY_MS);
  return dayNumber(date.getUTCFullYear(), date.getUTCMonth() + 2, 1);
}

function previous(period: Period, first: DayNumber): DayNumber {
  return firstOf(period, first - 1);
}

/**
 * The windows of one period and zone as the scripts take them. Which one counts is decided by the server's clock: the text
 * holds the window of the client's time and its two neighbours.
 */
export class CivilWindows {
  readonly #period: Period;
  readonly #clock: CivilClock;
  /** The window last asked for is `[from, until)`. */
  from = Infinity;
  until = -Infinity;
  /** It and its neighbours: `c` and four boundaries, the second of which is `from`. */
  text = "";

  /** @throws RangeError for a time zone that is not known */
  constructor(period: Period, timeZone: string) {
    this.#period = period;
    this.#clock = new CivilClock(timeZone);
  }

  /** Moves to the window that holds `now`. */
  at(now: number): this {
    if (now >= this.from && now < this.until) return this;
    const boundaries = this.#clock.around(this.#period, now);
    [, this.from, this.until] = boundaries;
    this.text = `c${boundaries.join(" ")}`;
    return this;
  }
}
