/** Options: every fault is named by its path, several at once, and defaults are what the documentation says. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { KeylaneError } from "keylane";
import type { OpenOptions } from "keylane";

import { resolveOptions } from "#dist/options.js";

const nodes = ["127.0.0.1:7001"];
const one = (domain: object, rest: object = {}): unknown => ({ domains: { a: { nodes, ...domain } }, ...rest });

/** The message with which `options` are refused. */
function refusal(options: unknown): string {
  try {
    resolveOptions(options as OpenOptions);
  } catch (error) {
    assert.ok(error instanceof KeylaneError);
    assert.equal(error.code, "KEYLANE_ERR_OPTIONS");
    assert.equal(error.outcome, "not-sent");
    return error.message;
  }
  throw new assert.AssertionError({ message: `accepted: ${JSON.stringify(options)}` });
}

test("defaults", () => {
  const { lanes, prefixes, fallback } = resolveOptions({ domains: { a: { nodes, prefixes: ["up:"] } } });
  assert.deepEqual(prefixes, [{ prefix: "up:", domain: 0 }]);
  assert.deepEqual(fallback, { kind: "reject" });
  assert.deepEqual(lanes, [
    {
      domain: "a",
      index: 0,
      mode: "cluster",
      seeds: [{ host: "127.0.0.1", port: 7001 }],
      ring: [],
      ejectMs: undefined,
      sentinels: undefined,
      codec: "utf8",
      credentials: {},
      tls: undefined,
      db: undefined,
      connectionName: "keylane",
      natMap: undefined,
      scaleReads: "master",
      connectTimeoutMs: 5000,
      commandTimeoutMs: 1000,
      silenceTimeoutMs: 2000,
      refreshIntervalMs: 15_000,
      refreshMinimumMs: 500,
      maxRedirections: 16,
      maxQueue: 65_536,
      maxQueueBytes: 64 << 20,
      maxKeyBytes: 1 << 20,
      maxValueBytes: 512 << 20,
    },
  ]);
});

test("seeds: host:port split at the last colon, brackets around IPv6 taken off, objects as they are", () => {
  const seeds = ["[::1]:7001", "::1:7002", "node-a.example:7003", { host: "10.0.0.1", port: 7004 }];
  const [lane] = resolveOptions({ domains: { a: { nodes: seeds } } }).lanes;
  assert.deepEqual(lane!.seeds, [
    { host: "::1", port: 7001 },
    { host: "::1", port: 7002 },
    { host: "node-a.example", port: 7003 },
    { host: "10.0.0.1", port: 7004 },
  ]);
});

test("unknown options are refused at every level, all of them in one message", () => {
  const message = refusal({
    domains: { a: { nodes, prefixs: ["up:"], cache: { mode: "all", ttl: 1 } } },
    comandTimeoutMs: 5,
  });
  assert.match(message, /domains\.a: .*"prefixs"/);
  assert.match(message, /domains\.a\.cache: .*"ttl"/);
  assert.match(message, /options: .*"comandTimeoutMs"/);
});

test("what is no options object is refused", () => {
  for (const options of [undefined, null, 5, "x"]) assert.match(refusal(options), /^options: /);
  assert.match(refusal({}), /^domains: /);
  assert.equal(refusal({ domains: {} }), "domains: at least one is needed");
});

test("each domain option names its path", () => {
  const faults: [object, string][] = [
    [{ nodes: [] }, "domains.a.nodes"],
    [{ nodes: ["nowhere"] }, "domains.a.nodes.0"],
    [{ nodes: ["ok:1", "h:0"] }, "domains.a.nodes.1"],
    [{ nodes: ["h:65536"] }, "domains.a.nodes.0"],
    [{ nodes: [":7001"] }, "domains.a.nodes.0"],
    [{ nodes: [7001] }, "domains.a.nodes.0"],
    [{ nodes: [{ host: "h", port: 1.5 }] }, "domains.a.nodes.0.port"],
    [{ prefixes: ["ok", "\ud800"] }, "domains.a.prefixes.1"],
    [{ prefixes: "up:" }, "domains.a.prefixes"],
    [{ mode: "sentinel" }, "domains.a.mode"],
    [{ codec: "xml" }, "domains.a.codec"],
    [{ scaleReads: "random" }, "domains.a.scaleReads"],
    [{ username: 5 }, "domains.a.username"],
    [{ password: null }, "domains.a.password"],
    [{ tls: true }, "domains.a.tls"],
    [{ natMap: "10.0.0.1" }, "domains.a.natMap"],
    [{ connectionName: "two words" }, "domains.a.connectionName"],
    [{ db: -1 }, "domains.a.db"],
    [{ db: 1 }, "domains.a.db"],
    [{ ejectMs: 5 }, "domains.a.ejectMs"],
    [{ mode: "ring", nodes: ["a:1", "a:1"] }, "domains.a.nodes"],
    [{ sentinels: ["a:1"], name: "main", nodes: [] }, "domains.a.sentinels"],
    [{ cache: { mode: "some" } }, "domains.a.cache.mode"],
    [{ cache: { ttlMs: 0 } }, "domains.a.cache.ttlMs"],
  ];
  for (const [domain, path] of faults) {
    const message = refusal(one(domain));
    assert.ok(message.startsWith(`${path}: `), `${JSON.stringify(domain)} gave: ${message}`);
  }
  assert.equal(resolveOptions(one({ db: 1, mode: "single" }) as OpenOptions).lanes[0]!.db, 1);
});

