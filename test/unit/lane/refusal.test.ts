/** Error replies: what each means, and that a redirect is only believed when it is one. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { ERRORS } from "keylane";
import type { KeylaneErrorCode } from "keylane";

import { parseRedirect, replyError, ruleFor } from "#dist/lane/refusal.js";
import { parseAddress } from "#dist/options/servers.js";

test("the first word of an error reply decides its code and what is done", () => {
  const rules: [string, KeylaneErrorCode, string][] = [
    ["MOVED 3999 127.0.0.1:6381", "KEYLANE_ERR_REDIRECTS", "moved"],
    ["ASK 3999 127.0.0.1:6381", "KEYLANE_ERR_REDIRECTS", "ask"],
    ["TRYAGAIN Multiple keys request during rehashing of slot", "KEYLANE_ERR_TRYAGAIN", "wait"],
    ["CLUSTERDOWN Hash slot not served", "KEYLANE_ERR_CLUSTERDOWN", "refresh"],
    ["LOADING Redis is loading the dataset in memory", "KEYLANE_ERR_LOADING", "primary"],
    ["MASTERDOWN Link with MASTER is down", "KEYLANE_ERR_MASTERDOWN", "primary"],
    ["READONLY You can't write against a read only replica.", "KEYLANE_ERR_READONLY", "refresh"],
    ["BUSY Redis is busy running a script.", "KEYLANE_ERR_BUSY", "wait"],
    ["NOSCRIPT No matching script. Please use EVAL.", "KEYLANE_ERR_NOSCRIPT", "eval"],
    ["CROSSSLOT Keys in request don't hash to the same slot", "KEYLANE_ERR_CROSSSLOT", "surface"],
    ["NOREPLICAS Not enough good replicas to write.", "KEYLANE_ERR_NOREPLICAS", "surface"],
    ["MISCONF Redis is configured to save RDB snapshots", "KEYLANE_ERR_MISCONF", "surface"],
    ["OOM command not allowed when used memory > 'maxmemory'.", "KEYLANE_ERR_OOM", "surface"],
    ["NOPERM this user has no permissions", "KEYLANE_ERR_NOPERM", "surface"],
    ["NOAUTH Authentication required.", "KEYLANE_ERR_AUTH", "surface"],
    ["WRONGPASS invalid username-password pair", "KEYLANE_ERR_AUTH", "surface"],
    ["WRONGTYPE Operation against a key", "KEYLANE_ERR_WRONGTYPE", "surface"],
    ["EXECABORT Transaction discarded because of previous errors.", "KEYLANE_ERR_EXECABORT", "surface"],
    ["ERR value is not an integer or out of range", "KEYLANE_ERR_REPLY", "surface"],
    ["MYSCRIPT said no", "KEYLANE_ERR_REPLY", "surface"],
    ["MOVEDX 1 a:1", "KEYLANE_ERR_REPLY", "surface"],
    ["moved 1 a:1", "KEYLANE_ERR_REPLY", "surface"],
    ["", "KEYLANE_ERR_REPLY", "surface"],
    ["OOM", "KEYLANE_ERR_OOM", "surface"],
    ["__proto__ x", "KEYLANE_ERR_REPLY", "surface"],
    ["constructor x", "KEYLANE_ERR_REPLY", "surface"],
  ];
  for (const [message, code, action] of rules) assert.deepEqual(ruleFor(message), { code, action }, message);
});

test("a refused command certainly did not run: its error says so and keeps the server's words", () => {
  const error = replyError("WRONGTYPE Operation against a key", { command: "INCRBY", slot: 5, node: "a:1" });
  assert.equal(error.code, "KEYLANE_ERR_WRONGTYPE");
  assert.equal(error.message, "WRONGTYPE Operation against a key");
  assert.equal(error.outcome, "rejected");
  assert.deepEqual([error.command, error.slot, error.node], ["INCRBY", 5, "a:1"]);
  for (const message of ["MOVED 1 a:1", "NOSCRIPT x", "ERR x", "NOAUTH x"]) {
    assert.equal(replyError(message, {}).outcome, "rejected", message);
  }
  assert.equal(ERRORS.KEYLANE_ERR_AUTH.outcome, "not-sent");
});

test("redirects: slot, host and port", () => {
  const told: [string, number, string, number][] = [
    ["MOVED 3999 127.0.0.1:6381", 3999, "127.0.0.1", 6381],
    ["MOVED 0 node-a.example:1", 0, "node-a.example", 1],
    ["ASK 16383 2001:db8::1:65535", 16_383, "2001:db8::1", 65_535],
    ["MOVED 42 [2001:db8::1]:6379", 42, "2001:db8::1", 6379],
    ["MOVED 42 :6379", 42, "", 6379],
    ["MOVED 00042 a:6379", 42, "a", 6379],
    ["MOVED 42 a:6379 and more", 42, "a", 6379],
  ];
  for (const [message, slot, host, port] of told) {
    assert.deepEqual(parseRedirect(message), { slot, address: { host, port } }, message);
  }
});

test("G5: only integers 0-16383 are slots", () => {
  const slots = [
    "__proto__",
    "-1",
    "16384",
    "1e3",
    "",
    "+1",
    "1.0",
    "0x10",
    "99999",
    "100000",
    " 5",
    "NaN",
    "length",
    "١",
  ];
  for (const slot of slots) {
    assert.equal(parseRedirect(`MOVED ${slot} 127.0.0.1:6381`), null, JSON.stringify(slot));
    assert.equal(parseRedirect(`ASK ${slot} 127.0.0.1:6381`), null, JSON.stringify(slot));
  }
  assert.equal(([] as unknown[])[0], undefined);
  assert.equal(([] as { host?: unknown }).host, undefined);
});

test("an impossible port or no address at all is no redirect", () => {
  const addresses = ["a", "a:", "a:0", "a:65536", "a:-1", "a:1e3", "a:x", "a: 1", "2001:db8::1:", "a:6379@16379", ":"];
  for (const address of addresses) assert.equal(parseRedirect(`MOVED 1 ${address}`), null, address);
  for (const message of ["MOVED", "MOVED 1", "MOVED 1 ", "ASK"]) assert.equal(parseRedirect(message), null, message);
  assert.deepEqual(parseAddress("h:1"), { host: "h", port: 1 });
  assert.equal(parseAddress(""), null);
});
