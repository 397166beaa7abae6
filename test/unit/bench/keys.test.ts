/** Keys, values and traces of the benchmarks, and the slot definition that the route suite is checked against. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { cutBatches } from "#bench/baselines/baseline.js";
import { makeKeys, numberedPrefixes, readTrace, traceOrder, traceSize } from "#bench/harness/keys.js";
import { encodeCommand, parseNode } from "#bench/harness/nodes.js";
import { crc16, KEYS, routeKeys, slotByDefinition } from "#bench/harness/route-keys.js";

const folder = mkdtempSync(join(tmpdir(), "keylane-bench-"));
after(() => rmSync(folder, { recursive: true }));

const OBJECTS = [7, 4_000_000_000, 7, 0, 4_000_000_000, 7];
const bytes = Buffer.alloc(OBJECTS.length * 4);
for (const [i, object] of OBJECTS.entries()) bytes.writeUInt32BE(object, i * 4);

function traceFile(name: string, content: Buffer): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

describe("keys and values", () => {
  it("are distinct and of one length, for 3 and for 300 prefixes", () => {
    for (const prefixes of [numberedPrefixes(3), numberedPrefixes(300)]) {
      const { keys, values, order } = makeKeys({ count: 3000, prefixes });
      assert.equal(new Set(keys).size, 3000);
      assert.equal(new Set(values).size, 3000);
      assert.deepEqual([...new Set(keys.map((key) => key.length))], [20]);
      assert.deepEqual([...new Set(values.map((value) => value.length))], [40]);
      assert.deepEqual([order.length, order[0], order[2999]], [3000, 0, 2999]);
      assert.equal(new Set(keys.map((key) => key.slice(0, 5))).size, prefixes.length);
    }
  });

  it("of a number are the same whatever the size of the set", () => {
    const small = makeKeys({ count: 10, prefixes: ["up:"] });
    const large = makeKeys({ count: 1000, prefixes: ["up:"] });
    assert.deepEqual(large.keys.slice(0, 10), small.keys);
    assert.deepEqual(large.values.slice(0, 10), small.values);
    assert.equal(small.keys[3], "up:user_0000000003");
  });

  it("are cut into batches in reading order, wrapping when there are too few", () => {
    const set = makeKeys({ count: 10, prefixes: ["up:"] });
    assert.deepEqual(
      cutBatches(set, 4).map((batch) => Array.from(batch)),
      [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
      ],
    );
    assert.deepEqual([...cutBatches(set, 12)[0]], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
  });
});

describe("traces", () => {
  it("are read plain and gzipped", () => {
    const plain = traceFile("plain.trace", bytes);
    const zipped = traceFile("zipped.trace.gz", gzipSync(bytes));
    assert.deepEqual([...readTrace(plain)], OBJECTS);
    assert.deepEqual([...readTrace(zipped)], OBJECTS);
    assert.equal(traceSize(zipped), 3);
  });

  it("number their objects by first appearance", () => {
    const { order, distinct } = traceOrder(Uint32Array.from(OBJECTS));
    assert.deepEqual([...order], [0, 1, 0, 2, 1, 0]);
    assert.equal(distinct, 3);
  });

  it("decide the order in which keys are read", () => {
    const trace = traceFile("order.trace", bytes);
    const { keys, order } = makeKeys({ count: 3, prefixes: ["up:"], trace });
    assert.equal(keys.length, 3);
    assert.deepEqual([...order], [0, 1, 0, 2, 1, 0]);
    assert.throws(() => makeKeys({ count: 4, prefixes: ["up:"], trace }), /holds 3 objects, not 4/);
  });

  it("of a broken length, or empty, are refused", () => {
    assert.throws(() => readTrace(traceFile("cut.trace", bytes.subarray(0, 7))), /32-bit numbers/);
    assert.throws(() => readTrace(traceFile("empty.trace", Buffer.alloc(0))), /32-bit numbers/);
  });
});

describe("commands and addresses", () => {
  it("are RESP, and split at the last colon", () => {
    assert.equal(encodeCommand("GET", "up:1"), "*2\r\n$3\r\nGET\r\n$4\r\nup:1\r\n");
    assert.deepEqual(parseNode("127.0.0.1:7001"), { host: "127.0.0.1", port: 7001 });
    assert.deepEqual(parseNode("::1:7001"), { host: "::1", port: 7001 });
    for (const bad of ["127.0.0.1", ":7001", "host:0", "host:65536", "host:x"]) {
      assert.throws(() => parseNode(bad), /is not host:port/);
    }
  });
});

describe("slots by definition", () => {
  it("follow CRC16/XMODEM and the hash tag rule", () => {
    assert.equal(crc16(Buffer.from("123456789")), 0x31c3);
    const known: [string, number][] = [
      ["foo{{bar}}zap", 4015],
      ["foo{bar}{zap}", 5061],
      ["A}B{C", 7939],
      ["a}b{c}d", 7365],
      ["abc{}", 16_021],
      ["{", 4092],
      ["", 0],
      ["foo{}{bar}", 8363],
    ];
    for (const [key, slot] of known) assert.equal(slotByDefinition(key), slot, key);
  });

  it("come with the domain and prefix each key of the route suite must get", () => {
    const { keys, slots, words, spec } = routeKeys(300);
    assert.equal(keys.length, KEYS);
    assert.equal(new Set(keys).size, KEYS);
    assert.deepEqual([...new Set(keys.map((key) => key.length))], [25]);
    for (const i of [0, 1, 299, 300, 4095]) {
      assert.ok(keys[i].startsWith(spec.prefixes[i % 300].prefix));
      assert.equal(words[i * 2], slots[i] + ((i % 300) % 3) * 16_384);
      assert.equal(words[i * 2 + 1], i % 300);
    }
  });
});