test("times and sizes are positive safe integers that a timer can hold", () => {
  const timers = ["commandTimeoutMs", "connectTimeoutMs", "silenceTimeoutMs", "refreshIntervalMs", "refreshMinimumMs"];
  for (const name of [...timers, "maxQueue", "maxQueueBytes", "maxKeyBytes", "maxValueBytes", "maxRedirections"]) {
    for (const value of [0, -1, Number.NaN, Infinity, 1.5, "5", null]) {
      assert.ok(refusal(one({}, { [name]: value })).startsWith(`${name}: `), `${name}: ${value}`);
    }
  }
  for (const name of timers) {
    assert.equal(refusal(one({}, { [name]: 2 ** 31 })), `${name}: a timer cannot be longer than 2147483647 ms`);
  }
  assert.match(refusal(one({}, { threads: 65 })), /^threads: /);
  assert.match(refusal(one({}, { threads: 1, caps: { strict: true } })), /^caps\.strict: /);
  assert.match(refusal(one({}, { cacheBytes: -1 })), /^cacheBytes: /);
  assert.match(refusal(one({}, { maxValueBytes: 2 ** 30 })), /^maxValueBytes: /);
});

test("a key limit below what short keys are let through with unseen is refused", () => {
  assert.match(refusal(one({}, { maxKeyBytes: 100 })), /^maxKeyBytes: /);
  assert.equal(resolveOptions(one({}, { maxKeyBytes: 12_288 }) as OpenOptions).lanes[0]!.maxKeyBytes, 12_288);
});

test("R5: a duplicate prefix is an error at open, in one domain or across two, and names both", () => {
  assert.equal(
    refusal(one({ prefixes: ["up:", "x", "up:"] })),
    'domains.a.prefixes.2: prefix "up:" is already taken by domain a',
  );
  assert.equal(
    refusal({ domains: { a: { nodes, prefixes: ["up:"] }, b: { nodes, prefixes: ["fc:", "up:"] } } }),
    'domains.b.prefixes.1: prefix "up:" is already taken by domain a',
  );
  assert.equal(
    refusal({ domains: { a: { nodes, prefixes: [""] }, b: { nodes, prefixes: [""] } } }),
    'domains.b.prefixes.0: prefix "" is already taken by domain a',
  );
});

test("fallbacks must name domains that exist, once each", () => {
  const domains = { a: { nodes }, b: { nodes } };
  assert.equal(refusal({ domains, fallback: { domain: "z" } }), 'fallback.domain: there is no domain "z"');
  assert.equal(refusal({ domains, fallback: { hash: ["a", "z"] } }), 'fallback.hash.1: there is no domain "z"');
  assert.equal(refusal({ domains, fallback: { hash: ["a", "a"] } }), "fallback.hash: a domain is named twice");
  for (const fallback of ["nothing", { hash: [] }, { hash: ["a"], strategy: "crc" }, { domain: "a", more: 1 }]) {
    assert.match(refusal({ domains, fallback }), /^fallback/);
  }
  const resolved = (fallback: OpenOptions["fallback"]): unknown =>
    resolveOptions({ domains, ...(fallback === undefined ? {} : { fallback }) }).fallback;
  assert.deepEqual(resolved({ domain: "b" }), { kind: "domain", domain: 1 });
  assert.deepEqual(resolved({ hash: ["b", "a"] }), { kind: "hash", domains: [1, 0], names: ["b", "a"] });
  assert.deepEqual(resolved({ hash: ["b", "a"], strategy: "md5-modulo" }), { kind: "md5-modulo", domains: [1, 0] });
});

