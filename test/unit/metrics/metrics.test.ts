/** Metrics: what a scrape tells, that it is valid, and that the number of series is bounded. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { keylaneMetrics } from "keylane";
import type { MetricsSource, Stats } from "keylane";
import { Registry } from "prom-client";
import type { OpenMetricsContentType } from "prom-client";
import { keyLabel, MAX_LABEL } from "#dist/metrics/label.js";
import { readExposition, type Exposition } from "../../support/exposition.js";
import { thrown } from "../../support/lanes.js";

type HotKeys = NonNullable<MetricsSource["hotKeys"]>;
type HotKey = ReturnType<HotKeys["list"]>[number];

const DOMAIN = {
  commands: 10,
  succeeded: 8,
  failed: 2,
  timeouts: 1,
  overloaded: 0,
  moved: 3,
  asked: 0,
  retries: 4,
  bytesSent: 2 ** 40,
  bytesReceived: 7,
  writes: 5,
  reconnects: 0,
  refreshes: 1,
  pending: 6,
  nodes: [
    { node: "10.0.0.1:6379", role: "primary", state: "ready", slots: 16_384, inFlight: 2, waiting: 0 },
    { node: "10.0.0.2:6379", role: "replica", state: "down", slots: 0, inFlight: 0, waiting: 9 },
  ],
} as const;

function statsOf(...domains: string[]): Stats {
  const caps = { allowed: 1, denied: 2, cached: 3, degraded: 4, repaired: 5 };
  // Made as `stats()` makes it: a name may be one that objects have already.
  const named = {};
  for (const domain of domains) Object.defineProperty(named, domain, { value: DOMAIN, enumerable: true });
  return { native: "rust", cache: null, caps, domains: named } as Stats;
}

/** A stand-in for a `Keylane` whose hot keys are `keys`. */
function source(keys: HotKey[], stats: Stats = statsOf("user_profile")): MetricsSource {
  const counters = { counting: true, hits: 5e9, reported: 3, recovered: 2, refused: 1 };
  return { stats: () => stats, hotKeys: { list: () => keys, stats: () => counters } };
}

async function scrape(register: Registry): Promise<Exposition> {
  return readExposition(await register.metrics());
}

const hot = (key: string, rate: number, level = "warn", domain = "user_profile"): HotKey => ({
  domain,
  key,
  level,
  rate,
});

