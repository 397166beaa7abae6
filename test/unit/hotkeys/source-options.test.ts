/** Options of hot key sources: what passes, what is refused, and that no refusal quotes a password. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openSource } from "#dist/hotkeys/sources/open.js";
import type { RawConfig } from "#dist/lane/raw.js";
import { hotKeySourceSchema } from "#dist/options/hot-key-source.js";
import { thrown } from "../../support/lanes.js";

const SECRET = "s3cret";
const nameOf = (options: object): string => openSource(hotKeySourceSchema.parse(options), () => undefined).name;
const times = { beatMs: 5000, timeoutMs: 2000 };

test("defaults are filled in", () => {
  assert.deepEqual(hotKeySourceSchema.parse({ kind: "file", directory: "/x" }), {
    kind: "file",
    directory: "/x",
    ...times,
  });
  assert.deepEqual(hotKeySourceSchema.parse({ kind: "redis", domain: "up", beatMs: 1000 }), {
    kind: "redis",
    domain: "up",
    cluster: false,
    key: "keylane:hotkeys",
    ...times,
    beatMs: 1000,
  });
  assert.deepEqual(hotKeySourceSchema.parse({ kind: "nacos", servers: ["http://h:1/ctx"] }), {
    kind: "nacos",
    servers: ["http://h:1/ctx"],
    dataId: "keylane.hotkeys",
    group: "DEFAULT_GROUP",
    namespace: "",
    ...times,
  });
});

test("what is refused is named by its path, without its value", () => {
  const refused: [object, RegExp][] = [
    [{ kind: "zookeeper" }, /kind/],
    [{ kind: "file" }, /directory/],
    [{ kind: "file", directory: "/x", beatMs: 1 }, /beatMs/],
    [{ kind: "file", directory: "/x", [SECRET]: 1, extra: 1 }, /Unrecognized/],
    [{ kind: "redis" }, /either domain or url/],
    [{ kind: "redis", domain: "up", url: "redis://h" }, /either domain or url/],
    [{ kind: "redis", url: `http://:${SECRET}@h` }, /redis:\/\//],
    [{ kind: "redis", url: `redis://:${SECRET}@h/x` }, /database number/],
    [{ kind: "etcd", endpoints: [] }, /endpoints/],
    [{ kind: "etcd", endpoints: [`http://u:${SECRET}@h`] }, /must not hold a user or password/],
    [{ kind: "etcd", endpoints: [`http://h/?token=${SECRET}`] }, /must not hold a query/],
    [{ kind: "etcd", endpoints: [SECRET] }, /http:\/\/ or https:\/\//],
    [{ kind: "nacos", servers: ["http://h"], dataId: "a b" }, /dataId/],
    [{ kind: "apollo", portal: "http://h", servers: ["http://h"], appId: "a", operator: "o" }, /token/],
  ];
  for (const [options, expected] of refused) {
    const { success, error } = hotKeySourceSchema.safeParse(options);
    assert.equal(success, false, JSON.stringify(options));
    const text = JSON.stringify(error!.issues);
    assert.match(text, expected);
    if (!("extra" in options)) assert.ok(!text.includes(SECRET), text);
  }
});

test("a domain that is none, or that has no one place, is refused", () => {
  const given = hotKeySourceSchema.parse({ kind: "redis", domain: "up" });
  thrown(() => openSource(given, () => undefined), "KEYLANE_ERR_OPTIONS", { message: /there is no domain "up"/ });
  const ring = { mode: "ring" } as RawConfig;
  thrown(() => openSource(given, () => ring), "KEYLANE_ERR_OPTIONS", { message: /a ring has no one place/ });
});

test("names tell kind and place, and no secrets", () => {
  assert.equal(nameOf({ kind: "file", directory: "/run/hot" }), "file /run/hot");
  assert.equal(nameOf({ kind: "redis", url: `redis://u:${SECRET}@h:7000/2` }), "redis h:7000 keylane:hotkeys");
  assert.equal(nameOf({ kind: "redis", url: "redis://[::1]" }), "redis ::1:6379 keylane:hotkeys");
  assert.equal(
    nameOf({ kind: "etcd", endpoints: ["http://a:1", "https://b:2"], username: "u", password: SECRET }),
    "etcd a:1,b:2 keylane/hotkeys/",
  );
  assert.equal(nameOf({ kind: "nacos", servers: ["http://a:1"], password: SECRET }), "nacos a:1 keylane.hotkeys");
  const apollo = {
    kind: "apollo",
    portal: "http://p",
    token: SECRET,
    operator: "o",
    servers: ["http://a:1"],
    appId: "ads",
  };
  assert.equal(nameOf(apollo), "apollo a:1 ads keylane.hotkeys");
});