test("E3: a domain named __proto__ is refused and not dropped; constructor is a name like any other", () => {
  const domains = JSON.parse('{"a":{"nodes":["h:1"]},"__proto__":{"nodes":["h:1"],"prefixes":["x"]}}') as object;
  assert.match(refusal({ domains }), /^domains\.__proto__: /);
  const { lanes, prefixes } = resolveOptions({
    domains: { constructor: { nodes, prefixes: ["__proto__", "constructor"] } },
  });
  assert.equal(lanes[0]!.domain, "constructor");
  assert.deepEqual(prefixes, [
    { prefix: "__proto__", domain: 0 },
    { prefix: "constructor", domain: 0 },
  ]);
  assert.equal(({} as { admin?: unknown }).admin, undefined);
});

test("a password never shows in the message of another fault", () => {
  const message = refusal(one({ username: "app", password: "s3cret", codec: "xml" }));
  assert.equal(message.includes("s3cret"), false);
});

/** The rules of the one domain. */
function rulesOf(hotKeys: unknown, own?: unknown): unknown {
  const options = one({ cache: { mode: "hot" }, ...(own === undefined ? {} : { hotKeys: own }) }, { hotKeys });
  return resolveOptions(options as OpenOptions).hotKeys?.rules[0];
}

test("hot keys: thresholds are rates or shares of a node's limit, the instance's or a domain's own", () => {
  const rules = { warn: 5000, critical: 20_000, nodeLimit: 50_000, replicas: true };
  assert.deepEqual(rulesOf(undefined), rules);
  assert.deepEqual(rulesOf({}), rules);
  assert.deepEqual(rulesOf({ warn: undefined, nodeLimit: undefined }, { critical: undefined }), rules);
  assert.deepEqual(rulesOf({ warn: {}, critical: {}, nodeLimit: 80_000 }), {
    ...rules,
    warn: 8000,
    critical: 32_000,
    nodeLimit: 80_000,
  });
  assert.deepEqual(rulesOf({ warn: { share: 0.05 } }, { nodeLimit: 20_000 }), {
    ...rules,
    warn: 1000,
    nodeLimit: 20_000,
  });
  assert.deepEqual(rulesOf({ warn: 1000, replicas: false }, { warn: 200, replicas: true }), { ...rules, warn: 200 });
  assert.deepEqual(rulesOf({ warn: 30_000 }), { ...rules, warn: 30_000, critical: 120_000 });
  assert.deepEqual(rulesOf({ critical: 2000 }), { ...rules, warn: 500, critical: 2000 });
  assert.equal(rulesOf({}, false), undefined, "no domain is left");
  assert.equal(rulesOf(false), undefined);
  const { hotKeys, policies } = resolveOptions({
    domains: { a: { nodes, hotKeys: false }, b: { nodes, cache: { mode: "hot" } } },
    hotKeys: { ttlMs: 1500, allow: ["up:"], deny: ["up:x"], topK: 5 },
  });
  assert.deepEqual(hotKeys, { rules: [null, rules], allow: ["up:"], deny: ["up:x"], topK: 5, source: null });
  assert.equal(policies[1]?.hotTtlMs, 1500);
});

test("hot keys: faults are named by their path", () => {
  assert.match(refusal(one({}, { hotKeys: true })), /^hotKeys: /);
  assert.match(refusal(one({}, { hotKeys: { warm: 5 } })), /^hotKeys: .*warm/);
  assert.match(refusal(one({}, { hotKeys: { warn: 99 } })), /^hotKeys/);
  assert.match(refusal(one({}, { hotKeys: { ttlMs: 999 } })), /^hotKeys.*ttlMs|>=1000/);
  assert.match(refusal(one({}, { hotKeys: { topK: 1001 } })), /hotKeys/);
  assert.match(
    refusal(one({}, { hotKeys: { warn: 6000, critical: 6000 } })),
    /^hotKeys\.warn: must be below critical: 6000 and 6000 are given$/,
  );
  assert.match(
    refusal(one({ hotKeys: { critical: 1000 } }, { hotKeys: { warn: { share: 0.5 } } })),
    /^domains\.a\.hotKeys\.warn: must be below critical: 25000 and 1000 are given$/,
  );
  assert.match(refusal(one({ hotKeys: { ttlMs: 2000 } })), /^domains\.a\.hotKeys/);
});
