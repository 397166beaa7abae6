/** The relay does to a connection what its methods say, and only that. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import type { RespClient } from "keylane/sandbox";
import { connectRaw } from "../../support/raw.js";
import { Relay } from "../../support/relay.js";
import { Stub } from "../../support/stub.js";
import { nextEvent, until } from "../../support/until.js";

let stub: Stub;
let relay: Relay;
let client: RespClient;

beforeEach(async () => {
  stub = await Stub.start();
  stub.answer("ECHO", ({ args }) => args[1]);
  relay = await Relay.start(stub.address);
  client = await connectRaw(relay.address, { timeoutMs: 2000 });
});
afterEach(async () => {
  client.close();
  await relay.stop();
  await stub.stop();
});

test("bytes pass unchanged and are counted", async () => {
  const big = Buffer.alloc(3_000_000, "x");
  assert.deepEqual(await client.command("ECHO", big), big);
  assert.equal(relay.down.bytes, big.length + "$3000000\r\n\r\n".length);
  assert.equal(relay.accepted, 1);
  assert.equal(relay.open, 1);
});

test("a delay keeps the order, also when it shrinks", async () => {
  relay.down.delayMs = 60;
  const began = performance.now();
  const first = client.command("ECHO", "1").then(() => performance.now());
  await until(() => stub.calls("ECHO").length === 1);
  relay.down.delayMs = 0;
  const second = client.text("ECHO", "2");
  assert.ok((await first) - began >= 59);
  assert.equal(await second, "2");
});

test("dropped bytes never arrive; the connection stays", async () => {
  relay.up.drop = true;
  const lost = client.command("ECHO", "lost");
  await assert.rejects(lost, { code: "KEYLANE_ERR_TIMEOUT" });
  assert.equal(stub.calls("ECHO").length, 0);
  relay.heal();
  assert.equal(await (client = await connectRaw(relay.address)).text("ECHO", "back"), "back");
});

test("a stalled direction delivers late, but delivers", async () => {
  relay.down.stall = true;
  const reply = client.text("ECHO", "1");
  await until(() => stub.calls("ECHO").length === 1);
  assert.equal(relay.down.bytes, 0);
  relay.down.stall = false;
  assert.equal(await reply, "1");
});

test("a cut connection breaks; the next one works", async () => {
  const lost = client.command("ECHO", "1");
  relay.cut();
  await assert.rejects(lost, { code: "KEYLANE_ERR_CONNECTION_LOST" });
  await until(() => relay.open === 0 && stub.connections.size === 0);
  client = await connectRaw(relay.address);
  assert.equal(await client.text("ECHO", "2"), "2");
});

test("cutAfter lets exactly so many bytes through", async () => {
  relay.down.cutAfter(10);
  await assert.rejects(client.command("ECHO", "0123456789"), { code: "KEYLANE_ERR_CONNECTION_LOST" });
  assert.equal(relay.down.bytes, 10);
});

test("half-open: the server's side is gone and the client is not told", async () => {
  const gone = nextEvent(stub, "connection");
  const other = await connectRaw(relay.address, { timeoutMs: 200 });
  await gone;
  relay.halfOpen();
  await until(() => stub.connections.size === 0);
  assert.equal(other.open, true);
  await assert.rejects(other.command("ECHO", "1"), { code: "KEYLANE_ERR_TIMEOUT" });
});

test("refused and accepted again on the same port; open connections stay", async () => {
  await relay.refuse();
  await assert.rejects(connectRaw(relay.address), { code: "KEYLANE_ERR_CONNECT" });
  assert.equal(await client.text("ECHO", "still"), "still");
  await relay.accept();
  const other = await connectRaw(relay.address);
  assert.equal(await other.text("ECHO", "new"), "new");
  other.close();
});

test("a tap may change what passes", async () => {
  relay.down.tap = (chunk) => Buffer.from(chunk.toString().replace("1", "2"));
  assert.equal(await client.text("ECHO", "x1"), "x2");
});
