/**
 * A metric that keeps nothing: each scrape reads its values anew. The invariant: a series is there as long as what it tells of, no
 * longer; and no two series of one metric have the same labels.
 */
import { Gauge } from "prom-client";
import type { OpenMetricsContentType, PrometheusContentType, Registry } from "prom-client";

/** Labels of a series, by name. */
export type Labels = Readonly<Record<string, string>>;

/** One series now. */
export interface Series {
  readonly labels: Labels;
  readonly value: number;
}

/** What a metric is called and where its values come from. */
export interface Reading {
  readonly type: "counter" | "gauge";
  /** Without the prefix `keylane_`; a counter's ends in `_total`. */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  read(): Iterable<Series>;
}

/** A register of either text format. */
export type Register = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>;

export class ReadingMetric extends Gauge {
  readonly #reading: Reading;
  /** How the metric is told; prom-client reads it. */
  readonly type: Reading["type"];

  /** It is in no register yet. */
  constructor(reading: Reading) {
    const { name, help, labels } = reading;
    super({ name: `keylane_${name}`, help, labelNames: labels, registers: [] });
    this.#reading = reading;
    this.type = reading.type;
  }

  override async get(): ReturnType<Gauge["get"]> {
    // Before the first await, so that all metrics of a scrape are read in one go.
    const series = new Map<string, Series>();
    for (const one of this.#reading.read()) {
      // What is not known is absent, never 0.
      if (Number.isFinite(one.value)) series.set(JSON.stringify(one.labels), one);
    }
    const told = await super.get();
    return Object.assign(told, { type: this.type, values: [...series.values()] }) as unknown as typeof told;
  }
}
