/** Replies of every type, limits, full tables and bad bytes, for both cores. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { KIND_HIGH, Kind, ROWS_BASE, ROW_WORDS, SCAN_CONSUMED, SCAN_ROWS, ScanStatus } from "#dist/native/types.js";
import type { NativeCore, ScanLimits } from "#dist/native/types.js";

import { LIMITS, feed, outcomeOf, readRows } from "../../property/feed.js";
import type { Outcome } from "../../property/feed.js";
import type { Row } from "../../property/replies.js";
import { cores } from "./cores.js";

const bytes = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "latin1"));
const nest = (depth: number): string => `${"*1\r\n".repeat(depth)}:1\r\n`;

function scan(core: NativeCore, text: string, limits: Partial<ScanLimits> = {}): Outcome & { read: Row[] } {
  const stream = bytes(text);
  const outcome = outcomeOf(feed(core, stream, { cuts: [], table: 100, shift: 3 }, { ...LIMITS, ...limits }));
  return { ...outcome, read: readRows(stream, outcome.rows) };
}

/** One of every type, and what its rows must be. */
const TYPES: [string, Row[]][] = [
  ["+OK\r\n", [[Kind.SIMPLE, "OK"]]],
  ["+\r\n", [[Kind.SIMPLE, ""]]],
  ["+\xe9\r\n", [[Kind.SIMPLE | KIND_HIGH, "\xe9"]]],
  ["-ERR no\r\n", [[Kind.ERROR, "ERR no"]]],
  ["-\x80\r\n", [[Kind.ERROR | KIND_HIGH, "\x80"]]],
  [":0\r\n", [[Kind.INT32, 0]]],
  [":-1\r\n", [[Kind.INT32, -1]]],
  [":-0\r\n", [[Kind.INT32, 0]]],
  [":00000000000000000000000000000000012\r\n", [[Kind.INT32, 12]]],
  [":+7\r\n", [[Kind.INT32, 7]]],
  [":2147483647\r\n", [[Kind.INT32, 2_147_483_647]]],
  [":-2147483648\r\n", [[Kind.INT32, -2_147_483_648]]],
  [":2147483648\r\n", [[Kind.INT, "2147483648"]]],
  [":-2147483649\r\n", [[Kind.INT, "-2147483649"]]],
  [":18446744073709551616\r\n", [[Kind.INT, "18446744073709551616"]]],
  [":9223372036854775807\r\n", [[Kind.INT, "9223372036854775807"]]],
  ["$0\r\n\r\n", [[Kind.BULK, ""]]],
  ["$4\r\n\r\n\r\n\r\n", [[Kind.BULK, "\r\n\r\n"]]],
  ["$3\r\na\xffb\r\n", [[Kind.BULK | KIND_HIGH, "a\xffb"]]],
  ["$-1\r\n", [[Kind.NULL, 0]]],
  ["*-1\r\n", [[Kind.NULL, 0]]],
  ["_\r\n", [[Kind.NULL, 0]]],
  ["*0\r\n", [[Kind.ARRAY, 0]]],
  [
    "*2\r\n:1\r\n*1\r\n+a\r\n",
    [
      [Kind.ARRAY, 2],
      [Kind.INT32, 1],
      [Kind.ARRAY, 1],
      [Kind.SIMPLE, "a"],
    ],
  ],
  ["%0\r\n", [[Kind.MAP, 0]]],
  [
    "%1\r\n+k\r\n:1\r\n",
    [
      [Kind.MAP, 2],
      [Kind.SIMPLE, "k"],
      [Kind.INT32, 1],
    ],
  ],
  [
    "~1\r\n$1\r\nx\r\n",
    [
      [Kind.SET, 1],
      [Kind.BULK, "x"],
    ],
  ],
  [
    ">2\r\n+invalidate\r\n_\r\n",
    [
      [Kind.PUSH, 2],
      [Kind.SIMPLE, "invalidate"],
      [Kind.NULL, 0],
    ],
  ],
  ["#t\r\n", [[Kind.BOOL, 1]]],
  ["#f\r\n", [[Kind.BOOL, 0]]],
  [",1.25\r\n", [[Kind.DOUBLE, "1.25"]]],
  [",-inf\r\n", [[Kind.DOUBLE, "-inf"]]],
  [",nan\r\n", [[Kind.DOUBLE, "nan"]]],
  [",1.5e-7\r\n", [[Kind.DOUBLE, "1.5e-7"]]],
  [",10.\r\n", [[Kind.DOUBLE, "10."]]],
  [",+.5E9\r\n", [[Kind.DOUBLE, "+.5E9"]]],
  ["(3492890328409238509324850943850943825024385\r\n", [[Kind.BIGNUM, "3492890328409238509324850943850943825024385"]]],
  ["(-12\r\n", [[Kind.BIGNUM, "-12"]]],
  ["!5\r\nERR x\r\n", [[Kind.BLOB_ERROR, "ERR x"]]],
  ["=7\r\ntxt:abc\r\n", [[Kind.VERBATIM, "abc"]]],
  ["=4\r\nmkd:\r\n", [[Kind.VERBATIM, ""]]],
  ["=5\r\ntxt:\xe9\r\n", [[Kind.VERBATIM | KIND_HIGH, "\xe9"]]],
  [
    "|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n",
    [
      [Kind.ATTRIBUTE, 2],
      [Kind.SIMPLE, "ttl"],
      [Kind.INT32, 3600],
      [Kind.BULK, "v"],
    ],
  ],
  [
    "*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n",
    [
      [Kind.ARRAY, 2],
      [Kind.ATTRIBUTE, 2],
      [Kind.SIMPLE, "a"],
      [Kind.SIMPLE, "b"],
      [Kind.INT32, 1],
      [Kind.INT32, 2],
    ],
  ],
  [
    "|0\r\n|1\r\n*?\r\n.\r\n_\r\n:1\r\n",
    [
      [Kind.ATTRIBUTE, 0],
      [Kind.ATTRIBUTE, 2],
      [Kind.ARRAY, 0],
      [Kind.NULL, 0],
      [Kind.INT32, 1],
    ],
  ],
  ["$?\r\n;0\r\n", [[Kind.STREAM, 0]]],
  [
    "$?\r\n;4\r\nHell\r\n;2\r\no\xff\r\n;0\r\n",
    [
      [Kind.STREAM, 2],
      [Kind.BULK, "Hell"],
      [Kind.BULK | KIND_HIGH, "o\xff"],
    ],
  ],
  ["*?\r\n.\r\n", [[Kind.ARRAY, 0]]],
  [
    "*?\r\n:1\r\n*?\r\n.\r\n.\r\n",
    [
      [Kind.ARRAY, 2],
      [Kind.INT32, 1],
      [Kind.ARRAY, 0],
    ],
  ],
  [
    "~?\r\n+a\r\n.\r\n",
    [
      [Kind.SET, 1],
      [Kind.SIMPLE, "a"],
    ],
  ],
  [
    "%?\r\n+a\r\n:1\r\n.\r\n",
    [
      [Kind.MAP, 2],
      [Kind.SIMPLE, "a"],
      [Kind.INT32, 1],
    ],
  ],
];

