/**
 * Prometheus's text format read strictly, after its description: a line is `# HELP`, `# TYPE` or a sample; a metric's lines stand
 * together, type before samples; names and escapes are valid; no two samples have the same labels; the text ends with a newline.
 */
import assert from "node:assert/strict";

/** One sample. */
export interface Sample {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
}

/** A page of metrics. */
export interface Exposition {
  readonly types: ReadonlyMap<string, string>;
  readonly samples: readonly Sample[];
  /** Value of the one sample of that name with these labels among its own; undefined when there is none. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined;
  /** All samples of a name. */
  of(name: string): Sample[];
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/s;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/gy;
const NUMBER = /^(?:[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]Inf|NaN)$/i;

/** Reads a page; an error names the line that is wrong. */
export function readExposition(text: string): Exposition {
  assert.ok(text.endsWith("\n"), "the text does not end with a newline");
  const types = new Map<string, string>();
  const samples: Sample[] = [];
  const seen = new Set<string>();
  let metric = "";
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") {
      assert.ok(!types.has(name!), `${name} is described twice`);
      metric = name!;
    } else if (kind === "TYPE") {
      assert.equal(name, metric, line);
      assert.match(rest!, /^(counter|gauge|histogram|summary|untyped)$/, line);
      types.set(name!, rest!);
    } else {
      const sample = sampleOf(line);
      assert.equal(sample.name, metric, `a sample among those of ${metric}: ${line}`);
      assert.ok(types.has(metric), `no type before ${line}`);
      const identity = JSON.stringify([sample.name, [...sample.labels].toSorted()]);
      assert.ok(!seen.has(identity), `told twice: ${line}`);
      seen.add(identity);
      samples.push(sample);
    }
  }
  const of = (name: string): Sample[] => samples.filter((sample) => sample.name === name);
  return {
    types,
    samples,
    of,
    value(name, labels = {}) {
      const wanted = Object.entries(labels);
      const found = of(name).filter((sample) => wanted.every(([label, value]) => sample.labels.get(label) === value));
      assert.ok(found.length <= 1, `${name} has ${found.length} such samples`);
      return found[0]?.value;
    },
  };
}

function sampleOf(line: string): Sample {
  const parts = SAMPLE.exec(line);
  assert.ok(parts !== null && NUMBER.test(parts[3]!), `not a sample: ${line}`);
  const [, name, list = "", value] = parts;
  const labels = new Map<string, string>();
  LABEL.lastIndex = 0;
  let end = 0;
  for (let found = LABEL.exec(list); found !== null; found = LABEL.exec(list)) {
    assert.ok(!labels.has(found[1]!), `a label twice: ${line}`);
    labels.set(
      found[1]!,
      found[2]!.replaceAll(/\\(.)/g, (_, one: string) => (one === "n" ? "\n" : one)),
    );
    end = LABEL.lastIndex;
  }
  assert.equal(end, list.length, `labels that cannot be read: ${line}`);
  return { name: name!, labels, value: Number(value!.replace("Inf", "Infinity")) };
}
