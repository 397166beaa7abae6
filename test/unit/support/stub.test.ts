/** The scripted server passes for a cluster node until told otherwise. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { connectRaw } from "../../support/raw.js";
import { failure, fields, raw, Stub, type StubOptions } from "../../support/stub.js";

const stubs: Stub[] = [];

async function begin(options?: StubOptions): Promise<Stub> {
  const stub = await Stub.start(options);
  stubs.push(stub);
  return stub;
}

afterEach(async () => {
  await Promise.all(stubs.splice(0).map((stub) => stub.stop()));
});

test("the handshake, in both protocol versions", async () => {
  const stub = await begin();
  const two = await connectRaw(stub.address);
  assert.deepEqual((await two.text("CLUSTER", "SLOTS")) as unknown, [
    [0, 16_383, ["127.0.0.1", stub.port, stub.id, []]],
  ]);
  assert.equal(await two.text("GET", "k").catch((error: Error) => error.message), "ERR unknown command 'GET'");
  const three = await connectRaw(stub.address, { protocol: 3 });
  stub.answer("HGETALL", () => fields({ a: null, b: true }));
  assert.deepEqual(await three.text("HGETALL", "h"), ["a", null, "b", true]);
  assert.deepEqual(await two.text("HGETALL", "h"), ["a", null, "b", 1]);
  assert.equal(stub.calls("HELLO").length, 1);
  two.close();
  three.close();
});

test("scripts, raw bytes, ASKING and pushes", async () => {
  const stub = await begin();
  stub.script("INCR", failure("TRYAGAIN later"), 1, 2);
  stub.answer("GET", ({ asking, args }) => (asking ? args[1] : failure(`ASK 1 ${stub.address}`)));
  stub.script("BAD", raw("$3\r\nab"));
  const client = await connectRaw(stub.address, { timeoutMs: 100 });
  const replies = await Promise.allSettled([1, 2, 3, 4].map(() => client.command("INCR", "k")));
  assert.deepEqual(
    replies.map((reply) => (reply.status === "fulfilled" ? reply.value : String(reply.reason))),
    ["ReplyError: TRYAGAIN later", 1, 2, 2],
  );
  await assert.rejects(client.command("GET", "k"), new RegExp(`^ReplyError: ASK 1 ${stub.address}$`));
  await client.command("ASKING");
  assert.equal(await client.text("GET", "k"), "k");
  await assert.rejects(client.command("BAD"), { code: "KEYLANE_ERR_TIMEOUT" });
});

test("a password, an old server, a server that is no cluster", async () => {
  const locked = await begin({ password: "p" });
  const stranger = await connectRaw(locked.address);
  await assert.rejects(stranger.command("CLUSTER", "SLOTS"), /NOAUTH/);
  await assert.rejects(stranger.command("AUTH", "x"), /WRONGPASS/);
  stranger.close();
  const friend = await connectRaw(locked.address, { password: "p", protocol: 3 });
  assert.equal(await friend.text("CLUSTER", "MYID"), locked.id);
  friend.close();
  const old = await begin({ resp3: false, shards: false, cluster: false });
  const client = await connectRaw(old.address);
  await assert.rejects(client.command("HELLO", 3), /unknown command/);
  await assert.rejects(client.command("CLUSTER", "SHARDS"), /cluster support disabled/);
  client.close();
});

test("several stubs share the slots", async () => {
  const three = await Stub.cluster(3);
  stubs.push(...three);
  const client = await connectRaw(three[1]!.address);
  const shards = (await client.text("CLUSTER", "SHARDS")) as unknown[][];
  assert.deepEqual(
    shards.map(([, slots]) => slots),
    [
      [0, 5460],
      [5461, 10_921],
      [10_922, 16_383],
    ],
  );
  client.close();
});
