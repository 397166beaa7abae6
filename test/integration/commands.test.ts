/** `command()`: key positions held to a real server, what is refused, scripts and functions, and replies of every kind. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";

import { KeylaneError } from "keylane";

import { plan } from "#dist/lane/commands.js";

import { useC3 } from "../support/fixtures.js";
import { openLanes, rejection, useLanes } from "../support/lanes.js";
import { connectRaw, rawCommand } from "../support/raw.js";
import { nextEvent } from "../support/until.js";

/** Commands with their arguments; the server tells the keys. */
const KEYED = `
GET k|SET k v PX 5|MSET a 1 b 2|MSETNX a 1 b 2|MGET a b c|DEL a b|UNLINK a|EXISTS a b|TOUCH a b|EXPIRE a 1|RENAME a b
COPY a b REPLACE|SORT k BY w_* GET o_* STORE d|SORT k GET # LIMIT 0 5 STORE d|SORT k|SORT_RO k BY w_*|EVAL s 0 x|EVAL s 2 a b c
EVALSHA s 1 a x|EVAL_RO s 1 a|EVALSHA_RO s 1 a|FCALL f 2 a b c|FCALL_RO f 1 a|ZADD z 1 m|ZUNIONSTORE d 2 a b WEIGHTS 1 2
ZINTERSTORE d 1 a|ZDIFFSTORE d 2 a b|ZUNION 2 a b|ZINTER 2 a b WITHSCORES|ZDIFF 2 a b|ZINTERCARD 2 a b LIMIT 1
SINTERCARD 2 a b|SUNIONSTORE d a b|SDIFF a b|SMOVE a b m|LMPOP 2 a b LEFT|BLMPOP 1 2 a b LEFT|ZMPOP 1 a MIN
BZMPOP 1 2 a b MIN|BLPOP a b 1|BRPOPLPUSH a b 1|BLMOVE a b LEFT RIGHT 1|LMOVE a b LEFT RIGHT|BZPOPMIN a b 1|XADD s * f v
XREAD COUNT 2 STREAMS a b 0 0|XREADGROUP GROUP g c COUNT 1 STREAMS a b > >|XREAD BLOCK 5 STREAMS a 0|XGROUP CREATE s g $
XINFO STREAM s|XAUTOCLAIM s g c 1 0|XCLAIM s g c 1 1-1|GEORADIUS k 1 2 3 km STORE d|GEORADIUSBYMEMBER k m 3 km STOREDIST d
GEOSEARCHSTORE d s FROMMEMBER m BYRADIUS 1 km ASC|BITOP AND d a b|BITOP NOT d a|OBJECT ENCODING k|MEMORY USAGE k
MIGRATE h 1 k 0 5|MIGRATE h 1  0 5 KEYS a b|PFCOUNT a b|PFMERGE d a b|LCS a b LEN|HGETALL h|HSET h f v g w|GETEX k PX 5
GETDEL k|LPOS l e|STRLEN k|SETRANGE k 0 v|ZRANGESTORE d s 0 1|RESTORE k 0 v|DUMP k|APPEND k v|XDEL s 1-1|HINCRBY h f 1
PFADD p a b|SETBIT k 1 1|BITFIELD k SET u8 0 1|GETSET k v|INCRBYFLOAT k 1|LINSERT l BEFORE a b|ZRANGEBYSCORE z 0 1`;

const sha = (source: string): string => createHash("sha1").update(source).digest("hex");

