/** Longest-prefix routing and its fallbacks, for both cores. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { DOMAIN_NONE, PREFIX_NONE } from "#dist/native/types.js";
import type { FallbackSpec, NativeCore, RouterSpec } from "#dist/native/types.js";

import { cores, portable, rust } from "./cores.js";

const SLOTS = 16_384;
const reject: FallbackSpec = { kind: "reject" };
const domainOf = (word: number): number => word >>> 14;
const slotOf = (word: number): number => word & (SLOTS - 1);
const prefixes = (...list: string[]): RouterSpec["prefixes"] => list.map((prefix, domain) => ({ prefix, domain }));

/** A key for each slot, by search. */
function keyForEachSlot(): string[] {
  const keys: string[] = [];
  for (let i = 0, found = 0; found < SLOTS; i++) {
    const slot = rust.slot(`key:${i}`);
    if (keys[slot] !== undefined) continue;
    keys[slot] = `key:${i}`;
    found++;
  }
  return keys;
}

const keyOfSlot = keyForEachSlot();

/** Domain of each slot under a rendezvous fallback over `names`, whose domains are their positions. */
function rendezvous(core: NativeCore, names: string[]): number[] {
  const router = core.createRouter({
    prefixes: [],
    fallback: { kind: "hash", domains: names.map((_, i) => i), names },
  });
  return keyOfSlot.map((key) => domainOf(router.route(key)));
}

