/** Civil windows against a naive model: the local date of every instant, as Intl tells it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { assert as check, constantFrom, integer, property } from "fast-check";
import { CivilClock, CivilWindows } from "#dist/caps/civil.js";
import type { Period } from "#dist/caps/civil.js";

const HOUR = 3_600_000;
const PERIODS: readonly Period[] = ["day", "week", "month"];
/** Clocks that change by an hour, half an hour, at midnight, over midnight, and a date that was skipped. */
const ZONES = [
  "UTC",
  "America/Los_Angeles",
  "Europe/Berlin",
  "Australia/Lord_Howe",
  "America/Havana",
  "America/Sao_Paulo",
  "Asia/Beirut",
  "Africa/Cairo",
  "America/St_Johns",
  "Pacific/Apia",
  "Pacific/Kiritimati",
  "Asia/Kathmandu",
];

const formats = new Map<string, Intl.DateTimeFormat>();

/** `2026-03-29` of an instant in a zone. */
function localDate(zone: string, instant: number): string {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" });
    formats.set(zone, format);
  }
  return format.format(instant);
}

/** First date of the period of a date. */
function firstDate(period: Period, date: string): string {
  if (period === "day") return date;
  if (period === "month") return `${date.slice(0, 8)}01`;
  const day = new Date(`${date}T00:00:00Z`);
  day.setUTCDate(day.getUTCDate() - ((day.getUTCDay() + 6) % 7));
  return day.toISOString().slice(0, 10);
}

const instants = integer({ min: Date.UTC(2005, 0, 1), max: Date.UTC(2034, 11, 31) });

describe("civil windows", () => {
  it("hold the instants of their dates, and begin with the first of them", () => {
    check(
      property(constantFrom(...ZONES), constantFrom(...PERIODS), instants, (zone, period, instant) => {
        const [before, start, end, after] = new CivilClock(zone).around(period, instant);
        assert.ok(before < start && start <= instant && instant < end && end < after, `${start} ${instant} ${end}`);
        const first = firstDate(period, localDate(zone, start));
        assert.ok(first <= localDate(zone, start));
        assert.notEqual(
          firstDate(period, localDate(zone, start - 1)),
          first,
          "the instant before is in another window",
        );
        // Where clocks go back over midnight, the hour after it shows the old date again.
        const shown = firstDate(period, localDate(zone, instant));
        const repeated = instant - start < 2 * HOUR && shown === firstDate(period, localDate(zone, start - 1));
        assert.ok(shown === first || repeated, `${shown} is not ${first}`);
      }),
      { numRuns: 400 },
    );
  });

  it("follow each other without gap, from whichever instant they are asked for", () => {
    check(
      property(constantFrom(...ZONES), constantFrom(...PERIODS), instants, (zone, period, instant) => {
        const clock = new CivilClock(zone);
        const [before, start, end, after] = clock.around(period, instant);
        assert.deepEqual(clock.around(period, end).slice(0, 3), [start, end, after]);
        assert.deepEqual(clock.around(period, start), [before, start, end, after]);
        assert.deepEqual(clock.around(period, end - 1), [before, start, end, after]);
        assert.deepEqual(new CivilClock(zone).around(period, start - 1).slice(1), [before, start, end]);
      }),
      { numRuns: 200 },
    );
  });

  it("days of clock changes have 23, 25 and 23.5 hours; a day may begin at one o'clock; a skipped date is no day", () => {
    const hours = (zone: string, instant: string, period: Period = "day"): number => {
      const [, start, end] = new CivilClock(zone).around(period, Date.parse(instant));
      return (end - start) / HOUR;
    };
    assert.equal(hours("America/Los_Angeles", "2026-03-08T20:00:00Z"), 23);
    assert.equal(hours("America/Los_Angeles", "2026-11-01T20:00:00Z"), 25);
    assert.equal(hours("Europe/Berlin", "2026-03-29T12:00:00Z"), 23);
    assert.equal(hours("Europe/Berlin", "2026-10-25T12:00:00Z"), 25);
    assert.equal(hours("Europe/Berlin", "2026-03-25T12:00:00Z", "week"), 167);
    assert.equal(hours("Europe/Berlin", "2026-10-05T12:00:00Z", "month"), 31 * 24 + 1);
    assert.equal(hours("Australia/Lord_Howe", "2026-10-04T03:00:00Z"), 23.5);
    assert.equal(hours("America/Sao_Paulo", "2018-11-04T15:00:00Z"), 23);
    const [, start] = new CivilClock("America/Sao_Paulo").around("day", Date.parse("2018-11-04T15:00:00Z"));
    assert.equal(new Date(start).toISOString(), "2018-11-04T03:00:00.000Z");
    const [, thursday, saturday] = new CivilClock("Pacific/Apia").around("day", Date.parse("2011-12-30T05:00:00Z"));
    assert.deepEqual(
      [localDate("Pacific/Apia", thursday), localDate("Pacific/Apia", saturday)],
      ["2011-12-29", "2011-12-31"],
    );
    assert.equal(saturday - thursday, 24 * HOUR);
  });

  it("weeks begin on Mondays, months on the first", () => {
    const at = Date.parse("2026-11-30T04:00:00Z");
    const [, monday] = new CivilClock("America/New_York").around("week", at);
    assert.equal(localDate("America/New_York", monday), "2026-11-23");
    const [, first, next] = new CivilClock("Asia/Tokyo").around("month", at);
    assert.deepEqual([localDate("Asia/Tokyo", first), localDate("Asia/Tokyo", next)], ["2026-11-01", "2026-12-01"]);
  });

  it("are sent as four boundaries, the same text while the window lasts; unknown zones are refused", () => {
    const windows = new CivilWindows("day", "UTC");
    const noon = Date.UTC(2026, 10, 30, 12);
    const day = 24 * HOUR;
    const text = `c${[-36, -12, 12, 36].map((hours) => noon + hours * HOUR).join(" ")}`;
    assert.equal(windows.at(noon).text, text);
    assert.equal(windows.at(noon + 12 * HOUR - 1).text, text);
    assert.equal(windows.at(noon + day).text, `c${[-12, 12, 36, 60].map((hours) => noon + hours * HOUR).join(" ")}`);
    assert.throws(() => new CivilWindows("day", "Mars/Olympus"), RangeError);
  });
});
