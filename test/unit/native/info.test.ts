/** Which implementation a thread gets, and that it says so. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { native, nativeInfo } from "#dist/native/index.js";

import { portable, rust } from "./cores.js";

test("where the addon loads, it is the one in use", () => {
  assert.deepEqual(nativeInfo(), { kind: "rust" });
  assert.equal(native.kind, "rust");
  assert.equal(native, rust);
});

test("the portable implementation says what it is", () => {
  assert.equal(portable.kind, "portable");
});
