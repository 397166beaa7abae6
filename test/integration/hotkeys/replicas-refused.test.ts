/** Where servers do not tell of changes, or a key cannot be copied, none are made and that is told. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { useC3, useSingle } from "../../support/fixtures.js";
import { leftovers, Replicated, replicatedOn } from "../../support/replicated.js";
import { until } from "../../support/until.js";

const c3 = useC3();
const single = useSingle();
const KEY = "up:hot";

async function openAs(rules: readonly string[]): Promise<Replicated> {
  const [username, password] = ["limited", "secret"];
  for (const node of c3.value.primaries) {
    await node.command("ACL", "SETUSER", username, "reset", "on", `>${password}`, "~*", "&*", "+@all", ...rules);
  }
  return Replicated.open(replicatedOn(c3.value, {}, { username, password }));
}

describe("copies are not made", () => {
  it("for a user that may not be told of changes", async () => {
    const rig = await openAs(["-client|tracking"]);
    await rig.lanes.set(KEY, "v");
    rig.want(KEY, 2);
    await until(() => rig.degraded.length > 0);
    assert.equal(rig.degraded.length, 1);
    assert.match(rig.degraded[0]!, /hot keys are not copied: .*NOPERM/);
    rig.want("up:other", 2);
    await rig.lanes.set("up:other", "v");
    assert.equal(await rig.lanes.get(KEY), "v");
    assert.deepEqual([rig.of(KEY), rig.of("up:other")], [[], []]);
    assert.deepEqual(await leftovers(c3.value, (key) => key === KEY || key === "up:other"), []);
  });

  it("for a user that may not run scripts; what was announced holds nothing", async () => {
    const rig = await openAs(["-@scripting"]);
    await rig.lanes.set(KEY, "v");
    rig.want(KEY, 2);
    await until(() => rig.degraded.length > 0);
    assert.match(rig.degraded[0]!, /NOPERM/);
    await until(() => rig.of(KEY).length === 0);
    assert.equal(await rig.lanes.get(KEY), "v");
  });

  it("on one server", async () => {
    const rig = await Replicated.open({
      ...replicatedOn(c3.value),
      domains: { users: { prefixes: ["up:"], nodes: [single.value.address], mode: "single" } },
    });
    await rig.lanes.set(KEY, "v");
    rig.want(KEY, 2);
    assert.equal(await rig.lanes.get(KEY), "v");
    assert.deepEqual([rig.of(KEY), rig.degraded], [[], []]);
  });
});

describe("copies of another process", () => {
  it("are read and dropped like own ones; names that are none of a copy are left alone", async () => {
    const governor = await Replicated.open(replicatedOn(c3.value));
    const other = await Replicated.open(replicatedOn(c3.value));
    await governor.lanes.set(KEY, "1");
    const names = await governor.copy(KEY, 2, c3.value);
    await other.lanes.set("up:mine", "v");
    other.adopt(KEY, [...names, "up:mine", `up:{a}~up:mine`, `up:{a}b}~${KEY}`]);
    assert.deepEqual(other.of(KEY), names);
    assert.deepEqual(governor.replicas.made(0, KEY), names);
    for (const { name, node } of await other.nodesOf(names, c3.value)) await node.command("SET", name, "as copied");
    assert.equal((await other.lanes.getMany(Array.from({ length: 30 }, () => KEY))).includes("as copied"), true);
    for (let i = 2; i < 12; i += 1) {
      await governor.filled(KEY, 2, c3.value);
      await other.lanes.set(KEY, `${i}`);
      const copies = await other.nodesOf(names, c3.value);
      const left = await Promise.all(copies.map(({ name, node }) => node.command("GET", name)));
      assert.ok(left.every((value) => value === null || String(value) === `${i}`));
      assert.deepEqual(new Set(await governor.lanes.getMany([KEY, KEY, KEY])), new Set([`${i}`]));
    }
    assert.equal(await other.lanes.get("up:mine"), "v");
    other.adopt(KEY, []);
    assert.deepEqual(other.of(KEY), []);
  });
});