for (const core of cores) {
  const permutations = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ];
  for (const order of permutations) {
    test(`R5: the longest prefix wins, given in order ${order.join("")} (${core.kind})`, () => {
      const names = ["user", "user_profile", "user_profile_post"];
      const router = core.createRouter({
        prefixes: order.map((domain) => ({ prefix: names[domain], domain })),
        fallback: reject,
      });
      const domains: [string, number][] = [
        ["user_profile_x", 1],
        ["userx", 0],
        ["user", 0],
        ["user_profil", 0],
        ["user_profile_post", 2],
        ["user_profile_posts:1", 2],
        ["zzz", DOMAIN_NONE],
        ["use", DOMAIN_NONE],
        ["", DOMAIN_NONE],
      ];
      for (const [key, domain] of domains) {
        const word = router.route(key);
        assert.equal(domainOf(word), domain, key);
        assert.equal(slotOf(word), core.slot(key), key);
        assert.equal(router.matched(key), domain === DOMAIN_NONE ? PREFIX_NONE : order.indexOf(domain), key);
        assert.equal(router.route(Buffer.from(key)), word, key);
        assert.equal(router.matched(Buffer.from(key)), router.matched(key), key);
      }
    });
  }

  test(`R5: a prefix given twice is refused (${core.kind})`, () => {
    assert.throws(() => core.createRouter({ prefixes: prefixes("up:", "fc:", "up:"), fallback: reject }), /prefix 2/);
    assert.throws(() => core.createRouter({ prefixes: prefixes("", ""), fallback: reject }), /prefix 1/);
    assert.throws(() => core.createRouter({ prefixes: prefixes("\ud800", "\udc00"), fallback: reject }), /prefix 1/);
  });

  test(`impossible domains and fallbacks are refused (${core.kind})`, () => {
    const none: RouterSpec["prefixes"] = [];
    for (const domain of [-1, DOMAIN_NONE, 1 << 20]) {
      assert.throws(() => core.createRouter({ prefixes: [{ prefix: "a", domain }], fallback: reject }), `${domain}`);
      assert.throws(() => core.createRouter({ prefixes: none, fallback: { kind: "domain", domain } }), `${domain}`);
      assert.throws(
        () => core.createRouter({ prefixes: none, fallback: { kind: "md5-modulo", domains: [0, domain] } }),
        `${domain}`,
      );
    }
    assert.throws(() => core.createRouter({ prefixes: none, fallback: { kind: "md5-modulo", domains: [] } }));
    assert.throws(() => core.createRouter({ prefixes: none, fallback: { kind: "hash", domains: [], names: [] } }));
    assert.throws(() =>
      core.createRouter({ prefixes: none, fallback: { kind: "hash", domains: [0, 1], names: ["a"] } }),
    );
  });

  test(`the empty prefix matches every key and is the shortest (${core.kind})`, () => {
    const router = core.createRouter({ prefixes: prefixes("up:", "", "up:x"), fallback: reject });
    assert.deepEqual(
      ["", "u", "up:1", "up:x", "zzz"].map((key) => router.matched(key)),
      [1, 1, 0, 2, 1],
    );
    assert.equal(domainOf(router.route("")), 1);
    assert.equal(router.matched(Uint8Array.of(0x80)), 1);
  });

  test(`prefixes are compared as UTF-8 bytes (${core.kind})`, () => {
    const router = core.createRouter({ prefixes: prefixes("é", "😀:", "a\0b", "\ud800"), fallback: reject });
    assert.equal(router.matched("été"), 0);
    assert.equal(router.matched(Uint8Array.of(0xc3, 0xa9)), 0);
    assert.equal(router.matched(Uint8Array.of(0xc3)), PREFIX_NONE);
    assert.equal(router.matched(Uint8Array.of(0xe9)), PREFIX_NONE);
    assert.equal(router.matched("😀:1"), 1);
    assert.equal(router.matched("a\0b"), 2);
    assert.equal(router.matched("\ufffd"), 3);
    assert.equal(router.matched("\udfffx"), 3);
  });

  test(`two prefixes may share a domain, and the greatest domain is allowed (${core.kind})`, () => {
    const router = core.createRouter({
      prefixes: [
        { prefix: "a:", domain: DOMAIN_NONE - 1 },
        { prefix: "b:", domain: DOMAIN_NONE - 1 },
      ],
      fallback: { kind: "domain", domain: 0 },
    });
    assert.equal(domainOf(router.route("a:1")), DOMAIN_NONE - 1);
    assert.equal(domainOf(router.route("b:1")), DOMAIN_NONE - 1);
    assert.equal(domainOf(router.route("c:1")), 0);
    assert.deepEqual([router.matched("a:1"), router.matched("b:1"), router.matched("c:1")], [0, 1, PREFIX_NONE]);
  });

  test(`300 prefixes each find their own keys (${core.kind})`, () => {
    const list = Array.from({ length: 300 }, (_, i) => `app${i % 30}:part${i}:`);
    const router = core.createRouter({ prefixes: prefixes(...list), fallback: reject });
    for (const [index, prefix] of list.entries()) {
      assert.equal(router.matched(prefix), index);
      assert.equal(domainOf(router.route(`${prefix}42`)), index);
      assert.equal(router.matched(prefix.slice(0, -1)), PREFIX_NONE);
    }
  });

  test(`md5-modulo takes the digest as one big integer (${core.kind})`, () => {
    const keys: (string | Uint8Array)[] = ["", "user_5678", "été", "\ud800", Uint8Array.of(0x80), "x".repeat(5000)];
    for (let i = 0; i < 500; i++) keys.push(`key:${i}`);
    for (const count of [1, 2, 3, 7, 1000]) {
      const domains = Array.from({ length: count }, (_, i) => count - 1 - i);
      const router = core.createRouter({ prefixes: prefixes("up:"), fallback: { kind: "md5-modulo", domains } });
      for (const key of keys) {
        const bytes = typeof key === "string" ? Buffer.from(key) : key;
        const digest = BigInt(`0x${createHash("md5").update(bytes).digest("hex")}`);
        const word = router.route(key);
        assert.equal(domainOf(word), domains[Number(digest % BigInt(count))], `${key}`);
        assert.equal(slotOf(word), core.slot(key), `${key}`);
      }
      assert.equal(domainOf(router.route("up:1")), 0);
    }
  });

  test(`rendezvous: a further domain takes its share from the others and moves nothing between them (${core.kind})`, () => {
    const names = ["user_profile", "freq_control", "realtime_billing", "sessions", "ads", "geo"];
    let before = rendezvous(core, names.slice(0, 1));
    assert.ok(before.every((domain) => domain === 0));
    for (let n = 1; n < names.length; n++) {
      const after = rendezvous(core, names.slice(0, n + 1));
      const moved = after.filter((domain, slot) => domain !== before[slot]);
      assert.ok(
        moved.every((domain) => domain === n),
        "a slot moved between old domains",
      );
      const share = SLOTS / (n + 1);
      // Four standard deviations of a binomial draw.
      const slack = 4 * Math.sqrt(share * (n / (n + 1)));
      assert.ok(
        Math.abs(moved.length - share) <= slack,
        `${moved.length} slots of ${share} expected moved to domain ${n}`,
      );
      before = after;
    }
  });

  test(`rendezvous: names decide, not their order (${core.kind})`, () => {
    const names = ["user_profile", "freq_control", "realtime_billing"];
    const forward = rendezvous(core, names);
    const backward = rendezvous(core, names.toReversed());
    assert.deepEqual(
      backward.map((domain) => 2 - domain),
      forward,
    );
  });

  test(`rendezvous: the score is xxh3-64 of the name, a zero byte and the slot in little endian (${core.kind})`, () => {
    const names = ["user_profile", "é"];
    const table = rendezvous(core, names);
    for (const slot of [0, 1, 255, 256, 4097, 16_383]) {
      const tail = Uint8Array.of(0, slot & 0xff, slot >> 8);
      const [first, second] = names.map((name) => core.hash64(Buffer.concat([Buffer.from(name), tail])));
      assert.equal(table[slot], first > second ? 0 : 1, `slot ${slot}`);
    }
  });

  test(`a batch gives what single calls give (${core.kind})`, () => {
    const router = core.createRouter({
      prefixes: prefixes("up:", "fc:"),
      fallback: { kind: "hash", domains: [0, 1, 7], names: ["a", "b", "c"] },
    });
    const keys = ["up:1", "", "fc:{x}1", "été", "zzz", "up", "😀", "{}{up:}"];
    const out = new Int32Array(keys.length * 2 + 1).fill(-9);
    router.routeBatch(
      keys.join(""),
      Int32Array.from(keys, (key) => key.length),
      keys.length,
      out,
    );
    assert.deepEqual([...out], [...keys.flatMap((key) => [router.route(key), router.matched(key)]), -9]);
    const slots = new Int32Array(keys.length + 1).fill(-9);
    core.slotBatch(
      keys.join(""),
      Int32Array.from(keys, (key) => key.length),
      keys.length,
      slots,
    );
    assert.deepEqual([...slots], [...keys.map((key) => core.slot(key)), -9]);
  });
}

test("rendezvous: both cores agree on every slot", () => {
  for (const names of [["a"], ["user_profile", "freq_control"], ["a", "b", "c", "d", "e", "f", "g", "é", ""]]) {
    assert.deepEqual(rendezvous(rust, names), rendezvous(portable, names));
  }
});