describe("command()", () => {
  const c3 = useC3();
  const open = useLanes(() => ({ domains: { all: { prefixes: [""], nodes: c3.value.seeds } } }));

  it("key positions are what the server's COMMAND GETKEYS says", async () => {
    const client = await connectRaw(c3.value.seeds[0]!);
    for (const line of KEYED.trim().split(/[|\n]/)) {
      const [name, ...args] = line.split(" ") as [string, ...string[]];
      const told = await client.text("COMMAND", "GETKEYS", name, ...args).catch((error: Error) => {
        assert.match(error.message, /no key arguments/, line);
        return [];
      });
      const ours = plan(name.toLowerCase(), args);
      assert.deepEqual(
        ours.keys.map((at) => args[at]),
        told,
        line,
      );
    }
    client.close();
  });

  it("whether a command reads or writes is what the server says", async () => {
    const client = await connectRaw(c3.value.seeds[0]!);
    const names = new Set(
      KEYED.trim()
        .split(/[|\n]/)
        .map((line) => line.split(" ")[0]!),
    );
    for (const name of names) {
      if (/^(OBJECT|MEMORY|XINFO|XGROUP)$/.test(name)) continue;
      const [row] = (await client.text("COMMAND", "INFO", name)) as [[string, number, string[]]];
      const args = KEYED.split(/[|\n]/)
        .find((line) => line.startsWith(`${name} `))!
        .split(" ")
        .slice(1);
      assert.equal(plan(name.toLowerCase(), args).read, row[2].includes("readonly"), name);
    }
    client.close();
  });

  it("every type of reply", async () => {
    const lanes = open.value;
    assert.equal(await lanes.command("SET", "r", "v"), "OK");
    assert.equal(await lanes.command("get", "r"), "v");
    assert.equal(await lanes.command("GET", "r:absent"), null);
    assert.equal(await lanes.command("STRLEN", "r"), 1);
    assert.equal(await lanes.command("RPUSH", "r:l", "a", ["b", ["c"]], 4), 4);
    assert.deepEqual(await lanes.command("LRANGE", "r:l", 0, -1), ["a", "b", "c", "4"]);
    assert.deepEqual(await lanes.command("LRANGE", "r:none", 0, -1), []);
    await lanes.command("HSET", "r:h", "f", 1, "é", "ü");
    assert.deepEqual(await lanes.command("HGETALL", "r:h"), { f: "1", é: "ü" });
    assert.deepEqual(await lanes.command("HGETALL", "r:none"), {});
    assert.deepEqual(await lanes.command("HMGET", "r:h", "f", "none"), ["1", null]);
    await lanes.command("ZADD", "r:z", 1.5, "m", "inf", "top");
    assert.equal(await lanes.command("ZSCORE", "r:z", "m"), 1.5);
    assert.equal(await lanes.command("ZSCORE", "r:z", "top"), Infinity);
    await lanes.command("SADD", "r:s", "x");
    assert.deepEqual(await lanes.command("SMEMBERS", "r:s"), ["x"]);
    assert.deepEqual(await lanes.command("EVAL", "return {1,{2,'a'},false,{err='MY no'}}", 1, "r").then(shapeOf), [
      1,
      [2, "a"],
      null,
      "KEYLANE_ERR_REPLY MY no",
    ]);
    assert.equal(await lanes.command("SET", "r", "w", "GET"), "v");
    assert.equal(await lanes.command("SET", "r", "w", "NX"), null);
  });

  it("buffers: replies as bytes", async () => {
    const lanes = open.value;
    const bytes = Buffer.from([0, 0x80, 0xff]);
    await lanes.command("HSET", "b:h", "f", bytes);
    assert.deepEqual(await lanes.command("HGET", "b:h", "f", { buffers: true }), bytes);
    assert.deepEqual(await lanes.command("HVALS", "b:h", { buffers: true }), [bytes]);
    assert.deepEqual(await lanes.command("HGETALL", "b:h", { buffers: true }), { f: bytes });
    await lanes.command("SET", "b:k", bytes);
    assert.deepEqual(await lanes.command("GET", "b:k", { buffers: true }), bytes);
    const dump = (await lanes.command("DUMP", "b:k", { buffers: true })) as Buffer;
    assert.equal(await lanes.command("RESTORE", "b:copy", 0, dump), "OK");
    assert.deepEqual(await rawCommand(lanes.route("b:copy").node!, "GET", "b:copy"), bytes);
  });

  it("the framed commands give the same replies as the generic ones", async () => {
    const lanes = open.value;
    assert.equal(await lanes.command("SET", "f", 5), "OK");
    assert.equal(await lanes.command("INCRBY", "f", 3), 8);
    assert.equal(await lanes.command("EXPIRE", "f", 100), 1);
    const ttl = (await lanes.command("PTTL", "f")) as number;
    assert.ok(ttl > 90_000 && ttl <= 100_000);
    assert.equal(await lanes.command("PEXPIRE", "f", 5000, "GT"), 0);
    assert.equal(await lanes.command("EXISTS", "f"), 1);
    assert.equal(await lanes.command("DEL", "f"), 1);
    assert.equal(await lanes.command("HINCRBY", "f:h", "n", 9007199254740993n), 9007199254740993n);
    assert.equal(await lanes.command("HGET", "f:h", "n"), "9007199254740993");
    assert.equal(await lanes.command("DEL", "{f}1", "{f}2"), 0);
    assert.equal(await lanes.command("EXISTS", "{f}1", "{f}2"), 0);
  });

  it("keys of one slot run together, keys of two are refused and nothing is written", async () => {
    const lanes = open.value;
    assert.equal(await lanes.command("MSET", "{c}a", 1, "{c}b", 2), "OK");
    assert.deepEqual(await lanes.command("MGET", "{c}b", "{c}a", "{c}none"), ["2", "1", null]);
    const { bytesSent } = lanes.stats().domains["all"]!;
    for (const [name, ...args] of [
      ["MSET", "foo", 1, "bar", 2],
      ["MGET", ["foo", "bar"]],
      ["RENAME", "foo", "bar"],
      ["SORT", "foo", "STORE", "bar"],
      ["EVAL", "return 1", 2, "foo", "bar"],
      ["ZUNIONSTORE", "foo", 1, "bar"],
      ["XREAD", "STREAMS", "foo", "bar", 0, 0],
    ] as [string, ...unknown[]][]) {
      await rejection(lanes.command(name, ...args), "KEYLANE_ERR_CROSSSLOT", {
        command: name,
        domain: "all",
        slot: 12_182,
        outcome: "not-sent",
      });
    }
    assert.equal(lanes.stats().domains["all"]!.bytesSent, bytesSent);
    assert.deepEqual(await lanes.getMany(["foo", "bar"]), [null, null]);
  });

  it("what has no key, changes the connection or is not known is refused", async () => {
    const lanes = open.value;
    const notSent = { outcome: "not-sent" } as const;
    for (const [name, ...args] of [
      ["PING"],
      ["DBSIZE"],
      ["SCAN", 0],
      ["KEYS", "*"],
      ["FLUSHALL"],
      ["PUBLISH", "c", "m"],
      ["CONFIG", "GET", "*"],
      ["EVAL", "return 1", 0],
      ["GET"],
      ["MSET"],
      ["XREAD", "COUNT", 1],
      ["MULTI"],
      ["WATCH", "k"],
      ["SELECT", 1],
      ["CLIENT", "REPLY", "OFF"],
      ["MONITOR"],
      ["SUBSCRIBE", "c"],
      ["RESET"],
      ["QUIT"],
      ["SHUTDOWN"],
      ["__proto__", "k"],
      ["constructor", "k"],
    ] as [string, ...unknown[]][]) {
      await rejection(lanes.command(name, ...args), "KEYLANE_ERR_COMMAND", notSent);
    }
    await rejection(lanes.command("NOSUCHCOMMAND", "k"), "KEYLANE_ERR_COMMAND", { command: "NOSUCHCOMMAND" });
    for (const name of ["", undefined, null, 5]) {
      await rejection(lanes.command(name as string, "k"), "KEYLANE_ERR_ARGUMENT", notSent);
    }
    for (const bad of [undefined, null, Number.NaN, true, new Date(), Symbol("s")]) {
      await rejection(lanes.command("SET", "k", bad), "KEYLANE_ERR_ARGUMENT", notSent);
    }
    await rejection(lanes.command("EVAL", "return 1", 5, "k"), "KEYLANE_ERR_ARGUMENT", notSent);
    await rejection(lanes.command("ZUNIONSTORE", "d", 1e9, "k"), "KEYLANE_ERR_ARGUMENT", notSent);
    await rejection(lanes.command("GET", "k", { timeoutMs: -1 }), "KEYLANE_ERR_ARGUMENT", notSent);
    await rejection(lanes.command("HSET", "k", "f", "v", { g: "w" }), "KEYLANE_ERR_ARGUMENT", notSent);
    await rejection(lanes.command("SET", "k", "v", { timeout: 5 }), "KEYLANE_ERR_ARGUMENT", notSent);
    assert.equal(await lanes.exists("k"), false);
  });

  it("the server's own refusals come with their code, and the connection goes on", async () => {
    const lanes = open.value;
    await lanes.command("RPUSH", "w", 1);
    const context = {
      slot: lanes.route("w").slot,
      domain: "all",
      node: lanes.route("w").node!,
      outcome: "rejected",
    } as const;
    await rejection(lanes.incrBy("w"), "KEYLANE_ERR_WRONGTYPE", { ...context, command: "INCRBY", retryable: false });
    await rejection(lanes.command("HGETALL", "w"), "KEYLANE_ERR_WRONGTYPE", { ...context, command: "HGETALL" });
    await rejection(lanes.command("GET", "w", "extra"), "KEYLANE_ERR_REPLY", { ...context, message: /number of arg/ });
    await rejection(lanes.command("SET", "w", "v", "PX", 0), "KEYLANE_ERR_REPLY", { message: /invalid expire/ });
    await rejection(lanes.command("HINCRBY", "w:h", "f", 1.5), "KEYLANE_ERR_REPLY", { message: /not an integer/ });
    assert.equal(await lanes.command("LLEN", "w"), 1);
  });

  it("EVAL and EVALSHA, with keys beyond the first argument deciding the slot", async () => {
    const lanes = open.value;
    const source = "redis.call('SET', KEYS[1], ARGV[1]); return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}";
    assert.deepEqual(await lanes.command("EVAL", source, 1, "e:1", "x"), ["e:1", "x", "x"]);
    assert.deepEqual(await lanes.command("EVALSHA", sha(source), 1, "e:1", "y"), ["e:1", "y", "y"]);
    assert.equal(await lanes.get("e:1"), "y");
    const unknown = sha("return 'never loaded'");
    await rejection(lanes.command("EVALSHA", unknown, 1, "e:1"), "KEYLANE_ERR_NOSCRIPT", {
      command: "EVALSHA",
      outcome: "rejected",
    });
  });

  it("a script goes by its digest; a node that lacks it gets the source once", async () => {
    const lanes = open.value;
    const script = lanes.script("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    assert.equal(script.sha, sha(script.source));
    const keys = ["s:a", "s:b", "s:c", "s:d"];
    const totals = async (): Promise<unknown[]> => Promise.all(keys.map((key) => script.run(key, [5])));
    assert.deepEqual(await totals(), [5, 5, 5, 5]);
    await Promise.all(c3.value.primaries.map((node) => node.command("CONFIG", "RESETSTAT")));
    assert.deepEqual(await totals(), [10, 10, 10, 10]);
    const [first] = c3.value.primaries;
    const hit = keys.filter((key) => lanes.route(key).node === first!.address);
    const stats = await first!.info("commandstats");
    assert.equal(stats.get("cmdstat_eval"), undefined, "known to the node: one EVALSHA a call");
    assert.match(stats.get("cmdstat_evalsha") ?? "calls=0,", new RegExp(`^calls=${hit.length},`));
    await first!.command("SCRIPT", "FLUSH");
    assert.deepEqual(await totals(), [15, 15, 15, 15]);
  });

  it("functions", async () => {
    const library =
      "#!lua name=k\nredis.register_function('put', function(keys, args) return redis.call('SET', keys[1], args[1]) end)";
    await Promise.all(c3.value.primaries.map((node) => node.command("FUNCTION", "LOAD", library)));
    assert.equal(await open.value.command("FCALL", "put", 1, "fn", "v"), "OK");
    assert.equal(await open.value.get("fn"), "v");
  });

  it("what blocks runs beside all other traffic, ends by its deadline, and its own time may be any", async () => {
    const lanes = open.value;
    const waiting = lanes.command("BLPOP", "bl:a", 0, { timeoutMs: 20_000 });
    const long = lanes.command("BLPOP", "bl:b", 5_000_000, { timeoutMs: Number.MAX_SAFE_INTEGER });
    await lanes.set("bl:beside", "here");
    assert.equal(await lanes.get("bl:beside"), "here");
    assert.equal(await lanes.command("RPUSH", "bl:a", "x"), 1);
    assert.deepEqual(await waiting, ["bl:a", "x"]);
    assert.equal(await lanes.command("RPUSH", "bl:b", "y"), 1);
    assert.deepEqual(await long, ["bl:b", "y"]);
    assert.equal(await lanes.command("BLPOP", "bl:a", 0.01), null);
    await rejection(lanes.command("BLPOP", "bl:a", 0, { timeoutMs: 30 }), "KEYLANE_ERR_TIMEOUT", { command: "BLPOP" });
    const aborted = lanes.command("BLPOP", "bl:a", 0, { signal: AbortSignal.timeout(30) });
    await rejection(aborted, "KEYLANE_ERR_ABORTED", { outcome: "unknown" });
    await rejection(lanes.command("BLPOP", "bl:a", "soon"), "KEYLANE_ERR_REPLY", { message: /timeout is not a float/ });
    await rejection(lanes.command("BLPOP", "bl:a", -5), "KEYLANE_ERR_REPLY", { message: /negative/ });
    await rejection(lanes.command("BLPOP", "bl:a", 0, { timeoutMs: Number.NaN }), "KEYLANE_ERR_ARGUMENT");
  });

  it("redis(domain) is the ioredis client, for all that is refused here; it closes with its keylane", async () => {
    const lanes = await openLanes({ domains: { all: { prefixes: [""], nodes: c3.value.seeds } } });
    const client = lanes.redis("all");
    assert.equal(lanes.redis("all"), client);
    const replies = await client.multi().set("{raw}a", 1).incr("{raw}a").exec();
    assert.deepEqual(replies, [
      [null, "OK"],
      [null, 2],
    ]);
    assert.equal(await lanes.get("{raw}a"), "2");
    assert.throws(() => lanes.redis("none"), { code: "KEYLANE_ERR_ARGUMENT" });
    const ended = nextEvent(client, "end");
    await lanes.close();
    await ended;
    assert.throws(() => lanes.redis("all"), { code: "KEYLANE_ERR_CLOSED" });
  });
});

/** Errors in an aggregate as their code and message. */
function shapeOf(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(shapeOf);
  return reply instanceof KeylaneError ? `${reply.code} ${reply.message}` : reply;
}
