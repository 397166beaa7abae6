/** The sandbox's own RESP parser reads every type, however the bytes are cut. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeCommand, formatAddress, type Reply, ReplyError, ReplyParser, toText } from "keylane/sandbox";

const STREAM = Buffer.concat(
  [
    "+OK\r\n",
    "-MOVED 42 ::1:7000\r\n",
    ":9007199254740991\r\n:9007199254740993\r\n:-3\r\n",
    "$5\r\na\r\nb\xff\r\n",
    "$-1\r\n*-1\r\n_\r\n",
    "$0\r\n\r\n*0\r\n",
    "*3\r\n:1\r\n*2\r\n+x\r\n*0\r\n$1\r\ny\r\n",
    "%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*1\r\n-ERR inside\r\n",
    "~1\r\n#t\r\n#f\r\n,1.5\r\n(170141183460469231731687303715884105728\r\n",
    "=8\r\ntxt:text\r\n!9\r\nERR blob!\r\n",
    ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
    "+after\r\n",
  ].map((text) => Buffer.from(text, "latin1")),
);

const EXPECTED: Reply[] = [
  "OK",
  new ReplyError("MOVED 42 ::1:7000"),
  9007199254740991,
  9007199254740993n,
  -3,
  Buffer.from("a\r\nb\xff", "latin1"),
  null,
  null,
  null,
  Buffer.alloc(0),
  [],
  [1, ["x", []], Buffer.from("y")],
  [Buffer.from("a"), 1, Buffer.from("b"), [new ReplyError("ERR inside")]],
  [true],
  false,
  "1.5",
  170141183460469231731687303715884105728n,
  Buffer.from("text"),
  new ReplyError("ERR blob!"),
  [Buffer.from("invalidate"), [Buffer.from("k")]],
  "after",
];

function parse(pieces: readonly Buffer[]): { replies: Reply[]; pushes: number[] } {
  const parser = new ReplyParser();
  const replies: Reply[] = [];
  const pushes: number[] = [];
  for (const piece of pieces) {
    parser.feed(piece);
    for (let reply = parser.next(); reply !== undefined; reply = parser.next()) {
      if (parser.wasPush) pushes.push(replies.length);
      replies.push(reply);
    }
  }
  return { replies, pushes };
}

test("a stream of all types parses the same for every cut", () => {
  assert.deepEqual(parse([STREAM]), { replies: EXPECTED, pushes: [19] });
  for (let cut = 1; cut < STREAM.length; cut++) {
    const pieces = [STREAM.subarray(0, cut), STREAM.subarray(cut)];
    assert.deepEqual(parse(pieces), { replies: EXPECTED, pushes: [19] }, `cut at ${cut}`);
  }
  const bytes = Array.from(STREAM, (_, index) => STREAM.subarray(index, index + 1));
  assert.deepEqual(parse(bytes), { replies: EXPECTED, pushes: [19] });
});

test("bytes that are no RESP are refused", () => {
  const parser = new ReplyParser();
  parser.feed(Buffer.from("HTTP/1.1 200 OK\r\n"));
  assert.throws(() => parser.next(), /"H" does not begin a RESP value/);
});

test("commands keep their bytes", () => {
  const frame = encodeCommand(["SET", Buffer.from([0x80, 0x0d, 0x0a]), 7, 2n ** 70n, "é"]);
  const expected = Buffer.concat([
    Buffer.from("*5\r\n$3\r\nSET\r\n$3\r\n"),
    Buffer.from([0x80, 0x0d, 0x0a]),
    Buffer.from("\r\n$1\r\n7\r\n$22\r\n1180591620717411303424\r\n$2\r\né\r\n"),
  ]);
  assert.deepEqual(frame, expected);
  assert.deepEqual(toText(parse([frame]).replies[0]!), ["SET", "\ufffd\r\n", "7", "1180591620717411303424", "é"]);
});

test("addresses of both families", () => {
  assert.equal(formatAddress("127.0.0.1", 7000), "127.0.0.1:7000");
  assert.equal(formatAddress("::1", 7000), "[::1]:7000");
});
