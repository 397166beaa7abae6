/** How `keylane hotkeys` shows keys, which may be any bytes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { jsonKey, shownKey } from "#dist/cli/hotkeys/key.js";

const shown = (text: string | number[]): string => shownKey(Buffer.from(text as string));

test("a key is shown in one line of printable text, and two keys are not shown alike", () => {
  assert.equal(shown("up:é:日本"), "up:é:日本");
  assert.equal(shown("a\u001b[31m\n\u202e"), String.raw`a\x1b[31m\x0a\xe2\x80\xae`);
  assert.equal(shown(String.raw`a\x1b`), String.raw`a\x5cx1b`);
  assert.equal(shown([0x66, 0xff, 0x5c, 0x00]), String.raw`f\xff\x5c\x00`);
  assert.equal(shown(""), "");
  assert.equal(shown("k".repeat(64)), "k".repeat(64));
  assert.equal(shown("k".repeat(65)), `${"k".repeat(63)}…`);
});

test("JSON has the bytes of a key that is no text", () => {
  assert.deepEqual(jsonKey(Buffer.from("é")), { key: "é" });
  assert.deepEqual(jsonKey(Buffer.from([0xff, 0x61])), { key: String.raw`\xffa`, hex: "ff61" });
});
