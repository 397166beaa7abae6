/**
 * Servers that are broken or mean harm while a connection is made: it is given up with a clear reason, memory stays bounded,
 * other nodes are unharmed, and no reply of the handshake is taken for one of an operation.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { Keylane } from "keylane";

import { Gate } from "../../support/gate.js";
import { flood, illAndWell, memory, MIB } from "../../support/ill.js";
import { openLanes, rejection } from "../../support/lanes.js";
import { failure, raw, Stub, type StubReply } from "../../support/stub.js";
import { until } from "../../support/until.js";

describe("bad input: the handshake", () => {
  const faults: [name: string, answer: StubReply | "close" | "flood" | "silence", reason: RegExp][] = [
    ["too many clients", failure("ERR max number of clients reached"), /max number of clients/],
    ["protected mode", failure("DENIED Redis is running in protected mode"), /protected mode/],
    ["still loading", failure("LOADING Redis is loading the dataset in memory"), /LOADING/],
    ["random bytes", raw(Buffer.from([1, 2, 3, 200, 13, 10, 0])), /./],
    ["another protocol", raw("HTTP/1.1 400 Bad Request\r\n\r\n"), /./],
    ["512 MB announced", raw("$536870912\r\n"), /./],
    ["a flood", "flood", /before the handshake was over/],
    ["closed at once", "close", /./],
    ["silence", "silence", /./],
  ];

  for (const [name, answer, reason] of faults) {
    it(`${name}: one clear error with the reason, memory bounded, the other node unharmed; then it serves`, async () => {
      await using rig = await illAndWell({ connectTimeoutMs: 300 });
      const { ill, lanes, illKey, wellKey } = rig;
      ill.script("GET", "ill");
      assert.equal(await lanes.get(illKey), "ill");
      const before = memory();
      ill.answer("HELLO", (call) => {
        if (answer === "silence") return new Gate<StubReply>().opened;
        if (answer === "flood") return flood("$536870912\r\n", Buffer.alloc(MIB, "x"))(call);
        if (answer === "close") call.connection.socket.destroy();
        return answer === "close" ? undefined : answer;
      });
      ill.disconnect();
      await until(() => ill.calls("HELLO").length >= 3, { what: "it is dialled again and again" });
      const error = await rejection(lanes.get(illKey), "KEYLANE_ERR_TIMEOUT", {
        outcome: "not-sent",
        node: ill.address,
      });
      assert.match(error.message, reason);
      assert.equal(await lanes.get(wellKey), "well");
      assert.ok(memory() - before < 48 * MIB, `${(memory() - before) / MIB} MiB`);
      ill.answer("HELLO", ({ connection }) => {
        connection.protocol = 2;
        return ["server", "redis", "proto", 2, "mode", "cluster", "role", "master"];
      });
      assert.equal(await lanes.get(illKey, { timeoutMs: 10_000 } as never), "ill");
    });
  }

  it("a part of the handshake unanswered: the connection is not used, so no reply goes astray", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    const late = new Gate<StubReply>();
    const phase = { holding: true };
    stub.answer("CLIENT SETNAME", () => (phase.holding ? late.opened : raw("+OK\r\n")));
    stub.script("GET", "mine");
    const opening = openLanes({ domains: { all: { prefixes: [""], nodes: [stub.address] } }, connectTimeoutMs: 2000 });
    await until(() => stub.calls("CLIENT SETNAME").length >= 1);
    phase.holding = false;
    const lanes = await opening.catch(() => null);
    late.open(raw("+OK\r\n"));
    const used = lanes ?? (await openLanes({ domains: { all: { prefixes: [""], nodes: [stub.address] } } }));
    assert.equal(await used.get("k"), "mine");
  });

  it("open: a server like that is KEYLANE_ERR_CONNECT with the reason, and nothing stays open", async (t) => {
    const stub = await Stub.start();
    t.after(() => stub.stop());
    for (const [, answer, reason] of faults.filter(([, given]) => typeof given !== "string")) {
      stub.answer("HELLO", () => answer as StubReply);
      const opened = Keylane.open({
        domains: { all: { prefixes: [""], nodes: [stub.address] } },
        connectTimeoutMs: 250,
      });
      const error = await rejection(opened, "KEYLANE_ERR_CONNECT", { outcome: "not-sent", domain: "all" });
      assert.match(error.message, reason);
      await until(() => stub.connections.size === 0);
    }
  });
});
