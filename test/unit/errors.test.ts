/** The error class and its table: defaults, context, and that nothing is lost between threads or copies of the package. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { MessageChannel } from "node:worker_threads";

import { ERRORS, KeylaneError } from "keylane";
import type { KeylaneErrorCode, SerializedError } from "keylane";

const codes = Object.keys(ERRORS) as KeylaneErrorCode[];

test("every code has a stable form, an outcome and a meaning of its own", () => {
  assert.equal(new Set(Object.values(ERRORS).map((row) => row.text)).size, codes.length);
  for (const code of codes) {
    assert.match(code, /^KEYLANE_ERR_[A-Z_]+$/);
    assert.ok(["not-sent", "rejected", "unknown"].includes(ERRORS[code].outcome), code);
    assert.ok(ERRORS[code].text.length > 10, code);
  }
});

test("an error takes outcome and retryable from the table unless it is told better", () => {
  for (const code of codes) {
    const error = new KeylaneError(code, "message");
    assert.equal(error.code, code);
    assert.equal(error.outcome, ERRORS[code].outcome, code);
    assert.equal(error.retryable, ERRORS[code].retryable, code);
  }
  const told = new KeylaneError("KEYLANE_ERR_TIMEOUT", "message", { outcome: "not-sent", retryable: false });
  assert.equal(told.outcome, "not-sent");
  assert.equal(told.retryable, false);
});

test("an error is an Error with name, stack, message and cause", () => {
  const cause = new Error("below");
  const error = new KeylaneError("KEYLANE_ERR_CONNECT", "above", { cause });
  assert.ok(error instanceof Error);
  assert.equal(error.name, "KeylaneError");
  assert.equal(error.message, "above");
  assert.equal(error.cause, cause);
  assert.match(String(error.stack), /errors\.test/);
  assert.equal(Object.hasOwn(new KeylaneError("KEYLANE_ERR_CONNECT", "alone"), "cause"), false);
});

test("instanceof knows errors of another copy of the package, and nothing else", () => {
  const foreign = Object.defineProperty(new Error("copy"), Symbol.for("keylane.error"), { value: true });
  assert.ok(foreign instanceof KeylaneError);
  for (const other of [new Error("plain"), null, undefined, "KeylaneError", { code: "KEYLANE_ERR_TIMEOUT" }]) {
    assert.equal((other as unknown) instanceof KeylaneError, false);
  }
});

test("an error crosses a thread boundary with all its fields", async () => {
  const error = new KeylaneError("KEYLANE_ERR_CONNECTION_LOST", "INCRBY: broke", {
    command: "INCRBY",
    domain: "realtime_billing",
    slot: 8363,
    node: "127.0.0.1:7007",
    outcome: "unknown",
    cause: new Error("read ECONNRESET"),
  });
  const { port1, port2 } = new MessageChannel();
  const arrived = once(port2, "message");
  port1.postMessage(error.toJSON());
  const [data] = (await arrived) as [SerializedError];
  port1.close();
  const again = KeylaneError.from(data);
  assert.ok(again instanceof KeylaneError);
  assert.deepEqual(again.toJSON(), { ...error.toJSON(), cause: undefined });
  assert.equal(again.cause, "read ECONNRESET");
  assert.deepEqual(
    { ...again.toJSON(), cause: again.cause },
    {
      code: "KEYLANE_ERR_CONNECTION_LOST",
      message: "INCRBY: broke",
      command: "INCRBY",
      domain: "realtime_billing",
      slot: 8363,
      node: "127.0.0.1:7007",
      retryable: true,
      outcome: "unknown",
      cause: "read ECONNRESET",
    },
  );
});

test("JSON.stringify of an error tells the same as toJSON, and no argument or value", () => {
  const error = new KeylaneError("KEYLANE_ERR_WRONGTYPE", "WRONGTYPE Operation", { command: "LPUSH", slot: 3 });
  assert.deepEqual(JSON.parse(JSON.stringify(error)), {
    code: "KEYLANE_ERR_WRONGTYPE",
    message: "WRONGTYPE Operation",
    command: "LPUSH",
    slot: 3,
    retryable: false,
    outcome: "rejected",
  });
});
