/** The set of hot keys: what is published is what every thread reads, as a whole, and its bounds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { once } from "node:events";
import { Worker } from "node:worker_threads";

import { HotSet, MAX_HOT_KEYS } from "#dist/shared/hot-set.js";
import type { HotEntry } from "#dist/shared/hot-set.js";
import { until } from "../../support/until.js";

const entry = (key: string, replicas: readonly string[] = []): HotEntry => ({
  key,
  domain: 0,
  cached: true,
  replicas,
  homes: replicas.map((_, at) => at),
});

test("a set is read as it was published, by every view of its memory", () => {
  const writer = new HotSet();
  const reader = new HotSet(writer.buffer);
  assert.equal(reader.size, 0);
  assert.equal(reader.find("up:1"), undefined);
  const published = [
    { key: "up:1", domain: 0, cached: true, replicas: [], homes: [] },
    { key: 'up:"\\ \ud83d\ude00\n', domain: 2, cached: false, replicas: ["a{x}", "b{y}"], homes: [4, 511] },
  ];
  assert.equal(writer.publish(published), 2);
  assert.deepEqual([...reader.entries()], published);
  assert.deepEqual(reader.find(published[1]!.key), published[1]);
  assert.deepEqual([...writer.entries()], published);
  assert.equal(writer.publish([entry("up:2")]), 1);
  assert.equal(reader.find("up:1"), undefined);
  assert.deepEqual(reader.find("up:2"), entry("up:2"));
  assert.equal(writer.publish([]), 0);
  assert.equal(reader.size, 0);
  assert.equal(reader.find("up:2"), undefined);
});

test("the coldest are left out: after 1,000 keys, and where their names fill the memory", () => {
  const set = new HotSet();
  const many = Array.from({ length: MAX_HOT_KEYS + 5 }, (_, at) => entry(`k${at}`));
  assert.equal(set.publish(many), MAX_HOT_KEYS);
  assert.equal(set.size, MAX_HOT_KEYS);
  assert.notEqual(set.find(`k${MAX_HOT_KEYS - 1}`), undefined);
  assert.equal(set.find(`k${MAX_HOT_KEYS}`), undefined);
  const long = Array.from({ length: 1000 }, (_, at) => entry(`${at}`.padStart(1024, "x")));
  const kept = set.publish(long);
  assert.ok(kept > 490 && kept < 512, `${kept}`);
  assert.deepEqual(
    [...set.entries()].map(({ key }) => key),
    long.slice(0, kept).map(({ key }) => key),
  );
});

test("a thread that reads while another publishes sees whole sets only, and the last one at the end", async () => {
  const set = new HotSet();
  const path = JSON.stringify(new URL(import.meta.resolve("#dist/shared/hot-set.js")).href);
  const program = `
    const { workerData, parentPort } = require("node:worker_threads");
    import(${path}).then(({ HotSet }) => {
      const set = new HotSet(workerData);
      for (let n = 1; n <= 4000; n += 1) {
        const size = 1 + n % 200;
        set.publish(Array.from({ length: size }, (_, at) => ({ key: "key" + at, domain: n, cached: n % 2 === 0, replicas: [String(size)], homes: [n] })));
      }
      parentPort.postMessage("done");
    });`;
  const worker = new Worker(program, { eval: true, workerData: set.buffer });
  const done = once(worker, "exit");
  let last = 0;
  let sets = 0;
  while (last !== 4000) {
    const read = [...set.entries()];
    const [first] = read;
    if (first === undefined || first.domain === last) {
      await new Promise((resolve) => setImmediate(resolve));
      continue;
    }
    assert.ok(first.domain > last, "sets are seen in their order");
    last = first.domain;
    sets += 1;
    assert.equal(read.length, 1 + (last % 200));
    for (const [at, one] of read.entries()) {
      assert.deepEqual(one, {
        key: `key${at}`,
        domain: last,
        cached: last % 2 === 0,
        homes: [last],
        replicas: [String(read.length)],
      });
    }
  }
  assert.ok(sets > 1);
  assert.equal((await done)[0], 0);
});

test("a domain's replicas are not trusted for a while, by any view; others' are", async () => {
  const set = new HotSet();
  const other = new HotSet(set.buffer);
  assert.equal(other.trusts(1), true);
  set.distrust(1, 300);
  assert.equal(other.trusts(1), false);
  assert.equal(set.trusts(1), false);
  assert.equal(other.trusts(0), true);
  assert.equal(other.trusts(2), true);
  await until(() => other.trusts(1));
  assert.equal(set.trusts(1), true);
});
