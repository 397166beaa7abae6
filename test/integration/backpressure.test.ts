/**
 * A server that stops reading: what the socket holds back must still be, byte for byte, what was asked, however many turns
 * are encoded meanwhile into pooled buffers.
 */
import assert from "node:assert/strict";
import { test } from "node:test";

import { Keylane } from "keylane";

import { useSingle } from "../support/fixtures.js";
import { until } from "../support/until.js";

/** A turn's frames fit a pooled buffer (256 KiB); all of them together are more than the kernel's socket buffers hold. */
const TURNS = 120;
const PER_TURN = 10;
const VALUES = TURNS * PER_TURN;
const VALUE_BYTES = 20_000;

const single = useSingle();

/** A value that names its key in every part of it. */
const valueOf = (index: number): string => `${index}|`.repeat(Math.ceil(VALUE_BYTES / `${index}|`.length));

test("writes held back by a paused server arrive unchanged", async () => {
  await using lanes = await Keylane.open({
    domains: { all: { prefixes: [""], nodes: [single.value.address], mode: "single" } },
    commandTimeoutMs: 30_000,
    silenceTimeoutMs: 30_000,
  });
  single.value.node.pause();
  const sets: Promise<boolean>[] = [];
  for (let turn = 0; turn < TURNS; turn += 1) {
    for (let i = 0; i < PER_TURN; i += 1) sets.push(lanes.set(`k:${sets.length}`, valueOf(sets.length)));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until(() => lanes.stats().domains["all"]!.writes >= TURNS, { what: "every turn to be written" });
  assert.equal(lanes.stats().domains["all"]!.succeeded, 0, "nothing can be answered while the server is paused");
  single.value.node.resume();
  assert.deepEqual(new Set(await Promise.all(sets)), new Set([true]));
  const read = await lanes.getMany(Array.from({ length: VALUES }, (_, i) => `k:${i}`));
  assert.deepEqual(
    read.findIndex((value, i) => value !== valueOf(i)),
    -1,
  );
});
