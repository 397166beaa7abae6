/**
 * keylane as Prometheus metrics. The invariant: the number of series is bounded by the options, not by the traffic: of keys only
 * the hottest `topK` have one, for as long as they are hot.
 */
import { register as globalRegister } from "prom-client";
import { KeylaneError } from "../errors.js";
import type { Stats } from "../types.js";
import { statsReadings } from "./counters.js";
import { keyLabel } from "./label.js";
import { ReadingMetric } from "./reading.js";
import type { Reading, Register, Series } from "./reading.js";

/** A hot key, as far as metrics tell it. */
interface HotKey {
  readonly domain: string;
  readonly key: string;
  readonly level: string;
  readonly rate: number;
}

/** What metrics are read from: a `Keylane`. */
export interface MetricsSource {
  stats(): Stats;
  readonly hotKeys?: { list(): readonly HotKey[]; stats(): HotKeyCounters };
}

interface HotKeyCounters {
  readonly counting: boolean;
  readonly hits: number;
  readonly reported: number;
  readonly recovered: number;
  readonly refused: number;
}

/** Options of `keylaneMetrics`. */
export interface MetricsOptions {
  /** Where the metrics go. Default: prom-client's global register. */
  readonly register?: Register;
  /** Hot keys that have a series, 1 to 1,000. Default 100. */
  readonly topK?: number;
}

/** Registered metrics. */
export interface KeylaneMetrics {
  readonly register: Register;
  /** Takes the metrics out of the register. */
  unregister(): void;
}

const HOT_COUNTERS = {
  hits: ["hotkey_hits_total", "Operations counted, of all threads."],
  reported: ["hotkey_reports_total", "Times that a key was reported as hot."],
  recovered: ["hotkey_recoveries_total", "Times that a hot key was cold again."],
  refused: ["hotkey_refusals_total", "Hot keys that found no place in the list."],
} as const;

const MOST_KEYS = 1000;

/**
 * Registers metrics that each scrape reads from `lanes`: what `stats()` tells, by domain and node, the hot keys and their rates.
 * Nothing is kept between scrapes. O(domains × nodes + topK) a scrape, and the cost of one `stats()`.
 *
 * ```ts
 * keylaneMetrics(lanes);
 * server.get("/metrics", async (_, reply) => reply.send(await register.metrics()));      // prom-client's register
 * ```
 *
 * @throws KeylaneError `KEYLANE_ERR_ARGUMENT` for a `topK` out of range, and a register that has such metrics already
 */
export function keylaneMetrics(lanes: MetricsSource, options: MetricsOptions = {}): KeylaneMetrics {
  const { register = globalRegister, topK = 100 } = options;
  if (!Number.isInteger(topK) || topK < 1 || topK > MOST_KEYS) {
    throw new KeylaneError(
      "KEYLANE_ERR_ARGUMENT",
      `keylaneMetrics: topK must be a whole number from 1 to ${MOST_KEYS}`,
    );
  }
  const readings = [...statsReadings(onceATurn(() => lanes.stats())), ...hotReadings(lanes, topK)];
  const names = readings.map(({ name }) => `keylane_${name}`);
  const taken = names.find((name) => register.getSingleMetric(name) !== undefined);
  if (taken !== undefined) {
    throw new KeylaneError("KEYLANE_ERR_ARGUMENT", `keylaneMetrics: the register has ${taken} already`);
  }
  for (const reading of readings) register.registerMetric(new ReadingMetric(reading));
  return {
    register,
    unregister() {
      for (const name of names) register.removeSingleMetric(name);
    },
  };
}

function hotReadings(lanes: MetricsSource, topK: number): Reading[] {
  const counters = Object.entries(HOT_COUNTERS).map(([field, [name, help]]): Reading => ({
    type: "counter",
    name,
    help,
    labels: [],
    read: () => hotCounter(lanes, field as keyof typeof HOT_COUNTERS),
  }));
  const labels = ["domain", "key", "level"];
  return [
    {
      type: "gauge",
      name: "hotkey_rate",
      help: "Operations a second of a hot key.",
      labels,
      read: () => hottest(lanes, topK),
    },
    { type: "gauge", name: "hotkeys", help: "Hot keys.", labels: ["domain", "level"], read: () => hotCounts(lanes) },
    ...counters,
  ];
}

function hotCounter({ hotKeys }: MetricsSource, field: keyof typeof HOT_COUNTERS): Series[] {
  const stats = hotKeys?.stats();
  return stats?.counting === true ? [{ labels: {}, value: stats[field] }] : [];
}

/** The hottest keys. Keys whose labels are the same are one series, with the higher rate. */
function hottest({ hotKeys }: MetricsSource, topK: number): Series[] {
  const coldest = (hotKeys?.list() ?? [])
    .toSorted((a, b) => b.rate - a.rate)
    .slice(0, topK)
    .toReversed();
  return coldest.map(({ domain, key, level, rate }) => ({
    labels: { domain, key: keyLabel(key), level },
    value: rate,
  }));
}

function hotCounts({ hotKeys }: MetricsSource): Series[] {
  const counts = new Map<string, { labels: { domain: string; level: string }; value: number }>();
  for (const { domain, level } of hotKeys?.list() ?? []) {
    const name = JSON.stringify([domain, level]);
    const known = counts.get(name);
    if (known === undefined) counts.set(name, { labels: { domain, level }, value: 1 });
    else known.value += 1;
  }
  return [...counts.values()];
}

/** A register asks all its metrics in one go: what the first got is good for the others. */
function onceATurn<T>(read: () => T): () => T {
  let held: { readonly value: T } | null = null;
  return () => {
    if (held === null) {
      held = { value: read() };
      queueMicrotask(() => {
        held = null;
      });
    }
    return held.value;
  };
}