/** A connection's bytes with every type in it, one reply after the other. */
const RECORDED = TYPES.map(([text]) => text).join("");
const RECORDED_ROWS = TYPES.flatMap(([, rows]) => rows);

/** Bytes that are no reply, each with the offset of the one to blame. */
const BROKEN: [string, number][] = [
  ["x\r\n", 0],
  ["\r\n", 0],
  ["\0", 0],
  ["+a\rb\r\n", 3],
  ["+a\nb\r\n", 2],
  ["-\n", 1],
  [":\r\n", 0],
  [":-\r\n", 0],
  [":1a\r\n", 0],
  [":--1\r\n", 0],
  [":1.5\r\n", 0],
  [": 1\r\n", 0],
  ["$\r\n", 0],
  ["$-2\r\n", 0],
  ["$-01\r\n", 0],
  ["$+1\r\na\r\n", 0],
  ["$1x\r\n", 0],
  ["$2\r\nabc\r\n", 6],
  ["$2\r\nab\n\n", 6],
  ["$2\r\nab\rc", 7],
  ["$99999999999999999999\r\n", 0],
  ["$??\r\n", 0],
  ["*-2\r\n", 0],
  ["*x\r\n", 0],
  ["*2\r\n:1\r\n?\r\n", 8],
  ["%-1\r\n", 0],
  ["~-1\r\n", 0],
  [">-1\r\n", 0],
  [">?\r\n", 0],
  ["*1\r\n>1\r\n:1\r\n", 4],
  ["#x\r\n", 0],
  ["#\r\n", 0],
  ["#tt\r\n", 0],
  ["_x\r\n", 0],
  [",\r\n", 0],
  [",.\r\n", 0],
  [",-\r\n", 0],
  [",1e\r\n", 0],
  [",e5\r\n", 0],
  [",1.2.3\r\n", 0],
  [",NaN\r\n", 0],
  [",infinity\r\n", 0],
  [",0x10\r\n", 0],
  ["(1.5\r\n", 0],
  ["(\r\n", 0],
  ["!-1\r\n", 0],
  ["!?\r\n", 0],
  ["=0\r\n\r\n", 0],
  ["=3\r\ntxt\r\n", 0],
  ["=5\r\ntxtab\r\n", 7],
  [";1\r\na\r\n", 0],
  ["*1\r\n;1\r\na\r\n", 4],
  [".\r\n", 0],
  ["*1\r\n.\r\n", 4],
  ["*?\r\n.x\r\n", 4],
  ["*?\r\n|0\r\n.\r\n", 8],
  ["$?\r\n+a\r\n", 4],
  ["$?\r\n$1\r\na\r\n", 4],
  ["$?\r\n.\r\n", 4],
  ["$?\r\n;-1\r\n", 4],
  ["$?\r\n;?\r\n", 4],
  ["%?\r\n+a\r\n.\r\n", 8],
  ["|-1\r\n", 0],
  ["|?\r\n", 0],
  ["|0\r\n>1\r\n:1\r\n", 4],
];

