/** What a real server says, in RESP2 and RESP3, gives both cores the same rows wherever its bytes are cut. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";

import { ScanStatus } from "#dist/native/types.js";
import { encodeCommand } from "#dist/sandbox/resp.js";
import { startSingle } from "#dist/sandbox/index.js";

import { cores } from "../unit/native/cores.js";
import { feed, outcomeOf } from "./feed.js";

const MARK = "the-end-of-the-recording";

/** Commands whose replies cover simple strings, errors, integers, bulks, nulls, nested arrays, and in RESP3 more. */
const COMMANDS: (string | Uint8Array)[][] = [
  ["FLUSHALL"],
  ["SET", "{k}é", Uint8Array.of(0, 0x0d, 0x0a, 0xff)],
  ["GET", "{k}é"],
  ["GET", "absent"],
  ["APPEND", "{k}é", "tail"],
  ["INCRBY", "n", "9007199254740993"],
  ["INCRBY", "n", "-9007199254740999"],
  ["LPUSH", "n", "x"],
  ["HSET", "h", "a", "1", "b", "été"],
  ["HGETALL", "h"],
  ["SADD", "s", "one"],
  ["SMEMBERS", "s"],
  ["ZADD", "z", "1.5", "m", "inf", "n"],
  ["ZRANGE", "z", "0", "-1", "WITHSCORES"],
  ["ZSCORE", "z", "m"],
  ["XADD", "x", "1-1", "f", "v"],
  ["XRANGE", "x", "-", "+"],
  ["COMMAND", "INFO", "get", "nothing"],
  ["EVAL", "return {1, {2, {'three', false}}, redis.status_reply('fine'), redis.error_reply('OH no')}", "0"],
  ["EVAL", "redis.setresp(3) return {map={a=1.5}}", "0"],
  ["EVAL", "return {double=3.25}", "0"],
  ["EVAL", "redis.setresp(3) return redis.call('HGETALL', 'h')", "0"],
  ["EVAL", "return true", "0"],
  ["LRANGE", "absent", "0", "-1"],
  ["BLPOP", "absent", "0.01"],
  ["LOLWUT", "VERSION", "1"],
  ["DEBUG", "PROTOCOL", "attrib"],
  ["DEBUG", "PROTOCOL", "bignum"],
  ["DEBUG", "PROTOCOL", "verbatim"],
  ["DEBUG", "PROTOCOL", "true"],
  ["DEBUG", "PROTOCOL", "set"],
  ["DEBUG", "PROTOCOL", "push"],
  ["PUBLISH", "news", "one"],
];

/** Every byte the server sends in answer to `commands`, without what follows them. */
async function record(host: string, port: number, commands: (string | Uint8Array)[][]): Promise<Uint8Array> {
  const socket = connect(port, host);
  await once(socket, "connect");
  socket.write(Buffer.concat([...commands, ["ECHO", MARK]].map((words) => encodeCommand(words))));
  const mark = Buffer.from(`$${MARK.length}\r\n${MARK}\r\n`);
  let heard = Buffer.alloc(0);
  for await (const chunk of socket) {
    heard = Buffer.concat([heard, chunk as Buffer]);
    if (heard.subarray(-mark.length).equals(mark)) break;
  }
  socket.destroy();
  return Uint8Array.from(heard.subarray(0, -mark.length));
}

test("a recorded connection gives the same rows cut at every byte, in both cores", async () => {
  await using server = await startSingle({ config: { "enable-debug-command": "local" } });
  const { host, port } = server.node;
  const subscribed = [["HELLO", "3"], ["SUBSCRIBE", "news"], ["CLIENT", "TRACKING", "on"], ...COMMANDS];
  for (const commands of [COMMANDS, subscribed]) {
    const stream = await record(host, port, commands);
    const expected = outcomeOf(feed(cores[0], stream, { cuts: [], table: 2000, shift: 0 }));
    assert.equal(expected.status, ScanStatus.MORE);
    assert.equal(expected.consumed, stream.length);
    assert.ok(expected.replies >= commands.length, `${expected.replies} replies to ${commands.length} commands`);
    for (const core of cores) {
      for (let cut = 0; cut <= stream.length; cut++) {
        const outcome = outcomeOf(feed(core, stream, { cuts: [cut], table: 2000, shift: cut % 3 }));
        assert.deepEqual(outcome, expected, `${core.kind}, cut at ${cut}`);
      }
      const cuts = Array.from(stream, (_, at) => at);
      assert.deepEqual(outcomeOf(feed(core, stream, { cuts, table: 1, shift: 4 })), expected, core.kind);
    }
  }
});
