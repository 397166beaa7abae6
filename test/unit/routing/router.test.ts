/** Key → domain: longest prefix, fallbacks, and that the fast walk over strings and the native router always agree. */
import assert from "node:assert/strict";
import { test } from "node:test";

import * as fc from "fast-check";

import type { FallbackSpec } from "#dist/native/types.js";
import { NO_DOMAIN, Router } from "#dist/routing/router.js";

const routerOf = (prefixes: readonly string[], fallback: FallbackSpec = { kind: "reject" }): Router =>
  new Router(
    prefixes.map((prefix, domain) => ({ prefix, domain })),
    fallback,
  );

/** What the documentation says, word by word. */
function longest(prefixes: readonly string[], key: string): number {
  let best = NO_DOMAIN;
  for (const [index, prefix] of prefixes.entries()) {
    const better = best === NO_DOMAIN || prefix.length > prefixes[best]!.length;
    if (better && key.startsWith(prefix)) best = index;
  }
  return best;
}

test("R5: the longest prefix wins in whatever order they are given", () => {
  const names = ["user", "user_profile", "user_profile_post"];
  const orders = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ];
  for (const order of orders) {
    const prefixes = order.map((at) => names[at]!);
    const router = routerOf(prefixes);
    const of = (key: string): string | undefined => prefixes[router.domain(key)];
    assert.equal(of("user_profile_x"), "user_profile");
    assert.equal(of("userx"), "user");
    assert.equal(of("user_profile_post1"), "user_profile_post");
    assert.equal(of("user_profile"), "user_profile");
    assert.equal(of("user"), "user");
    for (const key of ["zzz", "use", "", "User", "xuser"]) assert.equal(router.domain(key), NO_DOMAIN, key);
  }
});

test("R5: no match goes to the configured fallback, and to nowhere else", () => {
  assert.equal(routerOf(["up:", "fc:"], { kind: "domain", domain: 1 }).domain("zzz"), 1);
  assert.equal(routerOf(["up:", "fc:"], { kind: "domain", domain: 1 }).domain("up:1"), 0);
  assert.equal(routerOf(["up:", ""]).domain("zzz"), 1);
  assert.equal(routerOf(["up:", ""]).domain(""), 1);
});

test("E3: prefixes named like object properties", () => {
  const router = routerOf(["__proto__", "constructor:", "toString"]);
  assert.deepEqual(
    ["__proto__:1", "constructor:x", "toString", "constructor", "valueOf"].map((key) => router.domain(key)),
    [0, 1, 2, NO_DOMAIN, NO_DOMAIN],
  );
  assert.equal(router.route("__proto__:1").matched, "__proto__");
});

test("route tells domain, slot and the prefix that decided", () => {
  const router = routerOf(["up:", "up:vip:"], { kind: "domain", domain: 0 });
  assert.deepEqual(router.route("up:{foo}"), { domain: 0, slot: 12_182, matched: "up:" });
  assert.deepEqual(router.route("up:vip:{foo}"), { domain: 1, slot: 12_182, matched: "up:vip:" });
  assert.deepEqual(router.route("foo"), { domain: 0, slot: 12_182, matched: null });
  assert.deepEqual(routerOf(["up:"]).route("foo"), { domain: NO_DOMAIN, slot: 12_182, matched: null });
});

test("R4: byte keys are matched by their bytes", () => {
  const router = routerOf(["up:", "é", "日本"]);
  assert.equal(router.domain(Buffer.from("up:1")), 0);
  assert.equal(router.domain(Buffer.from([0xc3, 0xa9, 0x80])), 1);
  assert.equal(router.domain(Buffer.from([0xc3])), NO_DOMAIN);
  assert.equal(router.domain(Buffer.from("xxup:1").subarray(2)), 0);
  assert.equal(router.domain(new Uint8Array()), NO_DOMAIN);
});

test("prefixes beyond ASCII", () => {
  const router = routerOf(["é:", "e", "日", "日本:", "up:ü"]);
  const expected: [string, number][] = [
    ["é:1", 0],
    ["é", NO_DOMAIN],
    ["e\u0301:1", 1],
    ["日x", 2],
    ["日本:1", 3],
    ["日本", 2],
    ["up:ü1", 4],
    ["up:u1", NO_DOMAIN],
  ];
  for (const [key, domain] of expected) assert.equal(router.domain(key), domain, key);
});

test("a lone surrogate counts as U+FFFD, as it is sent", () => {
  const router = routerOf(["\ufffd", "a"]);
  assert.equal(router.domain("\ud800x"), 0);
  assert.equal(router.domain("a\udfff"), 1);
  assert.equal(router.route("\ud800x").slot, router.route("\ufffdx").slot);
});

test("any prefixes, any key: the walk, the native router and the definition agree", () => {
  const unit = fc.constantFrom("a", "b", ":", "_", "\0", "\x7f", "\x80", "é", "ÿ", "日", "👩", "{", "}");
  const text = fc.array(unit, { maxLength: 6 }).map((units) => units.join(""));
  const prefixes = fc.uniqueArray(text, { maxLength: 12 });
  fc.assert(
    fc.property(prefixes, text, text, (given, head, tail) => {
      const router = routerOf(given);
      for (const start of [head, ...given]) {
        const key = start + tail;
        const expected = longest(given, key);
        assert.equal(router.domain(key), expected);
        assert.equal(router.domain(Buffer.from(key)), expected);
        const { domain, matched } = router.route(key);
        assert.equal(domain, expected);
        assert.equal(matched, expected === NO_DOMAIN ? null : given[expected]);
      }
    }),
    { numRuns: 500 },
  );
});

test("300 prefixes of one stem", () => {
  const prefixes = Array.from({ length: 300 }, (_, i) => `domain:${i}:`);
  const router = routerOf(prefixes);
  for (let i = 0; i < 300; i += 1) assert.equal(router.domain(`domain:${i}:key`), i);
  assert.equal(router.domain("domain:300:key"), NO_DOMAIN);
});