for (const core of cores) {
  for (const [text, rows] of TYPES) {
    test(`reads ${JSON.stringify(text)} (${core.kind})`, () => {
      const { replies, status, consumed, read } = scan(core, text);
      assert.deepEqual(read, rows);
      assert.deepEqual({ replies, status, consumed }, { replies: 1, status: ScanStatus.MORE, consumed: text.length });
    });
  }

  test(`reads a recorded stream cut once at every byte, and at all of them (${core.kind})`, () => {
    const stream = bytes(RECORDED);
    const whole = outcomeOf(feed(core, stream, { cuts: [], table: 1000, shift: 0 }));
    assert.deepEqual(readRows(stream, whole.rows), RECORDED_ROWS);
    assert.equal(whole.replies, TYPES.length);
    assert.equal(whole.consumed, stream.length);
    for (let cut = 0; cut <= stream.length; cut++) {
      assert.deepEqual(
        outcomeOf(feed(core, stream, { cuts: [cut], table: 1000, shift: cut % 5 })),
        whole,
        `cut at ${cut}`,
      );
    }
    const cuts = Array.from(stream, (_, at) => at);
    assert.deepEqual(outcomeOf(feed(core, stream, { cuts, table: 1, shift: 9 })), whole);
  });

  test(`reads every type cut at every two bytes (${core.kind})`, () => {
    for (const [text, rows] of TYPES) {
      const stream = bytes(`${text}+end\r\n`);
      for (let first = 0; first <= stream.length; first++) {
        for (let second = first; second <= stream.length; second++) {
          const { rows: words } = outcomeOf(feed(core, stream, { cuts: [first, second], table: 9, shift: 1 }));
          assert.deepEqual(
            readRows(stream, words),
            [...rows, [Kind.SIMPLE, "end"]],
            `${text} cut at ${first}, ${second}`,
          );
        }
      }
    }
  });

  for (const [text, blame] of BROKEN) {
    test(`refuses ${JSON.stringify(text)} after what came before it (${core.kind})`, () => {
      const before = "+OK\r\n:1\r\n";
      const { replies, status, consumed, badAt, read } = scan(core, before + text);
      assert.equal(status, ScanStatus.BAD);
      assert.equal(replies, 2);
      assert.equal(consumed, before.length);
      assert.deepEqual(read, [
        [Kind.SIMPLE, "OK"],
        [Kind.INT32, 1],
      ]);
      assert.equal(badAt, before.length + blame);
    });
  }

  test(`nothing scanned is nothing found (${core.kind})`, () => {
    const { replies, status, consumed, read } = scan(core, "");
    assert.deepEqual(
      { replies, status, consumed, read },
      { replies: 0, status: ScanStatus.MORE, consumed: 0, read: [] },
    );
  });

  test(`bytes outside the range given are not read (${core.kind})`, () => {
    const rows = new Int32Array(ROWS_BASE + ROW_WORDS * 4);
    const buf = bytes("-x\r\n+OK\r\n-y\r\n");
    assert.equal(core.createScanner(LIMITS).scan(buf, 4, 9, rows), 1);
    assert.equal(rows[SCAN_CONSUMED], 9);
    assert.equal(rows[SCAN_ROWS], 1);
    assert.deepEqual([...rows.subarray(ROWS_BASE, ROWS_BASE + ROW_WORDS)], [Kind.SIMPLE, 5, 2]);
  });

  test(`says how much of a bulk is missing (${core.kind})`, () => {
    const [step] = feed(core, bytes("+OK\r\n$1000\r\nabc"), { cuts: [], table: 4, shift: 2 });
    assert.deepEqual([step.replies, step.status, step.consumed, step.needed], [1, ScanStatus.MORE, 5, 999]);
  });

  test(`a full table is emptied, or grown when one reply does not fit (${core.kind})`, () => {
    const stream = bytes(":1\r\n:2\r\n:3\r\n*3\r\n:4\r\n:5\r\n:6\r\n:7\r\n");
    const steps = feed(core, stream, { cuts: [], table: 2, shift: 0 });
    assert.deepEqual(
      steps.map(({ replies, status, rowsNeeded }) => [replies, status, rowsNeeded]),
      [
        [2, ScanStatus.TABLE_FULL, 0],
        [1, ScanStatus.TABLE_FULL, 0],
        [0, ScanStatus.TABLE_FULL, 4],
        [1, ScanStatus.TABLE_FULL, 0],
        [1, ScanStatus.MORE, 0],
      ],
    );
    assert.deepEqual(readRows(stream, outcomeOf(steps).rows), [
      ...[1, 2, 3].map((value): Row => [Kind.INT32, value]),
      [Kind.ARRAY, 3],
      ...[4, 5, 6, 7].map((value): Row => [Kind.INT32, value]),
    ]);
  });

  test(`a reply of very many rows, whole and in pieces (${core.kind})`, () => {
    const count = 5000;
    const stream = bytes(`*${count}\r\n${":7\r\n".repeat(count)}`);
    const rows = [[Kind.ARRAY, count], ...Array.from({ length: count }, () => [Kind.INT32, 7])];
    for (const cuts of [[], [9000, 9001, 15_000]]) {
      for (const table of [count + 1, 10]) {
        const outcome = outcomeOf(feed(core, stream, { cuts, table, shift: 2 }));
        assert.equal(outcome.replies, 1);
        assert.deepEqual(readRows(stream, outcome.rows), rows);
      }
    }
  });

  test(`reset forgets the reply in progress (${core.kind})`, () => {
    const scanner = core.createScanner(LIMITS);
    const rows = new Int32Array(ROWS_BASE + ROW_WORDS * 4);
    const half = bytes("*2\r\n$5\r\nhel");
    assert.equal(scanner.scan(half, 0, half.length, rows), 0);
    scanner.reset();
    const whole = bytes("+OK\r\n");
    assert.equal(scanner.scan(whole, 0, whole.length, rows), 1);
    assert.deepEqual([...rows.subarray(ROWS_BASE, ROWS_BASE + ROW_WORDS)], [Kind.SIMPLE, 1, 2]);
    const bad = bytes("?");
    assert.equal(scanner.scan(bad, 0, 1, rows), 0);
    scanner.reset();
    assert.equal(scanner.scan(whole, 0, whole.length, rows), 1);
  });

  test(`bad bytes stay bad until reset (${core.kind})`, () => {
    const scanner = core.createScanner(LIMITS);
    const rows = new Int32Array(ROWS_BASE + ROW_WORDS * 4);
    const buf = bytes("+OK\r\n*1\r\n?+OK\r\n");
    assert.equal(scanner.scan(buf, 0, buf.length, rows), 1);
    assert.deepEqual([...rows.subarray(0, ROWS_BASE)], [5, 1, ScanStatus.BAD, 0, 0, 9, 0, 0]);
    assert.equal(scanner.scan(buf, 5, buf.length, rows), 0);
    assert.deepEqual([...rows.subarray(0, ROWS_BASE)], [5, 0, ScanStatus.BAD, 0, 0, 9, 0, 0]);
  });

  test(`calls that make no sense are refused and change nothing (${core.kind})`, () => {
    const scanner = core.createScanner(LIMITS);
    const rows = new Int32Array(ROWS_BASE + ROW_WORDS * 4).fill(9);
    const buf = bytes("$5\r\nhello\r\n");
    const short = new Int32Array(ROWS_BASE - 1);
    assert.throws(() => scanner.scan(buf, 3, 2, rows));
    assert.throws(() => scanner.scan(buf, 0, buf.length + 1, rows));
    assert.throws(() => scanner.scan(buf, -1, 4, rows));
    assert.throws(() => scanner.scan(buf, 0.5, 4, rows));
    assert.throws(() => scanner.scan(buf, 0, Number.NaN, rows));
    assert.throws(() => scanner.scan(buf, 0, buf.length, short));
    assert.ok(rows.every((word) => word === 9));
    assert.equal(scanner.scan(buf, 0, 7, rows), 0);
    assert.throws(() => scanner.scan(buf, 0, 6, rows), "fewer bytes than were read before");
    assert.equal(scanner.scan(buf, 0, buf.length, rows), 1);
    assert.deepEqual([...rows.subarray(ROWS_BASE, ROWS_BASE + ROW_WORDS)], [Kind.BULK, 4, 5]);
  });

  test(`limits are whole numbers or Infinity (${core.kind})`, () => {
    for (const limit of [-1, 1.5, Number.NaN]) {
      assert.throws(() => core.createScanner({ ...LIMITS, maxRows: limit }), RangeError, `${limit}`);
      assert.throws(() => core.createScanner({ ...LIMITS, maxLine: limit }), RangeError, `${limit}`);
    }
    const all = { maxBulk: Infinity, maxRows: 2 ** 40, maxDepth: Infinity, maxLine: Infinity };
    assert.deepEqual(scan(core, "*1\r\n$2\r\nab\r\n", all).read, [
      [Kind.ARRAY, 1],
      [Kind.BULK, "ab"],
    ]);
  });

  test(`limits hold, and what is at a limit passes (${core.kind})`, () => {
    const pairs: [string, Partial<ScanLimits>, string, string][] = [
      ["bulk", { maxBulk: 5 }, "$5\r\nhello\r\n", "$6\r\n"],
      ["piece", { maxBulk: 5 }, "$?\r\n;5\r\nhello\r\n;0\r\n", "$?\r\n;6\r\n"],
      ["verbatim", { maxBulk: 5 }, "=5\r\ntxt:a\r\n", "=6\r\n"],
      ["blob error", { maxBulk: 5 }, "!5\r\nhello\r\n", "!6\r\n"],
      ["line", { maxLine: 5 }, "+hello\r\n", "+hello!\r\n"],
      ["endless line", { maxLine: 5 }, "-hello\r\n", "-hello!"],
      ["depth", { maxDepth: 3 }, nest(3), nest(4)],
      ["rows of an array", { maxRows: 3 }, "*2\r\n:1\r\n:2\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n"],
      ["rows of a map", { maxRows: 5 }, "%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "%3\r\n"],
      ["declared rows", { maxRows: 1000 }, "*0\r\n", "*2147483647\r\n"],
      ["declared pairs", { maxRows: 1000 }, "%0\r\n", "%2147483647\r\n"],
      ["rows of a stream", { maxRows: 3 }, "*?\r\n:1\r\n:2\r\n.\r\n", "*?\r\n:1\r\n:2\r\n:3\r\n"],
      ["rows of an attribute", { maxRows: 4 }, "|1\r\n:1\r\n:2\r\n:3\r\n", "|1\r\n:1\r\n:2\r\n*1\r\n:3\r\n"],
    ];
    for (const [what, limits, good, bad] of pairs) {
      assert.deepEqual([scan(core, good, limits).replies, scan(core, good, limits).status], [1, ScanStatus.MORE], what);
      assert.deepEqual([scan(core, bad, limits).replies, scan(core, bad, limits).status], [0, ScanStatus.BAD], what);
    }
  });
}