describe("keylaneMetrics", () => {
  it("tells the counters by domain and node", async () => {
    const register = new Registry();
    keylaneMetrics(source([]), { register });
    const page = await scrape(register);
    assert.equal(page.value("keylane_commands_total", { domain: "user_profile" }), 10);
    assert.equal(page.value("keylane_bytes_sent_total"), 2 ** 40);
    assert.equal(page.value("keylane_pending"), 6);
    assert.equal(page.value("keylane_node_up", { node: "10.0.0.1:6379", role: "primary" }), 1);
    assert.equal(page.value("keylane_node_up", { node: "10.0.0.2:6379", role: "replica" }), 0);
    assert.equal(page.value("keylane_node_waiting", { node: "10.0.0.2:6379" }), 9);
    assert.equal(page.value("keylane_caps_denied_total"), 2);
    assert.equal(page.value("keylane_hotkey_hits_total"), 5e9);
    assert.equal(page.types.get("keylane_commands_total"), "counter");
    assert.equal(page.types.get("keylane_pending"), "gauge");
    const names = new Set([...page.types].filter(([, type]) => type === "counter").map(([name]) => name));
    assert.ok([...names].every((name) => name.endsWith("_total")));
  });

  it("tells OpenMetrics of counters by their names", async () => {
    const register = new Registry<OpenMetricsContentType>();
    register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
    keylaneMetrics(source([hot("up:1", 6000)]), { register });
    const text = await register.metrics();
    assert.match(text, /^# TYPE keylane_commands counter$/m);
    assert.match(text, /^keylane_commands_total\{domain="user_profile"\} 10$/m);
    assert.match(text, /^keylane_hotkey_rate\{domain="user_profile",key="up:1",level="warn"\} 6000$/m);
    assert.ok(text.endsWith("# EOF\n"));
  });

  it("O4: has a series for each of the topK hottest keys, and for none that is no longer hot", async () => {
    const keys: HotKey[] = [];
    const register = new Registry();
    keylaneMetrics(source(keys), { register, topK: 50 });
    const counts = new Set<number>();
    for (let wave = 0; wave < 100; wave += 1) {
      keys.splice(0, keys.length, ...Array.from({ length: 1000 }, (_, i) => hot(`up:${wave}:${i}`, 5000 + i)));
      const page = await scrape(register);
      const told = page.of("keylane_hotkey_rate");
      assert.equal(told.length, 50);
      assert.ok(told.every(({ labels, value }) => labels.get("key")!.startsWith(`up:${wave}:`) && value >= 5950));
      assert.equal(page.value("keylane_hotkeys", { level: "warn" }), 1000);
      counts.add(page.samples.length);
    }
    assert.equal(counts.size, 1, "100,000 distinct keys later there are as many series as at first");
    keys.length = 0;
    assert.deepEqual((await scrape(register)).of("keylane_hotkey_rate"), []);
  });

  it("O4: what is not known is absent, not 0", async () => {
    const register = new Registry();
    const stats = statsOf("user_profile");
    const counters = { counting: false, hits: 0, reported: 0, recovered: 0, refused: 0 };
    keylaneMetrics({ stats: () => stats, hotKeys: { list: () => [], stats: () => counters } }, { register });
    const page = await scrape(register);
    for (const name of page.types.keys()) {
      const known = page.of(name).length > 0;
      assert.equal(known, !/^keylane_(cache_|hotkey)/.test(name), name);
    }
    const bare = new Registry();
    keylaneMetrics({ stats: () => stats }, { register: bare });
    assert.deepEqual((await scrape(bare)).of("keylane_hotkey_hits_total"), []);
    const odd = new Registry();
    keylaneMetrics(source([hot("up:1", Number.NaN), hot("up:2", Infinity)]), { register: odd });
    assert.deepEqual((await scrape(odd)).of("keylane_hotkey_rate"), []);
  });

  it("O4: takes names that objects have already, and text of any kind", async () => {
    const names = ["__proto__", "constructor", "toString", 'quo"te', "back\\slash", "new\nline", "a,key:b"];
    const keys = names.flatMap((domain) => names.map((key, at) => hot(key, 5000 + at, "warn", domain)));
    const register = new Registry();
    keylaneMetrics(source(keys, statsOf(...names)), { register });
    const page = await scrape(register);
    for (const domain of names) {
      assert.equal(page.value("keylane_commands_total", { domain }), 10, domain);
      assert.equal(page.value("keylane_hotkeys", { domain }), names.length, domain);
      for (const [at, key] of names.entries()) {
        assert.equal(page.value("keylane_hotkey_rate", { domain, key: keyLabel(key) }), 5000 + at);
      }
    }
    assert.equal(({} as Record<string, unknown>)["level"], undefined);
  });

  it("tells keys with the same label once, with the higher rate; the level is that of now", async () => {
    const keys = [hot("a\u0001", 9000, "critical"), hot(String.raw`a\x01`, 7000, "critical"), hot("b", 1, "warn")];
    const register = new Registry();
    keylaneMetrics(source(keys), { register });
    assert.equal((await scrape(register)).value("keylane_hotkey_rate", { key: String.raw`a\x01` }), 9000);
    keys[2] = hot("b", 2, "critical");
    const page = await scrape(register);
    assert.deepEqual(page.of("keylane_hotkey_rate").filter(({ labels }) => labels.get("key") === "b").length, 1);
    assert.equal(page.value("keylane_hotkey_rate", { key: "b", level: "critical" }), 2);
  });

  it("reads stats() once a scrape", async () => {
    let reads = 0;
    const stats = (): Stats => {
      reads += 1;
      return { ...statsOf("d"), native: "rust" };
    };
    const register = new Registry();
    keylaneMetrics({ stats }, { register });
    await register.metrics();
    await register.metrics();
    assert.equal(reads, 2);
  });

  it("can be taken out of the register, and is not put in twice", async () => {
    const register = new Registry();
    const metrics = keylaneMetrics(source([]), { register });
    assert.equal(metrics.register, register);
    thrown(() => keylaneMetrics(source([]), { register }), "KEYLANE_ERR_ARGUMENT", { message: /has keylane_/ });
    metrics.unregister();
    assert.equal(await register.metrics(), "\n");
    keylaneMetrics(source([]), { register }).unregister();
    for (const topK of [0, 1001, 1.5, Number.NaN]) {
      thrown(() => keylaneMetrics(source([]), { register, topK }), "KEYLANE_ERR_ARGUMENT", { message: /topK/ });
    }
  });
});

describe("a key as a label", () => {
  it("is printable, bounded, and does not become another key's", () => {
    assert.equal(keyLabel("up:é"), "up:é");
    assert.equal(keyLabel("a\u0000\n\u202e"), String.raw`a\x00\x0a\xe2\x80\xae`);
    assert.equal(keyLabel("k".repeat(MAX_LABEL)), "k".repeat(MAX_LABEL));
    const long = ["x", "y"].map((end) => keyLabel("k".repeat(1_000_000) + end));
    assert.notEqual(long[0], long[1]);
    for (const label of [...long, keyLabel("\u0000".repeat(128)), keyLabel("😀".repeat(300)), keyLabel("\ud800")]) {
      assert.ok(label.length <= MAX_LABEL && label.isWellFormed() && !/\p{C}/u.test(label), label);
    }
  });
});
